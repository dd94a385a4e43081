"""Experiments: the papers' figures and our own, each resumable, each with a table and a picture under results/."""
