"""Response: how far the answers of an estimate move when fresh noise is added to what was measured.

Near a model whose answers to a measured table are F, an estimate at temperature λ moves them by the δ that minimises

    Σ ((δ − z)/σ)² + λ Σ δ²/F

for noise z, where all tables that have a column agree on how many records have each of its values. That is the step of
the estimate itself but for what tables tell of each other beyond their columns. It has a closed form: for each table a
small matrix between the values of its columns, and one system for the counts of all values of all columns. λ is chosen
such that the trace of the map, the degrees of freedom, is the one of the estimate: as many directions follow answers as
did when they were first fitted. Nothing else need be known of how the model was found, and no model is fitted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from priory.errors import OptionError
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.products import dot
from priory.estimate.setting import signs_of
from priory.estimate.tables import Columns, Table, tables_of
from priory.estimate.total import TotalEstimate, total_of
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique
from priory.queries.factor import Array

# The degrees of freedom are met within this share, in so many trials at most.
_CLOSE, _TRIALS = 0.02, 30
# Where four times as cold a step finds no more than this share of them more, there are no more.
_FLAT = 0.002
# What is left of the usual temperature where an estimate was run to the end.
_CONVERGED = 1e-3
# Fewer degrees of freedom than this are none.
_NONE = 0.5


@dataclass(frozen=True, eq=False)
class Response:
    """A model that is ready to be moved."""

    model: Model  # the model
    evidence: Evidence  # its measurements, with the model's own answers in place of the noisy ones
    measured: Array  # the noisy ones
    total: TotalEstimate  # how the total follows from the answers
    marginals: Array  # the model's marginals on the measured cliques, in records
    temperature: float = math.inf  # λ; ∞ where nothing moves the model

    @classmethod
    def of(cls, model: Model, measurements: Sequence[Measurement], temperature: float | None = None) -> "Response":
        """How an estimate responds to its measurements; its temperature is found where it is not given."""
        evidence = Evidence.of(model.domain, measurements)
        oracle = model.bind(evidence.layout.cliques)
        marginals = model.total * oracle(np.zeros(evidence.layout.size))[1]
        own = evidence.with_values(evidence.predicted(marginals))
        still = cls(model, own, evidence.values, _total(model, evidence), marginals)
        if temperature is not None:
            return replace(still, temperature=temperature)
        diagnostics = model.diagnostics
        if diagnostics is not None and diagnostics.stop == "converged":
            return replace(still, temperature=_CONVERGED / float(np.median(own.stddevs)))
        wanted = _degrees_of_freedom(model, measurements)
        if not still._is_possible(wanted):
            return replace(still, temperature=math.exp(still._usual_log_temperature()))
        return still if wanted < _NONE else replace(still, temperature=still._cooled(wanted))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The measured tables, each once."""
        return tables_of(self.evidence, self.marginals, _stiffness(self.model, len(self.evidence.queries)))

    @cached_property
    def columns(self) -> Columns:
        """The columns that tie them, at this temperature."""
        return self._columns(self.temperature)

    def _columns(self, temperature: float) -> Columns:
        return Columns.of(self.tables, self.model.domain, temperature)

    def noise(self, number: int, draws: int, seed: int) -> Array:
        """Fresh noise for a measurement, of its kind and scale; the draws are the last axis."""
        span, query = self.evidence.spans[number], self.evidence.queries[number]
        rng, stddevs = np.random.default_rng([seed, number]), self.evidence.stddevs[span]
        # One draw after the other, so that the first ones are the same however many there are.
        size = (draws, span.stop - span.start)
        is_laplace = self.evidence.kinds[number] == "laplace"
        drawn = rng.laplace(0, stddevs / 2**0.5, size) if is_laplace else stddevs * rng.standard_normal(size)
        return np.ascontiguousarray(drawn.T).reshape(*query.shape, draws)

    def added(self, table: Table, draws: int, seed: int) -> Array:
        """What all fresh noise of a table's measurements adds to it."""
        shares = zip(table.numbers, table.shares, strict=True)
        return np.asarray(sum(share[..., None] * self.noise(n, draws, seed) for n, share in shares))

    def records(self, draws: int, seed: int) -> Array:
        """How far the total moves in each draw."""
        if (draws, seed) not in self._records:
            self._records[draws, seed] = self._drawn_records(draws, seed)
        return self._records[draws, seed]

    @cached_property
    def _records(self) -> dict[tuple[int, int], Array]:
        """Those known already: all noise is drawn to find them."""
        return {}

    def _drawn_records(self, draws: int, seed: int) -> Array:
        moved = np.zeros(draws)
        if self.total.is_estimated:
            for number, span in enumerate(self.evidence.spans):
                weights = self.total.weights[span]
                if weights.any():
                    moved += weights @ self.noise(number, draws, seed).reshape(len(weights), draws)
        return moved

    def counts(self, draws: int, seed: int) -> Array:
        """How far the counts of the tied columns' values move in each draw."""
        if (draws, seed) not in self._counts:
            self._counts[draws, seed] = self._drawn_counts(draws, seed)
        return self._counts[draws, seed]

    @cached_property
    def _counts(self) -> dict[tuple[int, int], Array]:
        """Those known already: both errors and intervals need them."""
        return {}

    def _drawn_counts(self, draws: int, seed: int) -> Array:
        if math.isinf(self.temperature):
            return self.grown(self.columns.shares, self.records(draws, seed))
        noise = (self.added(table, draws, seed) for table in self.tables)
        return self.columns.moved(noise, self.records(draws, seed))

    def moved(self, index: int, counts: Array, seed: int) -> Array:
        """How far a table moves in each draw, where those of the columns' values move by `counts`."""
        table, draws = self.tables[index], counts.shape[1]
        if not table.query.clique or math.isinf(self.temperature):
            return self.grown(table.fitted, self.records(draws, seed))
        added = self.added(table, draws, seed)
        return self.columns.table(index, added, counts, self.grown(table.fitted, self.records(draws, seed)))

    def grown(self, answers: Array, records: Array) -> Array:
        """How far answers move with the number of records alone."""
        return np.asarray(answers[..., None] * (records / self.model.total))

    def _cooled(self, wanted: float) -> float:
        """The temperature with the degrees of freedom wanted: by steps of four until they are passed, then between.

        Degrees of freedom fall about in proportion to the logarithm of the temperature, so that a straight line between
        two temperatures nearly meets them. Where colder ones find hardly any more, there are none.
        """
        ends: dict[bool, tuple[float, float]] = {}
        log = self._usual_log_temperature()
        for _ in range(_TRIALS):
            degrees = self._degrees_of_freedom(math.exp(log))
            is_above = degrees > wanted
            is_flat = (
                is_above in ends and abs(ends[is_above][1] - degrees) <= _FLAT * wanted and not ends.get(not is_above)
            )
            if abs(degrees - wanted) <= _CLOSE * wanted or is_flat:
                break
            ends[is_above] = log, degrees
            if len(ends) < 2:
                log += math.log(4) if is_above else -math.log(4)
            else:
                (hot, few), (cold, many) = ends[False], ends[True]
                share = min(max((many - wanted) / (many - few), 0.1), 0.9)
                log = cold + share * (hot - cold)
        return math.exp(log)

    def _is_possible(self, degrees: float) -> bool:
        """Whether a fit that leaves such residuals can have used so many degrees of freedom.

        Stein's estimate of its error, Σ(((y − F)/σ)² − 1) + 2·degrees, is not below 0 but for chance. After many rounds
        of an adaptive mechanism, a derivative that was carried on from round to round can be any number.
        """
        residuals = (self.measured - self.evidence.values) / self.evidence.stddevs
        size = self.evidence.size
        error = float(np.sum(residuals**2)) - size + 2 * degrees
        return degrees <= size and error >= -3 * math.sqrt(2 * size)

    def _usual_log_temperature(self) -> float:
        """The temperature that the steps of the estimate amount to, or a usual one: where to begin."""
        colder = _colder(self.model, len(self.evidence.queries))
        return math.log(1 / float(np.median(colder[colder > 0]) if colder.any() else np.median(self.evidence.stddevs)))

    def _degrees_of_freedom(self, temperature: float) -> float:
        # The signs are those of the estimate itself, so that chance enters both numbers alike.
        signs = signs_of(self.evidence)
        pushed = signs * self.evidence.stddevs
        records = dot(self.total.weights, pushed) if self.total.is_estimated else 0.0
        columns = self._columns(temperature)
        added = [self._pushed(table, pushed)[..., None] for table in self.tables]
        counts = columns.moved(added, np.array([records]))
        degrees = float(self.total.is_estimated)
        for index, table in enumerate(self.tables):
            if table.query.clique:
                grown = self.grown(table.fitted, np.array([records]))
                moved = columns.table(index, added[index], counts, grown).reshape(-1)
                for number in table.numbers:
                    span = self.evidence.spans[number]
                    degrees += dot(signs[span], moved / self.evidence.stddevs[span])
        return degrees

    def _pushed(self, table: Table, values: Array) -> Array:
        shares = zip(table.numbers, table.shares, strict=True)
        spans, shape = self.evidence.spans, table.query.shape
        return np.asarray(sum(share * values[spans[n]].reshape(shape) for n, share in shares))

    def said(self, counts: Array, seed: int) -> dict[Clique, Array]:
        """The directions in which the model's potentials move, as tables whose last axis is that of the draws.

        Each column says how its values move, and each of the largest tables what it says beyond its columns: on a tree
        of tables that is exactly how the model moves.
        """
        found: dict[Clique, Array] = {(name,): self.columns.along(name, counts) for name in self.columns.spans}
        for index, table in enumerate(self.tables):
            clique = table.query.clique
            is_inside = any(set(clique) < set(other.query.clique) for other in self.tables)
            is_said = len(clique) == 1 and clique in found
            if not clique or is_inside or is_said:
                continue
            added = self.added(table, counts.shape[1], seed)
            said = self.columns.said(index, added, self.moved(index, counts, seed))
            for axis, (name, rows) in enumerate(zip(clique, table.rows or (), strict=False)):
                if name in self.columns.spans:
                    shape = [-1 if k == axis else 1 for k in range(len(clique))]
                    along = self.columns.along(name, counts, rows)
                    said = said - along.reshape(*shape, counts.shape[1])
            found[clique] = found[clique] + said if clique in found else said
        return found


def _stiffness(model: Model, count: int) -> Array:
    """How warm each measurement was fitted, compared with the others: their median is 1."""
    colder = _colder(model, count)
    known = colder[colder > 0]
    return np.median(known) / np.where(colder > 0, colder, known.min()) if len(known) else np.ones(count)


def _colder(model: Model, count: int) -> Array:
    """Of each measurement, Σ 1/λ over the steps of all levels that it belongs to; 0 where it belongs to none.

    Steps at temperatures λ₁, λ₂, …, each from where the last one ended, lead about as far as one at 1/Σ(1/λ). Those
    that were looked at first, because they are strong, have the most.
    """
    colder = np.zeros(count)
    for level in () if model.diagnostics is None else model.diagnostics.schedule:
        if not level.is_implied and level.temperatures:
            *whole, last = (1 / temperature for temperature in level.temperatures)
            colder[[number for number in level.members if number < count]] += sum(whole) + level.share * last
    return colder


def _degrees_of_freedom(model: Model, measurements: Sequence[Measurement]) -> float:
    if not measurements:
        return 0.0
    known = model.diagnostics.degrees_of_freedom if model.diagnostics else math.nan
    if not math.isnan(known):
        return known
    again = estimate(measurements, model.domain, base=model.base, total=model.total).diagnostics
    return again.degrees_of_freedom if again else 0.0


def _total(model: Model, evidence: Evidence) -> TotalEstimate:
    """How the model's total follows from its answers: not at all if it is not what they give."""
    given = TotalEstimate.known(model.total)
    try:
        counted = total_of(evidence)
    except OptionError:
        return given
    return counted if math.isclose(counted(evidence.values), model.total, rel_tol=1e-9) else given
