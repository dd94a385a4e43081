"""Softmax: shares in proportion to exponentials, with the logarithm of their sum."""

import numpy as np

from priory.factor import Array


def softmax(logs: Array) -> tuple[float, Array]:
    """log Σ exp(logs) and exp(logs) divided by that sum; −∞ and zeros where all are −∞."""
    top = logs.max()
    if np.isneginf(top):
        return -np.inf, np.zeros(len(logs))
    shares = np.exp(logs - top)
    mass = shares.sum()
    return float(top + np.log(mass)), shares / mass
