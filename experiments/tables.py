"""Tables: the real tables as codes, their counts, and the measurements that experiments share."""

import itertools
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query

FILES = {
    "adult": ("adult_coded15", "adult.csv.gz"),
    "titanic": ("titanic", "titanic9_coded.csv.gz"),
    "loans": ("loans", "loans48_coded.csv.gz"),
    "stroke": ("stroke_ist", "stroke110_coded.csv.gz"),
}
# Marginals of more cells than this are neither measured nor compared: peers could not hold them either.
LARGEST = 20_000


@dataclass(frozen=True, eq=False)
class Coded:
    """A table of codes.

    Attributes:
        name: what it is called.
        domain: its attributes.
        codes: one row a record.
    """

    name: str
    domain: Domain
    codes: NDArray[np.int64]

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.codes)

    @cached_property
    def _kept(self) -> dict[Clique, NDArray[np.int64]]:
        return {}

    def counts(self, clique: Iterable[str]) -> NDArray[np.int64]:
        """The marginal of a clique, counted once."""
        clique = tuple(clique)
        if clique not in self._kept:
            self._kept[clique] = self._counted(clique)
        return self._kept[clique]

    def _counted(self, clique: Clique) -> NDArray[np.int64]:
        cells = np.zeros(self.records, dtype=np.int64)
        for name in clique:
            cells = cells * self.domain[name] + self.codes[:, self.domain.axis[name]]
        shape = self.domain.project(clique).shape
        return np.bincount(cells, minlength=self.domain.size_of(clique)).reshape(shape)


def data_folder() -> Path:
    """The folder of the real tables, from PRIORY_DATA."""
    folder = os.environ.get("PRIORY_DATA")
    if not folder or not Path(folder).is_dir():
        raise SystemExit("set PRIORY_DATA to the folder of the real tables")
    return Path(folder)


def table(name: str) -> Coded:
    """One of the papers' four tables; Adult without `education`, which repeats `education-num`."""
    folder, file = FILES[name]
    sizes = json.loads((data_folder() / folder / "domain.json").read_text())
    sizes.pop("education", None)
    return Coded(name, Domain.of(sizes), read_codes(data_folder() / folder / file, sizes))


def split(name: str, half: str) -> Coded:
    """The "priv" or "pub" half of one of the public splits."""
    folder = data_folder() / "public_splits" / name
    sizes = json.loads((folder / "domain.json").read_text())
    return Coded(f"{name}/{half}", Domain.of(sizes), read_codes(folder / f"{half}.csv.gz", sizes))


def read_codes(path: Path, columns: Iterable[str]) -> NDArray[np.int64]:
    """The columns of a file of codes."""
    import pandas as pd

    frame = pd.read_csv(path)
    return np.ascontiguousarray(frame[list(columns)].to_numpy(dtype=np.int64))


def spanning_tree(coded: Coded) -> list[Clique]:
    """The maximum spanning tree by the distance of each pair from independence (from the data: this is no release)."""
    edges = []
    for a, b in itertools.combinations(coded.domain, 2):
        if coded.domain.size_of((a, b)) <= LARGEST:
            shares = coded.counts((a, b)) / coded.records
            edges.append((float(np.abs(shares - np.outer(shares.sum(1), shares.sum(0))).sum()), a, b))
    edges.sort(reverse=True)
    group = {name: {name} for name in coded.domain}
    tree = []
    for _, a, b in edges:
        if group[a] is not group[b]:
            tree.append(coded.domain.clique((a, b)))
            group[a] |= group[b]
            for name in group[b]:
                group[name] = group[a]
    return tree


def measured_cliques(coded: Coded, triples: int = 8) -> list[Clique]:
    """All one-way marginals, a spanning tree of pairs, and some triples that extend its edges."""
    tree = spanning_tree(coded)
    beside: dict[str, list[str]] = {}
    for a, b in tree:
        beside.setdefault(a, []).append(b)
        beside.setdefault(b, []).append(a)
    found = {coded.domain.clique((a, b, c)): None for a in beside for b, c in itertools.combinations(beside[a], 2)}
    small = [clique for clique in found if coded.domain.size_of(clique) <= LARGEST]
    chosen = [small[i] for i in np.random.default_rng(0).permutation(len(small))[:triples]]
    return [*((name,) for name in coded.domain), *tree, *chosen]


def noisy(coded: Coded, cliques: Sequence[Clique], sigma: float, seed: int) -> list[Measurement]:
    """Rounded Gaussian noise on each marginal; for experiments only, where draws must repeat."""
    rng = np.random.default_rng([seed, int(sigma * 1000)])
    drawn = []
    for clique in cliques:
        counts = coded.counts(clique)
        values = counts + np.rint(rng.normal(0, sigma, counts.shape)).astype(np.int64)
        drawn.append(Measurement.of(Query.marginal(coded.domain, clique), values, sigma))
    return drawn


def some_cliques(domain: Domain, k: int, most: int, seed: int = 0) -> list[Clique]:
    """All k-way marginals that are not too large, or `most` of them at random."""
    every = [clique for clique in itertools.combinations(domain, k) if domain.size_of(clique) <= 10 * LARGEST]
    if len(every) <= most:
        return every
    return [every[i] for i in sorted(np.random.default_rng(seed).permutation(len(every))[:most])]


def variations(model: Model, coded: Coded, cliques: Sequence[Clique]) -> Array:
    """The total variation distance between the model's marginals and the table's."""
    queries = [Query.marginal(coded.domain, clique) for clique in cliques]
    answers = model.answers(queries)
    return np.array(
        [
            0.5 * np.abs(answer / model.total - coded.counts(query.clique) / coded.records).sum()
            for query, answer in zip(queries, answers, strict=True)
        ]
    )
