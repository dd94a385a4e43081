"""One contract for all sources: whatever holds the records, counts are the same integers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from priory.data.schema import Schema
from priory.data.sources.duckdb import open_in_duckdb
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source
from priory.errors import DomainError, SizeError

SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  colour: {kind: category, levels: [red, green], other: rest}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 50, 99]}, nullable: true}
  member: {kind: boolean, nullable: true}
"""
)
RECORDS = [
    (["red", "green", "mauve"][i % 3], None if i % 7 == 0 else i % 100, ["true", "false"][i % 5 == 0])
    for i in range(230)
]
CLIQUES = [(), ("age",), ("member", "colour"), ("age", "colour", "member")]


def columns() -> dict[str, list[object]]:
    return {name: [record[i] for record in RECORDS] for i, name in enumerate(("colour", "age", "member"))}


def written(folder: Path) -> Path:
    lines = [",".join("" if cell is None else str(cell) for cell in record) for record in RECORDS]
    path = folder / "people.csv"
    path.write_text("\n".join(["colour,age,member", *lines]) + "\n")
    return path


def of_arrow(_: Path) -> Source:
    arrow = pytest.importorskip("pyarrow")
    return open_source(arrow.table(columns()), SCHEMA)


def of_pandas(_: Path) -> Source:
    pandas = pytest.importorskip("pandas")
    return open_source(pandas.DataFrame(columns()), SCHEMA)


def of_polars(_: Path) -> Source:
    polars = pytest.importorskip("polars")
    return open_source(polars.DataFrame(columns()), SCHEMA)


def of_relation(folder: Path) -> Source:
    import duckdb

    return open_source(duckdb.read_csv(str(written(folder))), SCHEMA)


SOURCES: dict[str, Callable[[Path], Source]] = {
    "a file": lambda folder: open_source(written(folder), SCHEMA),
    "a file that stays in DuckDB": lambda folder: open_in_duckdb(written(folder), SCHEMA, None),
    "a DuckDB relation": of_relation,
    "pandas": of_pandas,
    "polars": of_polars,
    "pyarrow": of_arrow,
}


@pytest.fixture(params=list(SOURCES))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    return SOURCES[request.param](tmp_path)


def expected(clique: tuple[str, ...]) -> np.ndarray:
    """Counted one record at a time."""
    colours, members = ["red", "green", "mauve"], ["false", "true"]
    table = np.zeros([SCHEMA.domain[name] for name in clique], dtype=np.int64)
    for colour, age, member in RECORDS:
        codes = {
            "colour": colours.index(colour),
            "age": 2 if age is None else int(age >= 50),
            "member": members.index(member),
        }
        table[tuple(codes[name] for name in clique)] += 1
    return table


def test_counts_are_those_of_the_records_in_the_order_asked(source: Source) -> None:
    counted = source.count(CLIQUES)
    for clique, factor in zip(CLIQUES, counted, strict=True):
        assert factor.domain.attributes == clique
        assert factor.values.dtype.kind == "i"
        np.testing.assert_array_equal(factor.values, expected(clique))


def test_the_domain_is_the_schemas_and_the_row_limit_is_declared(source: Source) -> None:
    assert source.domain == SCHEMA.domain
    assert source.row_limit >= len(RECORDS)


def test_what_cannot_be_counted_is_refused(source: Source) -> None:
    with pytest.raises(DomainError, match="nobody"):
        source.count([("nobody",)])


def test_a_source_is_taken_as_it_is(source: Source) -> None:
    assert open_source(source, SCHEMA) is source


def test_too_many_cells_are_refused_before_anything_is_counted(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("priory.queries.domain.MOST_CELLS", 5)
    with pytest.raises(SizeError, match="at most 5"):
        source.count([("age", "colour")])
