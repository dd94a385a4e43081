"""App: the jobs that people ask for, from a private table to a release."""
