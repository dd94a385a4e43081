"""Estimates: the models of DualQuery's records, and of its samples by Newton steps in the answers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from priory.errors import ReleaseError
from priory.estimate.dual import Dual, solved
from priory.estimate.evidence import Evidence
from priory.estimate.loss import L2
from priory.estimate.problem import Problem
from priory.mechanisms.steps.total import released_total
from priory.model.bases import PublicRows, Uniform
from priory.model.diagnostics import Diagnostics, PathPoint
from priory.model.model import Model
from priory.model.tilted import Oracle
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release
from priory.release.parts import Round

# Within a stretch of rounds no exponent moves by more than this, so that nothing overflows and what is lost to
# underflow is too small to count by the end of it.
REACH = 300.0
# The records' answers are met first, more and more closely: only near them is the likelihood like a parabola.
FIRST, TEMPERATURES = Dual(accuracy=1e-3, inner=200), (1e-2, 1e-3, 1e-4, 1e-5)
# Meeting them more closely empties cells that no record fell into, which later steps are slow to fill again: it must
# lower the loss to this share at least.
GAIN = 0.8
# Later parabolas need not be met better than the likelihood is like them.
LATER = Dual(accuracy=1e-3, inner=100)
# What divides the temperature after a step that lowers the loss, and multiplies it after one that does not.
COOLING, HEATING = 3.0, 5.0
HOTTEST = 1e6


def records_model(release: Release) -> Model:
    """DualQuery's own estimate: the records, all alike."""
    rows = np.array([played.row for played in rounds_of(release)], dtype=np.int64)
    return Model(PublicRows(rows, release.domain), {}, released_total(release.measurements))


def rounds_of(release: Release) -> tuple[Round, ...]:
    """The game that a release holds; a `ReleaseError` where it holds none."""
    if not release.rounds:
        raise ReleaseError("the release was not made by DualQuery")
    return release.rounds


def answers(query: Query, row: Sequence[int], domain: Domain) -> Array:
    """What a query answers on one record."""
    table = np.ones(())
    for name, part in zip(query.clique, query.parts, strict=True):
        here = np.zeros(domain[name])
        here[row[domain.axis[name]]] = 1.0
        table = np.multiply.outer(table, part.apply(here, 0))
    return np.asarray(table, dtype=np.float64)


def sampled_model(workload: Workload, release: Release, *, tolerance: float = 3e-4) -> Model:
    """The graphical model under which the samples of DualQuery's release are most likely [Private-PGM, Algorithm 5].

    `workload` is what it was to answer. It stops where the likelihood rises by less than `tolerance` of itself: what it
    gains beyond is mostly noise.
    """
    loss = SampleLoss(release.domain, workload, rounds_of(release), released_total(release.measurements))
    return most_likely(loss, tolerance=tolerance)


@dataclass(frozen=True, eq=False)
class SampleLoss:
    """The negative log-likelihood of DualQuery's samples as a function of marginals [Private-PGM, Algorithm 5].

    With c_q the answers in counts, round t + 1 samples q with chance ∝ exp(u_q) and its complement ∝ exp(−u_q), where
    u = h·(n·Σ_{i≤t} q(x^i) − t·c_q) and h is the sharpness. So L = Σ_t (s·log Σ_q 2 cosh u_q − Σ_samples ±u_q), which
    is convex, and ∂L/∂c_q = Σ_t h·t·(k_q − s·(P_q − P_q̄)), where k_q counts samples of q less those of its complement.

    From one round to the next u falls by h·c, and rises by h·n where the new record satisfies q: so e^u is multiplied,
    and exponentials are only taken once for a stretch of rounds.
    """

    domain: Domain  # the attributes
    workload: Workload  # the queries
    game: Sequence[Round]  # the rounds
    total: float  # n

    def near(self, counts: Array) -> "Near":
        """The loss near answers c, in counts."""
        linear, constant = self._sampled
        near = Near(float(linear @ counts) - constant, linear.copy(), np.zeros(len(counts)))
        for stretch in self._stretches:
            near = self._with_normalisers(near, stretch, counts)
        return near

    def _with_normalisers(self, near: "Near", stretch: "_Stretch", counts: Array) -> "Near":
        """With Σ_t s·log Σ_q 2 cosh u_q over a stretch of rounds, whose derivatives are added in place."""
        value, slope, curvature, sharpness = near.value, near.slope, near.curvature, stretch.sharpness
        u = sharpness * (self.total * stretch.played - stretch.first * counts)
        top = float(np.abs(u).max())
        more, less = np.exp(u - top), np.exp(-u - top)
        fall = np.exp(-sharpness * counts) if len(stretch.samples) > 1 else np.ones(1)
        rise, gain = 1 / fall, float(np.exp(min(sharpness * self.total, REACH)))
        own = np.empty_like(u)
        for t, (samples, hit) in enumerate(zip(stretch.samples, stretch.hits, strict=True), start=stretch.first):
            if t > stretch.first:
                more *= fall
                less *= rise
                more[hit] *= gain
                less[hit] /= gain
            mass = float(more.sum() + less.sum())
            value += samples * (top + np.log(mass))
            # P_q − P_q̄ = (e^u − e^−u)/Z.
            slope -= np.multiply(np.subtract(more, less, out=own), sharpness * t * samples / mass, out=own)
            curvature += np.multiply(np.add(more, less, out=own), (sharpness * t) ** 2 * samples / mass, out=own)
        return Near(value, slope, curvature)

    @cached_property
    def _sampled(self) -> tuple[Array, float]:
        """Σ_samples ∓u = ⟨k, c⟩ − constant: the vector k and the constant."""
        starts = np.cumsum([0, *(query.rows for query in self.workload)])
        linear, constant = np.zeros(self.workload.rows), 0.0
        played = np.zeros(self.workload.rows, dtype=np.int32)
        for t, played_round in enumerate(self.game[1:], start=1):
            played[self._satisfied(self.game[t - 1])] += 1
            sampled = np.array([starts[pick.query] + (pick.cell or 0) for pick in played_round.picks], dtype=np.int64)
            signs = np.array([-1.0 if pick.is_complement else 1.0 for pick in played_round.picks])
            np.add.at(linear, sampled, played_round.sharpness * t * signs)
            constant += played_round.sharpness * self.total * float(signs @ played[sampled])
        return linear, constant

    @cached_property
    def _stretches(self) -> tuple["_Stretch", ...]:
        """The rounds after the first."""
        played = np.zeros(self.workload.rows, dtype=np.int32)
        stretches: list[_Stretch] = []
        for t, played_round in enumerate(self.game[1:], start=1):
            hit = self._satisfied(self.game[t - 1])
            played[hit] += 1
            last = stretches[-1] if stretches else None
            if last is None or not last.continues(played_round.sharpness, self.total):
                last = _Stretch(t, played_round.sharpness, played.copy())
                stretches.append(last)
            last.samples.append(len(played_round.picks))
            last.hits.append(hit)
        return tuple(stretches)

    def played(self) -> Array:
        """How many of all records satisfy each query."""
        counts = np.zeros(self.workload.rows)
        for played_round in self.game:
            counts[self._satisfied(played_round)] += 1
        return counts

    def _satisfied(self, played_round: Round) -> NDArray[np.int64]:
        """The numbers of the answers that a round's record satisfies."""
        satisfied = [np.ravel(answers(query, played_round.row, self.domain)) for query in self.workload]
        return np.flatnonzero(np.concatenate(satisfied))


@dataclass(frozen=True, eq=False)
class Near:
    """A function of many numbers near a point."""

    value: float  # its value
    slope: Array  # its gradient
    curvature: Array  # a diagonal that its second derivatives are nowhere above


@dataclass(frozen=True, eq=False)
class _Stretch:
    """Some rounds of one sharpness."""

    first: int  # how many rounds were before the first of them
    sharpness: float  # h
    played: NDArray[np.int32]  # for the first, the sum of all answers over the records before it
    samples: list[int] = field(default_factory=list)  # how many queries each sampled
    hits: list[NDArray[np.int64]] = field(default_factory=list)  # the answers that the record before satisfies

    def continues(self, sharpness: float, total: float) -> bool:
        """Whether a round of this sharpness can be one more."""
        same = abs(sharpness - self.sharpness) <= 1e-12 * self.sharpness
        return same and len(self.samples) * self.sharpness * total <= REACH


def most_likely(loss: SampleLoss, *, tolerance: float, steps: int = 100) -> Model:
    """The model of least loss, and in its diagnostics the path to it."""
    # Near the answers at hand the loss is below a parabola, the one that noisy answers would give: those at hand less
    # slope/curvature, with standard deviations of 1/√curvature. So a step is one of `Dual` on such answers, as cold as
    # the loss allows. The first is on the answers of DualQuery's own records. It has converged when the loss fell by
    # less than `tolerance` of itself in each of three steps.
    search = _Search.of(loss)
    state = search.near_the_records()
    path, falls, temperature = [state.point(0, 0.0)], [math.inf], 1.0
    while len(path) < steps and max(falls[-3:]) >= tolerance and temperature < HOTTEST:
        tried = search.moved(state, *state.parabola(), temperature, LATER)
        if tried.near.value < state.near.value:
            falls.append((state.near.value - tried.near.value) / abs(state.near.value))
            state, temperature = tried, temperature / COOLING
        else:
            state, temperature = replace(state, calls=tried.calls), temperature * HEATING
        path.append(state.point(len(path), temperature))
    has_converged = max(falls[-3:]) < tolerance
    diagnostics = Diagnostics(
        solver="Newton",
        stop="converged",
        reason="The likelihood stopped rising." if has_converged else "The likelihood was still rising.",
        has_converged=has_converged,
        path=(*path[:-1], replace(path[-1], is_chosen=True)),
        estimated_error=math.nan,
        oracle_calls=state.calls,
    )
    potentials = search.evidence.layout.unpack(search.evidence.adjoint(state.alpha))
    return Model(Uniform(loss.domain), potentials, loss.total, diagnostics)


@dataclass(frozen=True, eq=False)
class _State:
    """Where the search stands."""

    alpha: Array  # one multiplier for each answer of the workload
    marginals: Array  # those of the model, as counts
    counts: Array  # the model's answers
    near: Near  # the loss there
    calls: int  # how many times the oracle was called

    def parabola(self) -> tuple[Array, Array]:
        """Answers and standard deviations that would give the loss the same slope and no less curvature."""
        curvature = np.maximum(self.near.curvature, 1e-12 * self.near.curvature.max())
        return self.counts - self.near.slope / curvature, 1 / np.sqrt(curvature)

    def point(self, step: int, temperature: float) -> PathPoint:
        return PathPoint(0, step, self.calls, self.near.value, math.nan, math.nan, temperature)


@dataclass(frozen=True, eq=False)
class _Search:
    """What stays the same in a search."""

    loss: SampleLoss
    evidence: Evidence  # the workload's queries, laid out; its answers are replaced in every step
    oracle: Oracle  # the marginals of the workload's cliques

    @classmethod
    def of(cls, loss: SampleLoss) -> "_Search":
        evidence = Evidence.of(loss.domain, [Measurement(q, np.zeros(q.shape), 1.0) for q in loss.workload])
        return cls(loss, evidence, Uniform(loss.domain).bind(evidence.layout.cliques))

    def near_the_records(self) -> _State:
        """The state that meets the records' answers as closely as the likelihood gains by it."""
        _, shares = self.oracle(np.zeros(self.evidence.layout.size))
        state = self._state(np.zeros(self.evidence.size), self.loss.total * shares, 1)
        for temperature in TEMPERATURES:
            tried = self.moved(state, *self.records(), temperature, FIRST)
            if tried.near.value > GAIN * state.near.value:
                return replace(state, calls=tried.calls)
            state = tried
        return state

    def records(self) -> tuple[Array, Array]:
        """The records' answers, and how far off they are if all queries are sampled alike: √(|Q|/Σ_t s(ht)²)."""
        game = self.loss.game
        curvature = sum(len(played.picks) * (played.sharpness * t) ** 2 for t, played in enumerate(game))
        stddev = math.sqrt(self.evidence.size / curvature)
        return self.loss.total * self.loss.played() / len(game), np.full(self.evidence.size, stddev)

    def moved(self, state: _State, values: Array, stddevs: Array, temperature: float, settings: Dual) -> _State:
        evidence = replace(self.evidence, values=values, stddevs=stddevs)
        problem = Problem(self.oracle, L2(evidence), self.loss.total)
        alpha, near = state.alpha, state.marginals
        alpha, marginals, calls = solved(problem, alpha, near=near, temperature=temperature, settings=settings)
        return self._state(alpha, marginals, state.calls + calls)

    def _state(self, alpha: Array, marginals: Array, calls: int) -> _State:
        counts = self.evidence.predicted(marginals)
        return _State(alpha, marginals, counts, self.loss.near(counts), calls)
