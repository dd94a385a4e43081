"""Steps: the pages of the studio, a module for each step of the job."""
