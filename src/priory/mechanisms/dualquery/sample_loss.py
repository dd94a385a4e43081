"""DualQuery loss: how unlikely the sampled queries are if the table has given marginals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from priory.domain import Clique, Domain
from priory.factor import Array, Factor
from priory.mechanisms.dualquery.game import answers
from priory.queries.workload import Workload
from priory.release.parts import Round

# Within a stretch of rounds no exponent moves by more than this, so that nothing overflows and what is lost to
# underflow is too small to count by the end of it.
REACH = 300.0


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

    def __call__(self, marginals: Mapping[Clique, Factor]) -> tuple[float, dict[Clique, Array]]:
        """The loss and its gradient on each clique of the workload."""
        near = self.near(np.concatenate([np.ravel(query(marginals[query.clique].values)) for query in self.workload]))
        return near.value, self._gradient(near.slope)

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
            places = np.array([starts[pick.query] + (pick.cell or 0) for pick in played_round.picks], dtype=np.int64)
            signs = np.array([-1.0 if pick.is_complement else 1.0 for pick in played_round.picks])
            np.add.at(linear, places, played_round.sharpness * t * signs)
            constant += played_round.sharpness * self.total * float(signs @ played[places])
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
        """The places of the queries that a round's record satisfies."""
        satisfied = [np.ravel(answers(query, played_round.row, self.domain)) for query in self.workload]
        return np.flatnonzero(np.concatenate(satisfied))

    def _gradient(self, slope: Array) -> dict[Clique, Array]:
        gradient: dict[Clique, Array] = {}
        ends = np.cumsum([query.rows for query in self.workload])
        for query, own in zip(self.workload, np.split(slope, ends[:-1]), strict=True):
            table = query.adjoint(own.reshape(query.shape))
            gradient[query.clique] = gradient.get(query.clique, np.zeros(query.domain.shape)) + table
        return gradient


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
    # For each, the places of the queries that the record before it satisfies.
    hits: list[NDArray[np.int64]] = field(default_factory=list)

    def continues(self, sharpness: float, total: float) -> bool:
        """Whether a round of this sharpness can be one more."""
        same = abs(sharpness - self.sharpness) <= 1e-12 * self.sharpness
        return same and len(self.samples) * self.sharpness * total <= REACH
