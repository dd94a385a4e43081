"""Mixed: the oracle of a weighted average of bases."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.domain import Clique
from priory.errors import OptionError
from priory.factor import Array
from priory.model.engine.layout import Layout
from priory.model.sampling import Chance, Codes
from priory.model.softmax import softmax
from priory.model.tilted import Oracle, Tilted
from priory.queries.query import Query


class MixedOracle:
    """Z = Σ w_k Z_k and μ = Σ w_k Z_k μ_k / Z."""

    def __init__(self, layout: Layout, weights: Sequence[float], oracles: Sequence[Oracle]) -> None:
        self.layout = layout
        self._log_weights = np.log(weights)
        self._oracles = tuple(oracles)

    def __call__(self, theta: Array, out: Array | None = None) -> tuple[float, Array]:
        parts = [oracle(theta) for oracle in self._oracles]
        log_z, shares = softmax(self._log_weights + np.array([log_z for log_z, _ in parts]))
        out = np.empty(self.layout.size) if out is None else out
        out[...] = 0.0
        for share, (_, marginals) in zip(shares, parts, strict=True):
            out += share * marginals
        return log_z, out


@dataclass(frozen=True, eq=False)
class MixedTilted(Tilted):
    """A weighted average of tilted bases."""

    parts: tuple[Tilted, ...]
    shares: Array
    log_normaliser: float

    @classmethod
    def of(cls, weights: Sequence[float], parts: Sequence[Tilted]) -> "MixedTilted":
        """Weigh tilted bases by the mass each has left; those with none are dropped."""
        log_z, shares = softmax(np.log(weights) + np.array([part.log_z for part in parts]))
        live = [(part, share) for part, share in zip(parts, shares, strict=True) if share > 0]
        return cls(tuple(part for part, _ in live), np.array([share for _, share in live]), log_z)

    @property
    def log_z(self) -> float:
        return self.log_normaliser

    def project(self, clique: Clique) -> Array:
        return np.asarray(
            sum(share * part.project(clique) for share, part in zip(self.shares, self.parts, strict=True))
        )

    def answers(self, queries: Sequence[Query]) -> list[Array]:
        each = [part.answers(queries) for part in self.parts]
        return [
            np.asarray(sum(share * answer for share, answer in zip(self.shares, row, strict=True)))
            for row in zip(*each, strict=True)
        ]

    def sample(self, n: int, chance: Chance) -> Codes:
        counts = chance.allocated(self.shares[None, :], np.array([n]))[0]
        rows = [part.sample(int(count), chance) for part, count in zip(self.parts, counts, strict=True)]
        together = np.concatenate(rows)
        return together[chance.rng.permutation(len(together))]

    def log_mass(self, codes: Codes) -> Array:
        each = np.array([part.log_mass(codes) for part in self.parts]) + np.log(self.shares)[:, None]
        return np.asarray(np.logaddexp.reduce(each, axis=0))

    def entropy(self) -> float:
        raise OptionError(
            "base", "the entropy of a mixture has no closed form; use `divergence`, from its base, instead"
        )
