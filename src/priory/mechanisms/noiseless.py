"""Noiseless: measurements of so large a budget that they have no noise, for estimators that weigh by it."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from priory.privacy.measurement import Measurement

# Far below what a whole record is.
LEAST_STDDEV = 0.01


def weighable(measurements: Iterable[Measurement], least: float = LEAST_STDDEV) -> list[Measurement]:
    """The measurements, none with less noise than an estimator can divide by."""
    return [replace(measurement, stddev=np.maximum(measurement.stddev, least)) for measurement in measurements]
