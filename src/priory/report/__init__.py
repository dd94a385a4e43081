"""Report: a release as one page to look at."""
