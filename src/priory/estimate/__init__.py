"""Estimate: from noisy measurements to the model that explains them and moves no further than they say."""
