"""Likelihood: the graphical model under which DualQuery's samples are most likely, by Newton steps in the answers."""

import math
from dataclasses import dataclass, replace

import numpy as np

from priory.estimate.dual import Dual, solved
from priory.estimate.evidence import Evidence
from priory.estimate.loss import L2
from priory.estimate.problem import Problem
from priory.factor import Array
from priory.mechanisms.dualquery.game import rounds_of
from priory.mechanisms.dualquery.sample_loss import Near, SampleLoss
from priory.mechanisms.steps.total import released_total
from priory.model.bases import Uniform
from priory.model.diagnostics import Diagnostics, PathPoint
from priory.model.model import Model
from priory.model.tilted import Oracle
from priory.privacy.measurement import Measurement
from priory.queries.workload import Workload
from priory.release import Release

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


def sampled_model(workload: Workload, release: Release, *, tolerance: float = 3e-4) -> Model:
    """The graphical model under which DualQuery's samples are most likely [Private-PGM, Algorithm 5].

    Args:
        workload: what DualQuery was to answer.
        release: what it released.
        tolerance: the relative rise of the likelihood below which it stops; what it gains beyond is mostly noise.
    """
    loss = SampleLoss(release.domain, workload, rounds_of(release), released_total(release.measurements))
    return most_likely(loss, tolerance=tolerance)


def most_likely(loss: SampleLoss, *, tolerance: float, steps: int = 100) -> Model:
    """The model of least loss, and in its diagnostics the path to it.

    Near the answers at hand the loss is below a parabola, the one that noisy answers would give: those at hand less
    slope/curvature, with standard deviations of 1/√curvature. So a step is one of `Dual` on such answers, as cold as
    the loss allows. The first is on the answers of DualQuery's own records. It has converged when the loss fell by less
    than `tolerance` of itself in each of three steps.
    """
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

    def start(self) -> _State:
        _, shares = self.oracle(np.zeros(self.evidence.layout.size))
        return self._state(np.zeros(self.evidence.size), self.loss.total * shares, 1)

    def near_the_records(self) -> _State:
        """The state that meets the records' answers as closely as the likelihood gains by it."""
        state = self.start()
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
        alpha, marginals, calls = solved(
            problem, state.alpha, near=state.marginals, temperature=temperature, settings=settings
        )
        return self._state(alpha, marginals, state.calls + calls)

    def _state(self, alpha: Array, marginals: Array, calls: int) -> _State:
        counts = self.evidence.predicted(marginals)
        return _State(alpha, marginals, counts, self.loss.near(counts), calls)
