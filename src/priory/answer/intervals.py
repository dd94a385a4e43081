"""Intervals: an answer with its ends, and where it comes from."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from priory.errors import OptionError
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.queries.parts import Identity
from priory.queries.query import Query

Source = Literal["measured", "inferred", "independent by assumption", "drawn", "prior"]


@dataclass(frozen=True, eq=False)
class Interval:
    """An answer with its interval.

    Attributes:
        estimate: the model's answers, of the query's shape.
        low: the lower ends; NaN where nothing is known of the error.
        high: the upper ends.
        source: "measured" where a measurement has all attributes of the query; "inferred" where it counts only sums of
            what the query tells apart, or where measurements tie the attributes together only through others, and what
            the model assumes is judged by how it predicts measured marginals left out; "independent by assumption"
            where nothing ties some of them to the others; "drawn" where they are counted on rows drawn from the model,
            as working them out would take too much memory; "prior" where nothing measured speaks of some of them:
            nothing is then known of the error.
    """

    estimate: Array
    low: Array
    high: Array
    source: Source


def source_of(query: Query, measurements: Iterable[Measurement]) -> Source:
    """Where the answers of a query come from."""
    cliques = [frozenset(measurement.query.clique) for measurement in measurements]
    wanted = set(query.clique)
    if any(wanted <= clique for clique in cliques):
        return "measured"
    return "inferred" if wanted <= frozenset().union(*cliques) else "prior"


def interval_of(answer: Array, errors: Array, hidden: Array, level: float, source: Source) -> Interval:
    """The interval of answers that redraws miss by `errors`, and by `hidden` besides."""
    spread = np.sqrt(np.mean(errors**2, axis=0))
    margin = np.hypot(drawn_quantile(level, len(errors)) * spread, normal_quantile(level) * hidden)
    return Interval(answer, answer - margin, answer + margin, source)


def noise_left(query: Query, measurement: Measurement) -> Array:
    """The standard deviation of a query's answers if they were added up from those of a measured marginal."""
    if query == measurement.query:
        return np.broadcast_to(np.asarray(measurement.stddev, dtype=np.float64), query.shape)
    variances = np.asarray(measurement.variance)
    for name, size in zip(measurement.query.clique, measurement.query.domain.shape, strict=True):
        if name not in query.clique:
            variances = variances * size
    for part, size in zip(query.parts, query.domain.shape, strict=True):
        norms = np.ones(size) if isinstance(part, Identity) else np.sum(part.matrix(size).astype(float) ** 2, axis=1)
        variances = np.multiply.outer(variances, norms)
    return np.asarray(np.sqrt(variances))


def noise_margin(measurement: Measurement, level: float) -> Array:
    """How far the noise of a measurement goes, up or down, in all but 1 − `level` of cases."""
    if measurement.noise is not None and measurement.noise.kind == "laplace":
        return np.asarray(-math.log(1 - level) / 2**0.5 * measurement.stddev)
    return np.asarray(normal_quantile(level) * measurement.stddev)


def normal_quantile(level: float) -> float:
    """How many standard deviations of a normal variable hold it with chance `level`."""
    return NormalDist().inv_cdf((1 + level) / 2)


def drawn_quantile(level: float, draws: int) -> float:
    """The same where the deviation is known from so many draws only: Student's, by its expansion in 1/draws."""
    z = normal_quantile(level)
    first = (z**3 + z) / (4 * draws)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * draws**2)
    return z + first + second + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * draws**3)


def check_level(level: object) -> None:
    """Refuse what is no share."""
    if not isinstance(level, int | float | np.floating) or not 0 < level < 1:
        raise OptionError("level", f"a share between 0 and 1; got {level!r}")
