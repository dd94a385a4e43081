"""DualQuery loss: how unlikely the sampled queries are if the table has given marginals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from priory.domain import Clique, Domain
from priory.factor import Array, Factor
from priory.mechanisms.game import Round, answers
from priory.queries.workload import Workload


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
        for t, (held, signed, played) in enumerate(self._rounds(), start=1):
            u = held.sharpness * (self.total * played - t * counts)
            size = np.abs(u)
            logs = size + np.log1p(np.exp(-2 * size))
            top = float(logs.max())
            log_z = top + float(np.log(np.exp(logs - top).sum()))
            # (P_q − P_q̄) = 2 sinh(u)/Z = tanh(u)·exp(log 2cosh u − log Z).
            lean = np.tanh(u) * np.exp(logs - log_z)
            value += len(held.picks) * log_z - float(signed @ u)
            slope += held.sharpness * t * (signed - len(held.picks) * lean)
        return value, self._gradient(slope)

    def _rounds(self) -> Iterator[tuple[Round, Array, Array]]:
        """Each round after the first, with its signed sample counts and the sum of answers on the records before."""
        starts = np.cumsum([0, *(query.rows for query in self.workload)])
        played = np.zeros(self.workload.rows)
        for before, held in zip(self.game, self.game[1:], strict=False):
            played = played + np.concatenate(
                [np.ravel(answers(query, before.row, self.domain)) for query in self.workload]
            )
            signed = np.zeros(self.workload.rows)
            for pick in held.picks:
                signed[starts[pick.query] + (pick.cell or 0)] += -1.0 if pick.is_complement else 1.0
            yield held, signed, played

    def _gradient(self, slope: Array) -> dict[Clique, Array]:
        gradient: dict[Clique, Array] = {}
        ends = np.cumsum([query.rows for query in self.workload])
        for query, own in zip(self.workload, np.split(slope, ends[:-1]), strict=True):
            table = query.adjoint(own.reshape(query.shape))
            gradient[query.clique] = gradient.get(query.clique, np.zeros(query.domain.shape)) + table
        return gradient
