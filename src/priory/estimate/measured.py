"""Measured: measurements as an estimate takes them: in counts, with some noise, the public number of rows aside."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from priory.estimate.units import in_counts
from priory.privacy.measurement import Measurement

# Where a budget is so large that noise all but vanishes, a tenth of a count is still allowed for.
LEAST_STDDEV = 0.1


def evidence(measurements: Iterable[Measurement]) -> list[Measurement]:
    """What an estimate rests on: what noise was added to, in counts; the number of rows aside where that is public."""
    return noisy([in_counts(m) for m in measurements if m.query.clique or not m.is_public], LEAST_STDDEV)


def noisy(measurements: Iterable[Measurement], least: float) -> list[Measurement]:
    """The measurements, none with less noise than a standard deviation of `least`: estimators divide by it."""
    return [m if np.min(m.stddev) >= least else _blurred(m, least) for m in measurements]


def _blurred(measurement: Measurement, least: float) -> Measurement:
    stddev = np.maximum(measurement.stddev, least)
    return replace(measurement, stddev=stddev if stddev.ndim else float(stddev))


def public_total(measurements: Iterable[Measurement]) -> float | None:
    """The number of rows, where it was measured without noise because it is public."""
    totals = [float(m.values) for m in measurements if not m.query.clique and m.is_public]
    return max(1.0, totals[0]) if totals else None
