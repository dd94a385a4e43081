"""Intervals: how sure a model is of its answers, found by drawing the noise again.

The answers that the model itself would give get fresh noise of the kind and scale that was measured with, and the
estimate is repeated; how far the repeated answers lie from the model's says how far the model's lie from the truth. No
rows are resampled: the target is the table. What redrawing cannot show is added: of measured answers what stopping
shrinks away, by the estimated error of the fit; of others what the model assumes, by how it predicts measured marginals
that are left out.
"""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from priory.answer.misfit import Misfit
from priory.answer.possible import known_part, possible
from priory.errors import OptionError
from priory.estimate.evidence import Evidence
from priory.estimate.response import Response
from priory.factor import Array
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.parts import Identity
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
        source: "measured" where a measurement holds all attributes of the query; "inferred" where measurements tie them
            together only through others, and what the model assumes is judged by how it predicts measured marginals
            left out; "prior" where nothing measured speaks of some of them: the interval holds all that is possible.
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
    refit: Refit | None = None,
) -> list[Interval]:
    """The model's answers with intervals that hold the true ones about `level` of the time.

    To ask the same model more than once, keep its `Redraws`.

    Args:
        model: an estimate.
        measurements: what it was estimated from.
        queries: what is asked.
        level: the share of answers whose interval should hold the truth.
        draws: how often the noise is drawn again.
        seed: of those draws, which are no release.
        workers: how many at a time; one for each core by default.
        refit: how an estimate is repeated; by one step from the model unless told.

    Raises:
        OptionError: the level is not between 0 and 1, or there are fewer than 2 draws.
    """
    check_level(level)
    redraws = Redraws.of(model, measurements, draws=draws, seed=seed, workers=workers, refit=refit)
    return redraws.intervals(queries, level=level)


@dataclass(frozen=True, eq=False)
class Redraws:
    """A model estimated again and again from redrawn noise.

    Attributes:
        model: the estimate.
        measurements: what it was estimated from.
        models: the estimates from redrawn noise.
        bias: what redrawing does not show of measured answers.
        temperature: at which the model responds to its answers.
    """

    model: Model
    measurements: tuple[Measurement, ...]
    models: tuple[Model, ...]
    bias: "Bias"
    temperature: float

    @classmethod
    def of(
        cls,
        model: Model,
        measurements: Sequence[Measurement],
        *,
        draws: int = 50,
        seed: int = 0,
        workers: int | None = None,
        refit: Refit | None = None,
    ) -> "Redraws":
        """Draw the noise again `draws` times; see `intervals` for the arguments.

        Raises:
            OptionError: there are fewer than 2 draws.
        """
        _check_draws(draws)
        response = Response.of(model, measurements)
        added = np.array([_noise(response.evidence, rng) for rng in np.random.default_rng(seed).spawn(draws)])
        workers = min(workers or os.cpu_count() or 1, draws)
        repeat = _by_steps(response) if refit is None else _by_refits(response, measurements, refit)
        with ThreadPoolExecutor(workers) as pool:
            parts = pool.map(repeat, np.array_split(added, workers))
        repeats = list(itertools.chain.from_iterable(parts))
        moved = np.array([answers for _, answers in repeats]) - response.evidence.values
        bias = Bias.of(response, added, moved)
        models = tuple(model for model, _ in repeats)
        return cls(model, tuple(measurements), models, bias, response.temperature)

    def first(self, draws: int) -> "Redraws":
        """The same with only the first so many draws.

        Raises:
            OptionError: there are fewer than 2 draws.
        """
        _check_draws(draws)
        return self if draws == len(self.models) else replace(self, models=self.models[:draws])

    @cached_property
    def misfit(self) -> Misfit:
        """How far the model is from answers that it was not fitted to."""
        return Misfit.of(self.model, self.measurements, self.temperature)

    def intervals(self, queries: Sequence[Query], *, level: float = 0.9) -> list[Interval]:
        """The model's answers with intervals that hold the true ones about `level` of the time.

        Raises:
            OptionError: the level is not between 0 and 1.
        """
        check_level(level)
        known = {name for measurement in self.measurements for name in measurement.query.clique}
        parts = [known_part(query, known, self.model.domain) for query in queries]
        repeats = [model.answers(parts) for model in self.models]
        found = []
        for number, (part, answer) in enumerate(zip(parts, self.model.answers(parts), strict=True)):
            errors = np.array([repeat[number] for repeat in repeats]) - answer
            source = source_of(part, self.measurements)
            found.append(interval_of(answer, errors, self.hidden(part, answer, source), level, source))
        return [
            interval if part == query else self._possible(query, interval, known)
            for query, part, interval in zip(queries, parts, found, strict=True)
        ]

    def _possible(self, query: Query, part: Interval, known: Set[str]) -> Interval:
        """The interval of a query when only that of its known part can be told."""
        estimate = self.model.answer(query)
        low, high = possible(query, part.low, part.high, known)
        return Interval(estimate, np.minimum(low, estimate), np.maximum(high, estimate), "prior")

    def hidden(self, query: Query, answer: Array, source: Source) -> Array:
        """The standard deviation of what redrawing does not show."""
        if source != "measured":
            # Of the number of rows alone a model assumes nothing.
            return self.misfit(answer) if query.clique else np.zeros(answer.shape)
        stddev = np.min(
            [noise_left(query, m) for m in self.measurements if set(query.clique) <= set(m.query.clique)], axis=0
        )
        sizes = np.divide(answer, stddev, out=np.zeros(answer.shape), where=stddev > 0)
        return np.asarray(self.bias(sizes) * stddev)


def interval_of(answer: Array, errors: Array, hidden: Array, level: float, source: Source) -> Interval:
    """The interval of answers that redraws miss by `errors`, and by `hidden` besides."""
    from scipy.special import ndtri

    # Weibull's quantiles are those a further draw falls below with the wanted chance, however few the draws.
    low, high = np.quantile(errors, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
    more = float(ndtri((1 + level) / 2)) * hidden
    return Interval(
        answer, answer - np.hypot(np.maximum(high, 0), more), answer + np.hypot(np.minimum(low, 0), more), source
    )


@dataclass(frozen=True, eq=False)
class Bias:
    """The error of measured answers that redrawing does not show, for answers of each size.

    An answer F_j with leverage h_j = ∂F_j/∂y_j has a mean squared error, in units of its noise, that Stein's formula
    ((y_j − F_j)/σ)² − 1 + 2h_j estimates without bias; redrawing shows only its variance. The two are compared over
    answers of like size, as a single one says next to nothing.

    Attributes:
        edges: the sizes, in standard deviations, between the groups.
        values: for each group √(error − variance), in standard deviations, rather too large than too small.
    """

    edges: Array
    values: Array

    @classmethod
    def of(cls, response: Response, added: Array, moved: Array) -> "Bias":
        """Work it out from the noise that was added in each draw and how the answers moved."""
        fitted, stddevs = response.evidence.values, response.evidence.stddevs
        misfit = (response.measured - fitted) / stddevs
        leverage = np.mean(added * moved, axis=0) / stddevs**2
        excess = misfit**2 - 1 + 2 * leverage - np.mean(moved**2, axis=0) / stddevs**2
        sizes = fitted / stddevs
        edges = _edges(sizes)
        group = np.searchsorted(edges, sizes)
        numbers = np.maximum(np.bincount(group, minlength=len(edges) + 1), 1)
        means, squares = (np.bincount(group, excess**power, len(edges) + 1) / numbers for power in (1, 2))
        # One standard error is added: an interval that is too wide does less harm than one that is too narrow. It is
        # never less than that of the noise that is not fitted: a few answers that happen to agree prove nothing.
        unfitted = 2 * np.bincount(group, (1 - np.clip(leverage, 0, 1)) ** 4, len(edges) + 1) / numbers
        errors = np.sqrt(np.maximum(squares - means**2, unfitted) / numbers)
        return cls(edges, np.sqrt(np.maximum(means, 0.0) + errors))

    def __call__(self, sizes: Array) -> Array:
        """The bias of answers of these sizes."""
        return np.asarray(self.values[np.searchsorted(self.edges, sizes)])


def _edges(sizes: Array, least: int = 150) -> Array:
    """Those of the usual edges between which there are enough answers to compare."""
    kept: list[float] = []
    for edge in (0.1, 0.3, 1.0, 2.0, 5.0, 20.0):
        below = np.sum((sizes <= edge) & (sizes > (kept[-1] if kept else -np.inf)))
        if below >= least and np.sum(sizes > edge) >= least:
            kept.append(edge)
    return np.array(kept)


def _by_steps(response: Response) -> Callable[[Array], list[tuple[Model, Array]]]:
    def repeat(added: Array) -> list[tuple[Model, Array]]:
        oracle = response.oracle()
        return [response.moved(oracle, each) for each in added]

    return repeat


def _by_refits(
    response: Response, measurements: Sequence[Measurement], refit: Refit
) -> Callable[[Array], list[tuple[Model, Array]]]:
    evidence = response.evidence
    noises = [measurement.noise for measurement in measurements]

    def repeat(added: Array) -> list[tuple[Model, Array]]:
        found = []
        for each in evidence.values + added:
            again = [
                Measurement(
                    query, each[place].reshape(query.shape), evidence.stddevs[place].reshape(query.shape), noise
                )
                for query, place, noise in zip(evidence.queries, evidence.places, noises, strict=True)
            ]
            model = refit(response.model, again)
            found.append((model, _joined(model.answers(evidence.queries))))
        return found

    return repeat


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


def _noise(evidence: Evidence, rng: np.random.Generator) -> Array:
    """Fresh noise of the kind and scale of each measurement."""
    drawn = []
    for kind, place in zip(evidence.kinds, evidence.places, strict=True):
        stddevs = evidence.stddevs[place]
        drawn.append(rng.laplace(0, stddevs / 2**0.5) if kind == "laplace" else rng.normal(0, stddevs))
    return _joined(drawn)


def _joined(tables: Sequence[Array]) -> Array:
    return np.concatenate([np.ravel(table) for table in tables]) if tables else np.empty(0)


def _check_draws(draws: int) -> None:
    if draws < 2:
        raise OptionError("draws", f"at least 2; got {draws}")


def check_level(level: float) -> None:
    """Refuse what is no share."""
    if not (0 < level < 1 and math.isfinite(level)):
        raise OptionError("level", f"a share between 0 and 1; got {level}")
