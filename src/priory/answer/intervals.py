"""Intervals: how sure a model is of its answers, found by drawing the noise again.

The answers that the model itself would give get fresh noise of the kind and scale that was measured with, and the
estimate is repeated; how far the repeated answers lie from the model's says how far the model's lie from the truth. No
rows are resampled: the target is the table. What stopping shrinks away and redrawing cannot show is added from the
estimated error of the fit.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from priory.errors import OptionError
from priory.estimate.estimator import refitted
from priory.factor import Array
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.query import Query

Source = Literal["measured", "inferred", "prior"]
Refit = Callable[[Model, Sequence[Measurement]], Model]


@dataclass(frozen=True, eq=False)
class Interval:
    """An answer with its interval.

    Attributes:
        estimate: the model's answers, of the query's shape.
        low: the lower ends.
        high: the upper ends.
        source: "measured" where a measurement holds all attributes of the query, "inferred" where measurements tie them
            together only through others, "prior" where nothing measured speaks of some of them. The intervals of the
            latter two do not cover what the model assumes.
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


def intervals(
    model: Model,
    measurements: Sequence[Measurement],
    queries: Sequence[Query],
    *,
    level: float = 0.9,
    draws: int = 50,
    seed: int = 0,
    workers: int | None = None,
    refit: Refit = refitted,
) -> list[Interval]:
    """The model's answers with intervals that hold the true ones about `level` of the time.

    Args:
        model: an estimate.
        measurements: what it was estimated from.
        queries: what is asked.
        level: the share of answers whose interval should hold the truth.
        draws: how often the noise is drawn again.
        seed: of those draws, which are no release.
        workers: how many at a time; one for each core by default.
        refit: how an estimate is repeated.

    Raises:
        OptionError: the level is not between 0 and 1, or there are fewer than 2 draws.
    """
    if not 0 < level < 1:
        raise OptionError("level", f"a share between 0 and 1; got {level}")
    if draws < 2:
        raise OptionError("draws", f"at least 2; got {draws}")
    chances = np.random.default_rng(seed).spawn(draws)
    fitted = model.answers([measurement.query for measurement in measurements])

    def redrawn(rng: np.random.Generator) -> tuple[Array, Array, list[Array]]:
        again = [_with_noise(m, answer, rng) for m, answer in zip(measurements, fitted, strict=True)]
        repeat = refit(model, again)
        added = _joined([m.values - answer for m, answer in zip(again, fitted, strict=True)])
        moved = _joined(repeat.answers([m.query for m in measurements])) - _joined(fitted)
        return added, moved, repeat.answers(queries)

    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        repeats = list(pool.map(redrawn, chances))
    widening = _Widening.of(measurements, fitted, np.array([r[0] for r in repeats]), np.array([r[1] for r in repeats]))
    found = []
    for number, (query, answer) in enumerate(zip(queries, model.answers(queries), strict=True)):
        errors = np.array([repeat[2][number] for repeat in repeats]) - answer
        source = source_of(query, measurements)
        stddev = min((m.variance for m in measurements if m.query == query), default=np.nan) ** 0.5
        factor = widening(answer / stddev) if np.isfinite(stddev) else np.ones(answer.shape)
        # Weibull's quantiles are those a further draw falls below with the wanted chance, however few the draws.
        low, high = np.quantile(errors, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull") * factor
        found.append(Interval(answer, answer - high, answer - low, source))
    return found


@dataclass(frozen=True, eq=False)
class _Widening:
    """By how much errors exceed what redrawing shows, for measured answers of each size.

    An answer F_j with leverage h_j = ∂F_j/∂y_j has a mean squared error, in units of its noise, that Stein's formula
    ((y_j − F_j)/σ)² − 1 + 2h_j estimates without bias; redrawing shows only its variance. The two are compared over
    answers of like size, as a single one says next to nothing.

    Attributes:
        edges: the sizes, in standard deviations, between the groups.
        factors: for each group √(error/variance), at least 1.
    """

    edges: Array
    factors: Array

    @classmethod
    def of(
        cls, measurements: Sequence[Measurement], fitted: Sequence[Array], added: Array, moved: Array
    ) -> "_Widening":
        """Work them out from the noise that was added in each draw and how the answers moved."""
        stddevs = _joined([np.full(m.query.shape, m.stddev) for m in measurements])
        sizes = _joined(fitted) / stddevs
        misfit = (_joined([m.values for m in measurements]) - _joined(fitted)) / stddevs
        leverage = np.mean(added * moved, axis=0) / stddevs**2
        errors = misfit**2 - 1 + 2 * leverage
        variances = np.mean(moved**2, axis=0) / stddevs**2
        edges = _edges(sizes)
        group = np.searchsorted(edges, sizes)
        factors = np.ones(len(edges) + 1)
        for number in range(len(factors)):
            inside = group == number
            if inside.any() and variances[inside].sum() > 0:
                factors[number] = np.sqrt(max(1.0, float(errors[inside].sum() / variances[inside].sum())))
        return cls(edges, factors)

    def __call__(self, sizes: Array) -> Array:
        """The factor for answers of these sizes."""
        return self.factors[np.searchsorted(self.edges, sizes)]


def _edges(sizes: Array, least: int = 60) -> Array:
    """Those of the usual edges between which there are enough answers to compare."""
    kept: list[float] = []
    for edge in (0.1, 0.3, 1.0, 2.0, 5.0, 20.0):
        below = np.sum((sizes <= edge) & (sizes > (kept[-1] if kept else -np.inf)))
        if below >= least and np.sum(sizes > edge) >= least:
            kept.append(edge)
    return np.array(kept)


def _joined(tables: Sequence[Array]) -> Array:
    return np.concatenate([np.ravel(table) for table in tables]) if tables else np.empty(0)


def _with_noise(measurement: Measurement, answer: Array, rng: np.random.Generator) -> Measurement:
    """The model's answer with fresh noise of the measurement's kind and scale."""
    kind = "gaussian" if measurement.noise is None else measurement.noise.kind
    if kind == "laplace":
        added = rng.laplace(0, measurement.stddev / 2**0.5, answer.shape)
    else:
        added = rng.normal(0, measurement.stddev, answer.shape)
    return Measurement(measurement.query, answer + added, measurement.stddev, measurement.noise)
