"""Kept tables: answers about some columns with their redraws, in a file from which others are answered at once.

The file has a JSON header and arrays, each with a checksum; only the arrays that are needed are read. What is not in
it, or is damaged, is a `NotKept`: whoever asks then asks the release itself.
"""

import json
import math
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from priory.answer.basis import Drawn
from priory.answer.errors import Errors
from priory.answer.intervals import Source
from priory.data.schema import Schema
from priory.data.schema.file import of_value
from priory.data.yaml_reader import of_plain
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query

if TYPE_CHECKING:
    from priory.answer.kept_tree import KeptTree

_MAGIC = b"priory answers 3\n"
_SIZES = struct.Struct("<QI")  # of the header: its bytes and its checksum
_MOST_HEADER = 2**26
# Larger tables are not put together from the tree: they are asked of the release.
CARRIED_CELLS = 150_000


class NotKept(LookupError):
    """The file does not hold what was asked for."""


@dataclass(frozen=True, eq=False)
class KeptTable:
    """A marginal with its redraws."""

    clique: Clique  # its attributes, in the domain's order
    source: Source  # where it comes from
    named: Source  # the same by its right name, where it rests on independence alone
    estimate: Array  # the model's answers
    moves: Array  # how far they move in each draw, one more axis in front

    def answer(self, query: Query) -> tuple[Array, Array]:
        """The answers to a query of the same attributes, and how far they move in each draw."""
        moves = self.moves
        for axis, part in enumerate(query.parts):
            moves = part.apply(moves, axis + 1)
        return np.asarray(query(self.estimate), dtype=np.float64), np.asarray(moves, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class KeptTables:
    """A release as far as a file holds it."""

    facts: Mapping[str, Any]  # the header
    path: Path  # the file
    start: int  # where its arrays begin

    @classmethod
    def read(cls, path: Path) -> "KeptTables":
        """The header of a file; `NotKept` where there is none, or it is damaged."""
        try:
            with path.open("rb") as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    raise NotKept(path)
                length, checksum = _SIZES.unpack(file.read(_SIZES.size))
                header = file.read(min(length, _MOST_HEADER))
            if len(header) != length or zlib.crc32(header) != checksum:
                raise NotKept(path)
            return cls(json.loads(header), path, len(_MAGIC) + _SIZES.size + length)
        except (OSError, ValueError, struct.error):
            raise NotKept(path) from None

    @cached_property
    def domain(self) -> Domain:
        """The attributes."""
        return Domain.of(dict(self.facts["domain"]))

    def schema(self, is_asked: Callable[[str], bool]) -> Schema:
        """What the codes of the columns that are asked mean, values inside bins as the model's totals suggest.

        A schema has at least one column: the first is always there.
        """
        sizes = {name: size for i, (name, size) in enumerate(self.facts["domain"]) if i == 0 or is_asked(name)}
        described = self.facts["schema"]
        schema = Schema.coded(sizes) if described is None else of_value(of_plain(_only(described, sizes)))
        totals = {name: np.array(each) for name, each in self.facts["totals"].items() if name in sizes}
        return schema.shaped(totals)

    @cached_property
    def errors(self) -> Errors:
        """What redrawing does not show."""
        return Errors.of_plain(self.facts["errors"])

    def marginals(self, clique: Clique) -> list[Measurement]:
        """The noisy marginals that have all these attributes."""
        return [self._measurement(each) for each in self.facts["measurements"] if set(clique) <= set(each["clique"])]

    def _measurement(self, described: Mapping[str, Any]) -> Measurement:
        query = Query.marginal(self.domain, described["clique"])
        stddev = described["stddev"] if "stddev" in described else self._array(described["stddevs"], query.shape)
        return Measurement(query, self._array(described["values"], query.shape), stddev)

    def _others(self, clique: Clique) -> list[Measurement]:
        """The noise of other queries that have all these attributes, as that of their cells."""
        holding = [each for each in self.facts["others"] if set(clique) <= set(each["clique"])]
        return [
            Measurement(Query.marginal(self.domain, each["clique"]), np.empty(0), each["stddev"]) for each in holding
        ]

    def drawn(self, queries: Sequence[Query], level: float | None) -> list[Drawn]:
        """Answers to each query, as the release itself gives them."""
        return [self._drawn(query, level) for query in queries]

    def _drawn(self, query: Query, level: float | None) -> Drawn:
        table = self.table(query.clique)
        answer, moves = table.answer(query)
        if level is None:
            return Drawn(answer, np.empty((0, *answer.shape)), np.full(answer.shape, np.nan), table.named)
        noise = [*self.marginals(query.clique), *self._others(query.clique)]
        hidden = self.errors.hidden(
            query, answer, answer + moves, growth=self._growth, source=table.source, measurements=noise
        )
        return Drawn(answer, answer + moves, hidden, table.named)

    @cached_property
    def _growth(self) -> Array:
        """The part by which all records grow in each redraw."""
        whole = self.table(())
        return np.asarray(whole.moves.reshape(-1) / max(float(whole.estimate.reshape(())), 1.0))

    def table(self, clique: Clique) -> KeptTable:
        """The marginal of these attributes."""
        described = self.facts["tables"].get(_key(clique))
        if described is None:
            return self._carried(clique)
        shape = self.domain.project(clique).shape
        array = self._array(described["at"], (1 + described["draws"], *shape))
        return KeptTable(clique, described["source"], described["named"], array[0], array[1:])

    def _carried(self, clique: Clique) -> KeptTable:
        """The marginal of attributes that were not measured together, carried through the tree."""
        others = (*self.facts["measurements"], *self.facts["others"])
        is_measured = any(set(clique) <= set(each["clique"]) for each in others)
        if self._tree is None or is_measured or self.domain.size_of(clique) > CARRIED_CELLS:
            raise NotKept(clique)
        carried = self._tree.marginal(clique)
        if not all(np.isfinite(each).all() for each in carried):
            raise NotKept(clique)
        groups = dict(zip(self.domain, self.facts["groups"], strict=True))
        is_tied = len({groups[name] for name in clique}) <= 1
        return KeptTable(clique, "inferred", "inferred" if is_tied else "independent by assumption", *carried)

    @cached_property
    def _tree(self) -> "KeptTree | None":
        # What is in a table needs nothing of this.
        from priory.answer.kept_tree import KeptTree

        described = self.facts.get("tree")
        return None if described is None else KeptTree(described, self.domain, self._array)

    def arrays(self) -> bytes:
        """All arrays as they are."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.start)
                return file.read()
        except OSError:
            raise NotKept(self.path) from None

    def _array(self, at: Sequence[int], shape: tuple[int, ...], kind: DTypeLike = np.float64) -> Array:
        offset, checksum = at
        try:
            found = np.fromfile(self.path, kind, math.prod(shape), offset=self.start + offset)
        except OSError:
            raise NotKept(self.path) from None
        if len(found) != math.prod(shape) or zlib.crc32(found.data) != checksum:
            raise NotKept(self.path)
        return found.reshape(shape)


@dataclass(frozen=True, eq=False)
class KeptFile:
    """A file of kept tables that is being made."""

    facts: dict[str, Any]  # the header
    arrays: list[bytes]  # what comes after it

    @classmethod
    def of(
        cls, domain: Domain, errors: Errors, measurements: Iterable[Measurement], facts: Mapping[str, Any]
    ) -> "KeptFile":
        """A file without a table."""
        file = cls({**facts, "domain": list(zip(domain.attributes, domain.shape, strict=True)), "tables": {}}, [])
        file.facts["errors"] = errors.plain()
        file.facts["measurements"], file.facts["others"] = [], []
        for each in measurements:
            clique = list(each.query.clique)
            if not each.query.is_marginal:
                file.facts["others"].append({"clique": clique, "stddev": math.sqrt(each.variance)})
                continue
            noise = (
                {"stddevs": file.add(each.stddev)} if isinstance(each.stddev, np.ndarray) else {"stddev": each.stddev}
            )
            file.facts["measurements"].append({"clique": clique, "values": file.add(each.values), **noise})
        return file

    @property
    def size(self) -> int:
        """How many bytes the arrays have so far."""
        return sum(map(len, self.arrays))

    def has(self, clique: Clique) -> bool:
        """Whether the table of these attributes is in it."""
        return _key(clique) in self.facts["tables"]

    def add(self, array: Array, kind: DTypeLike = np.float64) -> list[int]:
        """Add an array; where it begins and its checksum."""
        offset, data = self.size, np.ascontiguousarray(array, dtype=kind).tobytes()
        self.arrays.append(data)
        return [offset, zlib.crc32(data)]

    def add_table(self, clique: Clique, source: Source, found: Drawn) -> None:
        """Add a marginal, of this source before it gets its right name."""
        array = np.concatenate([found.estimate[None], found.repeats - found.estimate])
        described = {"source": source, "named": found.source, "draws": len(found.repeats), "at": self.add(array)}
        self.facts["tables"][_key(clique)] = described

    def data(self) -> bytes:
        """The bytes of the file."""
        header = json.dumps(self.facts, allow_nan=False).encode()
        return b"".join([_MAGIC, _SIZES.pack(len(header), zlib.crc32(header)), header, *self.arrays])


def _only(described: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """A schema of some of its columns alone."""
    entries = []
    for (data, text), value in described["entries"]:
        if text == "columns":
            columns = [[key, item] for key, item in value["entries"] if key[1] in names]
            entries.append([[data, text], {"entries": columns}])
        elif text in ("priory", "name", "reading"):
            entries.append([[data, text], value])
    return {"entries": entries}


def _key(clique: Clique) -> str:
    return json.dumps(clique)


def _known(numbers: Any) -> Array:  # noqa: ANN401 - numbers, or None for those that are not known
    return np.array(numbers, dtype=np.float64)


def _or_none(number: float) -> float | None:
    return None if math.isnan(number) else number
