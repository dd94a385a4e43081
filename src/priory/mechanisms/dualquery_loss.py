"""DualQuery loss: how unlikely the sampled queries are if the table has given marginals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from priory.domain import Clique, Domain
from priory.factor import Array, Factor
from priory.mechanisms.game import Round, answers
from priory.queries.workload import Workload

BLOCK_CELLS = 2**18


@dataclass(frozen=True, eq=False)
class SampleLoss:
    """The negative log-likelihood of DualQuery's samples as a function of marginals [Private-PGM, Algorithm 5].

    With c_q the answers in counts, round t + 1 samples q with chance ∝ exp(u_q) and its complement ∝ exp(−u_q), where
    u = h·(n·Σ_{i≤t} q(x^i) − t·c_q) and h is the sharpness. So L = Σ_t (s·log Σ_q 2 cosh u_q − Σ_samples ±u_q), which
    is convex, and ∂L/∂c_q = Σ_t h·t·(k_q − s·(P_q − P_q̄)), where k_q counts samples of q less those of its complement.

    Attributes:
        domain: the attributes.
        workload: the queries.
        game: the rounds.
        total: n.
    """

    domain: Domain
    workload: Workload
    game: Sequence[Round]
    total: float

    def __call__(self, marginals: Mapping[Clique, Factor]) -> tuple[float, dict[Clique, Array]]:
        """The loss and its gradient on each clique of the workload."""
        counts = np.concatenate([np.ravel(query(marginals[query.clique].values)) for query in self.workload])
        value, slope = 0.0, np.zeros(self.workload.rows)
        for block in self._blocks:
            u = block.sharpness[:, None] * (self.total * block.played - block.rounds[:, None] * counts)
            size = np.abs(u)
            top = size.max(axis=1, keepdims=True)
            more, less = np.exp(size - top), np.exp(-size - top)
            mass = (more + less).sum(axis=1)
            # P_q − P_q̄ = (e^u − e^−u)/Z.
            lean = np.sign(u) * (more - less) / mass[:, None]
            value += float(block.samples @ (top[:, 0] + np.log(mass)))
            value -= float((block.signs * u[block.rows, block.places]).sum())
            weights = block.sharpness * block.rounds
            slope -= (weights * block.samples) @ lean
            np.add.at(slope, block.places, weights[block.rows] * block.signs)
        return value, self._gradient(slope)

    @cached_property
    def _blocks(self) -> tuple["_Block", ...]:
        """The rounds after the first, as many together as make arrays of a handy size."""
        starts = np.cumsum([0, *(query.rows for query in self.workload)])
        together = max(1, BLOCK_CELLS // self.workload.rows)
        played = np.zeros(self.workload.rows, dtype=np.int16)
        blocks = []
        for first in range(1, len(self.game), together):
            held = self.game[first : first + together]
            sums = np.empty((len(held), self.workload.rows), dtype=np.int16)
            for i in range(len(held)):
                row = self.game[first + i - 1].row
                played += np.concatenate([np.ravel(answers(q, row, self.domain)) for q in self.workload]).astype(
                    np.int16
                )
                sums[i] = played
            picks = [
                (i, starts[p.query] + (p.cell or 0), 1 - 2 * p.is_complement)
                for i, r in enumerate(held)
                for p in r.picks
            ]
            rows, places, signs = np.array(picks, dtype=np.int64).T
            blocks.append(
                _Block(
                    np.array([r.sharpness for r in held]),
                    np.arange(first, first + len(held), dtype=np.float64),
                    np.array([len(r.picks) for r in held], dtype=np.float64),
                    sums,
                    rows,
                    places,
                    signs.astype(np.float64),
                )
            )
        return tuple(blocks)

    def _gradient(self, slope: Array) -> dict[Clique, Array]:
        gradient: dict[Clique, Array] = {}
        ends = np.cumsum([query.rows for query in self.workload])
        for query, own in zip(self.workload, np.split(slope, ends[:-1]), strict=True):
            table = query.adjoint(own.reshape(query.shape))
            gradient[query.clique] = gradient.get(query.clique, np.zeros(query.domain.shape)) + table
        return gradient


@dataclass(frozen=True, eq=False)
class _Block:
    """Some rounds.

    Attributes:
        sharpness: h of each.
        rounds: how many rounds were before each.
        samples: how many queries each sampled.
        played: for each, the sum of all answers over the records before it.
        rows, places, signs: for each sample its round, its place among the answers, and −1 for a complement.
    """

    sharpness: Array
    rounds: Array
    samples: Array
    played: NDArray[np.int16]
    rows: NDArray[np.int64]
    places: NDArray[np.int64]
    signs: Array
