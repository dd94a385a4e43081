"""Splits: private and public tables in pairs, with the workloads they are judged by."""

import gzip
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from experiments.metrics import cell_errors, mean_total_variation
from experiments.tables import data_folder
from priory.data.sources.memory import MemorySource
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.queries.workload import Workload

SPLITS = (
    "adult_ref",
    "adult_ref_bias45",
    "adult_disjoint",
    "acs_nat19_pub_nat18",
    "acs_nat19_pub_matx18",
    "acs_red_nat19_pub_nat18",
    "adult_reduced",
)
REDUCED = ("acs_red_nat19_pub_nat18", "adult_reduced")
EPSILONS = ("0.1", "0.15", "0.2", "0.25", "0.5", "1")


@dataclass(frozen=True, eq=False)
class Split:
    """A private table, public rows for it, and a workload.

    Attributes:
        name: what it is called.
        source: the private table.
        records: how many rows that has; public, for rows are replaced.
        public: the public rows.
        workload: the marginals that matter.
        truths: their true answers, in rows.
    """

    name: str
    source: MemorySource
    records: int
    public: PublicRows
    workload: Workload
    truths: tuple[Array, ...]

    @classmethod
    @cache
    def load(cls, name: str) -> "Split":
        """One of `SPLITS`, from the folder of real tables."""
        folder = data_folder() / "public_splits" / name
        domain = Domain.of(json.loads((folder / "domain.json").read_text()))
        private, public = (_codes(str(folder / f"{part}.csv.gz")) for part in ("priv", "pub"))
        cliques = json.loads((folder / "workloads.json").read_text())
        return cls.of(name, domain, private, public, cliques)

    @classmethod
    def of(
        cls,
        name: str,
        domain: Domain,
        private: NDArray[np.int64],
        public: NDArray[np.int64],
        cliques: Sequence[Sequence[str]],
    ) -> "Split":
        """A split of given rows."""
        source = MemorySource(domain, tuple(private[:, i].astype(np.int32) for i in range(len(domain))), len(private))
        workload = Workload.of(Query.marginal(domain, clique) for clique in cliques)
        truths = tuple(f.values.astype(np.float64) for f in source.count([query.clique for query in workload]))
        return cls(name, source, len(private), PublicRows(public, domain), workload, truths)

    def upon(self, public: NDArray[np.int64]) -> "Split":
        """The same private table with other public rows."""
        return replace(self, public=PublicRows(public, self.source.domain))

    def budget(self, epsilon: str) -> Budget:
        """(ε, 1/n²), one row replaced."""
        return Budget.approximate(epsilon, Fraction(1, self.records**2), relation="replace-one")

    @contextmanager
    def curated(self, budget: Budget) -> Iterator[Curator]:
        """A curator with this much to spend."""
        with Ledger.in_memory(budget).reserve(budget, "experiment") as reservation:
            yield Curator(reservation, self.source)

    def judged(self, shares: Sequence[Array]) -> dict[str, float]:
        """Errors of answers to the workload, given as shares."""
        found = [self.records * share for share in shares]
        errors = cell_errors(found, self.truths, self.records)
        return {"largest": errors.largest, "mean": errors.mean, "mean_tv": mean_total_variation(found, self.truths)}


def _codes(path: str) -> NDArray[np.int64]:
    with gzip.open(path, "rt") as file:
        return np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int64, ndmin=2)


def runs(usual: int) -> int:
    """How many repeats: the usual number, or PRIORY_RUNS for a quick look."""
    return int(os.environ.get("PRIORY_RUNS", usual))


def chosen(names: Sequence[str], variable: str, between: str = ",") -> list[str]:
    """Those of `names` that the environment variable lists, with commas or another sign between them, or all."""
    wanted = os.environ.get(variable)
    return [name for name in names if wanted is None or name in wanted.split(between)]
