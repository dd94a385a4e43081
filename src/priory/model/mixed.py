"""Mixed: the oracle of a weighted average of bases."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.errors import OptionError
from priory.model.engine.layout import Layout
from priory.model.sampling import Chance, Codes
from priory.model.tilted import Oracle, Tilted, softmax
from priory.queries.domain import Clique
from priory.queries.factor import Array
from priory.queries.query import Query


class MixedOracle:
    """Z = Σ w_k Z_k and μ = Σ w_k Z_k μ_k / Z."""

    def __init__(self, layout: Layout, weights: Sequence[float], oracles: Sequence[Oracle]) -> None:
        self.layout = layout
        self._log_weights = np.log(weights)
        self._oracles = tuple(oracles)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        parts = [oracle(theta) for oracle in self._oracles]
        log_z, shares = softmax(self._log_weights + np.array([log_z for log_z, _ in parts]))
        mixed = np.zeros(self.layout.size)
        for share, (_, marginals) in zip(shares, parts, strict=True):
            mixed += share * marginals
        return log_z, mixed


@dataclass(frozen=True, eq=False)
class MixedTilted(Tilted):
    """A weighted average of tilted bases."""

    parts: tuple[Tilted, ...]
    shares: Array

    @classmethod
    def of(cls, weights: Sequence[float], parts: Sequence[Tilted]) -> "MixedTilted":
        """Weigh tilted bases by the mass each has left; those with none are dropped."""
        log_z, shares = softmax(np.log(weights) + np.array([part.log_z for part in parts]))
        live = [(part, share) for part, share in zip(parts, shares, strict=True) if share > 0]
        return cls(log_z, tuple(part for part, _ in live), np.array([share for _, share in live]))

    def project(self, clique: Clique) -> Array:
        projected = (share * part.project(clique) for share, part in zip(self.shares, self.parts, strict=True))
        return np.asarray(sum(projected))

    def answers(self, queries: Sequence[Query]) -> list[Array]:
        each = [part.answers(queries) for part in self.parts]
        rows = zip(*each, strict=True)
        return [np.asarray(sum(share * answer for share, answer in zip(self.shares, row, strict=True))) for row in rows]

    def sample(self, n: int, chance: Chance) -> Codes:
        counts = chance.allocated(self.shares[None, :], np.array([n]))[0]
        rows = np.concatenate([part.sample(int(n), chance) for part, n in zip(self.parts, counts, strict=True)])
        return rows[chance.rng.permutation(len(rows))]

    def log_mass(self, codes: Codes) -> Array:
        each = np.array([part.log_mass(codes) for part in self.parts]) + np.log(self.shares)[:, None]
        return np.asarray(np.logaddexp.reduce(each, axis=0))

    def entropy(self) -> float:
        raise OptionError("base", "the entropy of a mixture has no closed form; use its `divergence`, from its base")
