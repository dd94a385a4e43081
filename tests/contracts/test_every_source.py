"""One contract for all sources: whatever holds the records, counts are the same integers."""

import datetime as dt
import itertools
import math
import random
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from priory.data.cells import Cells
from priory.data.codec import encode_column
from priory.data.persons import PersonRule, record_hash
from priory.data.schema import Schema
from priory.data.sources.opening import open_source
from priory.data.sources.source import ROW_LIMIT, Source
from priory.data.spelling import of_cell
from priory.errors import DomainError, SizeError
from sources_at_hand import IN_PROCESSES, SOURCES, Opener

pa = pytest.importorskip("pyarrow")

SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  who: {kind: id}
  colour: {kind: category, levels: [red, grün, "1"], other: rest, nulls: ["?"]}
  code: {kind: category, levels: [3, 1, -7], other: 99, nullable: true}
  grade: {kind: ordinal, levels: [low, high], nullable: true}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 18, 50, 99]}, nullable: true}
  paid: {kind: real, bounds: [-1, 99], bins: {edges: [-1, 0.1, 5, 99]}, spikes: [0], nullable: true}
  born: {kind: date, bounds: [1950-01-01, 2020-12-31], bins: {every: year}, nullable: true}
  seen: {kind: datetime, bounds: [2020-01-01, 2020-12-31], bins: {every: month}, nullable: true}
  member: {kind: boolean, nullable: true}
"""
)
NAMES = [column.name for column in SCHEMA.modelled]
CLIQUES = [(), *itertools.combinations(NAMES, 1), *itertools.combinations(NAMES, 2), ("member", "age", "colour")]
KEY = bytes(range(32))
RULES = {"rows": None, "one row a person": PersonRule("who", 1, KEY), "three rows": PersonRule("who", 3, KEY)}
# Texts that fit some of the columns, are missing in others, and are bad cells everywhere else.
TEXTS = [
    None, "", "red", "grün", "1", "?", "mauve", "3", "-7", "3.0", "low", "high", "17", "18", "0", "-0", "4.99999999999",
    "1e2", "nan", "inf", "1950-01-01", "2019-12-31", "2020-02-29T12:30", "2020-02-30", "true", "FALSE", "yes", "😀",
]  # fmt: skip


def texts(rows: int, seed: int) -> Any:
    """A table in which every cell is a text, and few of them fit."""
    draw = random.Random(seed)  # noqa: S311 - test data
    columns = {name: [draw.choice(TEXTS) for _ in range(rows)] for name in NAMES}
    who = [draw.choice(["7", "7.0", "007", "ann", "eve ", "eve", None, "zoë"]) for _ in range(rows)]
    return pa.table({name: pa.array(cells, pa.string()) for name, cells in {"who": who, **columns}.items()})


def typed(rows: int, seed: int) -> Any:
    """A table in which cells have types, some are null, and some are out of bounds."""
    draw = random.Random(seed)  # noqa: S311 - test data
    day, second = dt.timedelta(1), dt.timedelta(seconds=1)
    makers: dict[str, tuple[Any, Any]] = {
        "who": (pa.int64(), lambda: draw.randrange(rows // 5 + 1)),
        "colour": (pa.string(), lambda: draw.choice(["red", "grün", "1", "?", "mauve"])),
        "code": (pa.int64(), lambda: draw.choice([3, 1, -7, 99, 2**40])),
        "grade": (pa.string(), lambda: draw.choice(["low", "high", "LOW"])),
        "age": (pa.int32(), lambda: draw.choice([-1, 0, 17, 18, 49, 50, 99, 1000])),
        "paid": (
            pa.float64(),
            lambda: draw.choice([-2.0, -0.0, 0.1, 0.30000000000000004, 4.999, 5.0, math.inf, 1e300]),
        ),
        "born": (pa.date32(), lambda: dt.date(1949, 6, 1) + draw.randrange(27_000) * day),
        "seen": (pa.timestamp("us"), lambda: dt.datetime(2019, 12, 1) + draw.randrange(10**6) * 40 * second),
        "member": (pa.bool_(), lambda: draw.random() < 0.4),
    }
    columns = {
        name: pa.array([None if draw.random() < 0.1 else make() for _ in range(rows)], kind)
        for name, (kind, make) in makers.items()
    }
    return pa.table(columns)


TABLES = {
    "typed": typed(230, seed=1),
    "texts": texts(150, seed=2),
    "one row": typed(1, seed=3),
    "no rows": typed(0, seed=4),
    "no rows of texts": texts(0, seed=5),
}


@cache
def expected(table: str, rule: str) -> list[np.ndarray]:
    """Encoded and counted one record at a time."""
    rows = TABLES[table].to_pylist()
    records = [tuple(int(encode_column(c, Cells.objects([row[c.name]]))[0]) for c in SCHEMA.modelled) for row in rows]
    kept = _first_in_line(records, [of_cell(row["who"]) for row in rows], RULES[rule])
    counts = []
    for clique in CLIQUES:
        counted = np.zeros([SCHEMA.domain[name] for name in clique], dtype=np.int64)
        for record in kept:
            counted[tuple(record[NAMES.index(name)] for name in clique)] += 1
        counts.append(counted)
    return counts


Record = tuple[int, ...]


def _first_in_line(records: list[Record], persons: list[str | None], rule: PersonRule | None) -> list[Record]:
    if rule is None:
        return records
    lines: dict[str, list[tuple[str, Record]]] = {}
    copies: Counter[tuple[str, Record]] = Counter()
    for person, record in zip(persons, records, strict=True):
        if person is not None:
            copies[person, record] += 1
            place = record_hash(rule.key, person, record, copies[person, record])
            lines.setdefault(person, []).append((place, record))
    return [record for line in lines.values() for _, record in sorted(line)[: rule.max_rows]]


@pytest.fixture(params=list(SOURCES), scope="module")
def kind(request: pytest.FixtureRequest) -> Opener:
    return SOURCES[request.param]


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest, kind: Opener) -> Source:
    return kind(request, TABLES["typed"], SCHEMA, None)


# A request takes seconds where worker processes are asked: they are given one table under all rules, others under some.
FEW = {*(("typed", rule) for rule in RULES), ("one row", "three rows"), ("no rows", "rows"), ("no rows", "three rows")}
CASES = [
    (name, table, rule)
    for name in SOURCES
    for table in TABLES
    for rule in RULES
    if name != IN_PROCESSES or (table, rule) in FEW
]


@pytest.mark.parametrize(("kind", "table", "rule"), CASES, indirect=["kind"])
def test_counts_are_those_of_the_records_in_the_order_asked(
    request: pytest.FixtureRequest, kind: Opener, table: str, rule: str
) -> None:
    source = kind(request, TABLES[table], SCHEMA, RULES[rule])
    for clique, factor, truth in zip(CLIQUES, source.count(CLIQUES), expected(table, rule), strict=True):
        assert factor.domain.attributes == clique
        assert factor.values.dtype == np.int64
        np.testing.assert_array_equal(factor.values, truth)


def test_counting_again_gives_the_same_counts(source: Source) -> None:
    for _ in range(2):
        [found] = source.count([("age", "colour")])
        np.testing.assert_array_equal(found.values, expected("typed", "rows")[CLIQUES.index(("colour", "age"))].T)


def test_the_domain_is_the_schemas_and_the_row_limit_is_declared(source: Source) -> None:
    assert source.domain == SCHEMA.domain
    assert source.row_limit == ROW_LIMIT


def test_what_cannot_be_counted_is_refused(source: Source) -> None:
    with pytest.raises(DomainError, match="nobody"):
        source.count([("nobody",)])


def test_a_source_is_taken_as_it_is(source: Source) -> None:
    assert open_source(source, SCHEMA) is source


def test_a_source_shows_nothing_of_its_records(source: Source) -> None:
    assert "230" not in repr(source)
    assert "grün" not in repr(source)


def test_too_many_cells_are_refused_before_anything_is_counted(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("priory.queries.domain.MOST_CELLS", 5)
    with pytest.raises(SizeError, match="at most 5"):
        source.count([("age", "colour")])
