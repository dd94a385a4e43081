"""Coarsened: noisy answers as those of a table whose values are merged into runs; models of it are small."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part, Recode
from priory.queries.query import Query


@dataclass(frozen=True, eq=False)
class Coarsened:
    """A table whose attributes are cut into runs of values."""

    domain: Domain  # the attributes, with a value for each run
    runs: dict[str, NDArray[np.int64]]  # the run that each value is in
    counts: dict[str, Array]  # about how common each value is, above 0

    @classmethod
    def of(cls, pairs: Iterable[Measurement], measurements: Iterable[Measurement]) -> "Coarsened":
        """The table that answers about all pairs on runs are about; other ones say how common values are."""
        runs: dict[str, NDArray[np.int64]] = {}
        for query in (m.query for m in pairs):
            for name, part, size in zip(query.clique, query.parts, query.domain.shape, strict=True):
                runs[name] = np.asarray(part.targets) if isinstance(part, Recode) else np.arange(size)
        counts = {name: np.ones(len(targets)) for name, targets in runs.items()}
        for m in measurements:
            if len(m.query.clique) == 1 and m.query.is_marginal:
                counts[m.query.clique[0]] = np.maximum(m.values, 0.0) + np.maximum(m.stddev, 1.0)
        return cls(Domain.of({name: int(targets.max()) + 1 for name, targets in runs.items()}), runs, counts)

    def pairs(self, measurements: Iterable[Measurement]) -> list[Measurement]:
        """Answers about pairs on runs, as marginals of this table."""
        return [Measurement(Query.marginal(self.domain, m.query.clique), m.values, m.stddev) for m in measurements]

    def summed(self, measurements: Sequence[Measurement]) -> list[Measurement]:
        """What answers about values, or groups of them, add up to in this table; a public number of rows stays."""
        return [self._summed(m) for m in measurements if all(isinstance(p, Identity | Recode) for p in m.query.parts)]

    def _summed(self, measurement: Measurement) -> Measurement:
        query = measurement.query
        values: Array = np.asarray(measurement.values, dtype=np.float64)
        variances: Array = np.broadcast_to(np.square(measurement.stddev), query.shape)
        for axis, (name, part) in enumerate(zip(query.clique, query.parts, strict=True)):
            shares = self._shares(name, part)
            values, variances = (
                np.moveaxis(np.tensordot(by, each, axes=(1, axis)), 0, axis)
                for by, each in ((shares, values), (shares**2, variances))
            )
        return Measurement(Query.marginal(self.domain, query.clique), values, np.sqrt(variances))

    def _shares(self, name: str, part: Part) -> Array:
        """The part of each group of values, which an answer counts, that is in each run."""
        runs, counts = self.runs[name], self.counts[name]
        groups = np.asarray(part.targets) if isinstance(part, Recode) else np.arange(len(runs))
        shares = np.zeros((int(runs.max()) + 1, int(groups.max()) + 1))
        np.add.at(shares, (runs, groups), counts)
        return np.asarray(shares / np.maximum(shares.sum(axis=0), 1e-300))
