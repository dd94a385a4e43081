import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from priory.app.fit import fit
from priory.app.registry import MECHANISMS
from priory.data.cells import Unread
from priory.data.kinds import Category, ModelledColumn
from priory.data.reading import read_cell
from priory.data.schema import Schema
from priory.data.schema.constraints import Condition, Constraint, Determine, Forbid, Order
from priory.data.schema.obeying import breaking
from priory.data.streaming import write_batches
from priory.data.table import Table
from priory.errors import DataError, OptionError, SchemaError
from priory.estimate.first_model import uniform
from priory.model.model import Model
from priory.privacy.randomness import Replay
from priory.release import Release
from priory.release.rows import batches, check_constraints
from strategies_data import schemas

SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  who: {kind: id}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 10, 20, 40, 99]}, nullable: true}
  district: {kind: category, levels: [A, B, C], other: C}
  zone: {kind: category, levels: [north, south], other: south}
  born: {kind: date, bounds: [2000-01-01, 2003-12-31], bins: {every: year}}
  moved: {kind: date, bounds: [2000-01-01, 2003-12-31], bins: {every: year}, nullable: true}
  job: {kind: category, levels: [none, some], nullable: true}
constraints:
  - determine: {column: zone, by: district, map: {A: north, B: south}}
  - order: [born, moved]
  - forbid: {age: {below: 15}, job: some}
""".replace("bins: {every: year}}", "bins: {every: year}, nullable: true}", 1)
)


def rows(n: int = 300, seed: int = 0) -> dict[str, list[Any]]:
    """Rows of which many break a constraint: data are what they are."""
    rng = np.random.default_rng(seed)
    day = np.datetime64("2000-01-01")
    return {
        "age": rng.integers(0, 100, n).tolist(),
        "district": rng.choice(["A", "B", "C"], n).tolist(),
        "zone": rng.choice(["north", "south"], n).tolist(),
        "born": (day + rng.integers(0, 1400, n)).astype(str).tolist(),
        "moved": (day + rng.integers(0, 1400, n)).astype(str).tolist(),
        "job": rng.choice(["none", "some"], n).tolist(),
    }


def point(column: ModelledColumn, value: object) -> float | None:
    found = None if value is None else read_cell(column, value)
    return None if isinstance(found, Unread) else found


def breaks(constraint: Constraint, columns: dict[str, ModelledColumn], row: dict[str, Any]) -> bool:
    """One row against one constraint, by the words of the schema."""
    points = {name: point(columns[name], value) for name, value in row.items()}

    def ranked(name: str) -> bool:
        column, value = columns[name], points[name]
        return value is not None and not (isinstance(column, Category) and value >= len(column.levels))

    def satisfied(condition: Condition) -> bool:
        value, column = points[condition.column], columns[condition.column]
        if condition.null:
            return value is None
        if value is None:
            return False
        if condition.values:
            return value in [column.point_of(each) for each in condition.values]
        below = condition.below is None or value < column.point_of(condition.below)
        above = condition.above is None or value > column.point_of(condition.above)
        return ranked(condition.column) and below and above

    match constraint:
        case Forbid():
            return all(satisfied(condition) for condition in constraint.conditions)
        case Determine():
            given, value = points[constraint.by], points[constraint.column]
            pairs = [
                (columns[constraint.by].point_of(a), columns[constraint.column].point_of(b))
                for a, b in constraint.values
            ]
            return value is not None and any(given == a and value != b for a, b in pairs)
        case Order():
            return any(
                ranked(one) and ranked(other) and points[one] > points[other]  # type: ignore[operator]
                for one, other in constraint.cliques
            )


def breaking_by_hand(schema: Schema, table: Table) -> list[bool]:
    columns = {column.name: column for column in schema.modelled}
    data = table.to_dict()
    lines = [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
    return [any(breaks(constraint, columns, line) for constraint in schema.constraints) for line in lines]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(schemas().filter(lambda schema: bool(schema.constraints)), st.integers(0, 2**32))
def test_no_row_breaks_a_constraint_whatever_the_schema(schema: Schema, seed: int) -> None:
    try:
        check_constraints(schema)
    except SchemaError:
        # Bins of which a constraint leaves next to nothing are refused, not filled with rows that break it.
        assume(condition=False)
    [table] = batches(Model(uniform(schema.domain, schema), {}), schema, 40, seed=seed)
    assert not any(breaking_by_hand(schema, table))


@settings(max_examples=40, deadline=None)
@given(schemas().filter(lambda schema: bool(schema.constraints)), st.integers(0, 2**32))
def test_rows_that_break_a_constraint_are_found_out(schema: Schema, seed: int) -> None:
    free = Schema.of(schema.columns, name="free")
    [table] = batches(Model(uniform(free.domain, free), {}), free, 30, seed=seed)
    assert breaking(schema, table).tolist() == breaking_by_hand(schema, table)


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_constraints_are_structural_zeros_for_every_mechanism(name: str, tmp_path: Path) -> None:
    delta = {} if MECHANISMS[name].is_pure else {"delta": 1e-6}
    release = fit(rows(), SCHEMA, epsilon=1, mechanism=name, randomness=Replay(seed=0), **delta)  # type: ignore[arg-type]
    release.save(tmp_path / "a.priory")
    for each in (release, Release.load(tmp_path / "a.priory")):
        for clique, impossible in SCHEMA.impossible():
            assert each.model.project(clique).values[impossible].sum() == 0
        assert not any(breaking_by_hand(SCHEMA, each.sample(200, seed=1)))


@pytest.mark.parametrize("name", ["pmw-pub", "prior", "prior-update"])
def test_public_rows_that_cannot_be_are_left_out(name: str) -> None:
    public = rows(seed=1)
    release = fit(rows(), SCHEMA, rho=1, mechanism=name, public=public, randomness=Replay(seed=0))
    assert not any(breaking_by_hand(SCHEMA, release.sample(200, seed=1)))
    impossible = {**public, "district": ["A"] * 300, "zone": ["south"] * 300}
    with pytest.raises(DataError, match="constraints"):
        fit(rows(), SCHEMA, rho=1, mechanism=name, public=impossible)


def test_constraints_that_leave_nothing_are_refused_before_anything_is_spent() -> None:
    text = (
        "priory: 1\nname: x\ncolumns: {a: {kind: boolean, other: true}}\nconstraints: [{forbid: {a: [true, false]}}]\n"
    )
    with pytest.raises(SchemaError, match="leaves no row"):
        fit({"a": [True]}, Schema.parse(text), epsilon=1)


@pytest.fixture(scope="module")
def release() -> Release:
    return fit(rows(), SCHEMA, epsilon=1, mechanism="independent", randomness=Replay(seed=0))


def test_rows_keep_types_order_and_nulls(release: Release) -> None:
    table = release.sample(50, seed=0)
    assert table.names == ("age", "district", "zone", "born", "moved", "job")
    assert [table.kind(name) for name in table.names] == ["integer", "text", "text", "date", "date", "text"]
    assert [table.columns[name].null is not None for name in table.names] == [True, False, False, True, True, True]
    frame = table.to_pandas()
    assert str(frame.dtypes["age"]) == "Int64"
    assert str(frame.dtypes["born"]).startswith("datetime64")
    assert table.to_polars().columns == list(table.names)


def test_the_same_seed_gives_the_same_rows_in_one_table_or_in_batches(release: Release) -> None:
    once = release.sample(1000, seed=3).to_dict()
    assert once == release.sample(1000, seed=3).to_dict()
    assert once != release.sample(1000, seed=4).to_dict()
    pieces = list(release.batches(1000, seed=3, size=300))
    assert [len(piece) for piece in pieces] == [300, 300, 300, 100]
    assert Table.joined(pieces).to_dict() == Table.joined(list(release.batches(1000, seed=3, size=300))).to_dict()


@pytest.mark.parametrize("n", [0, 1, 2])
def test_any_number_of_rows_can_be_had(release: Release, n: int, tmp_path: Path) -> None:
    table = release.sample(n, seed=0)
    assert len(table) == n
    for name in ("a.csv", "a.parquet"):
        assert write_batches(release.batches(n, seed=0), tmp_path / name) == n


def test_without_a_number_there_are_as_many_rows_as_the_model_says(release: Release) -> None:
    assert len(release.sample(seed=0)) == round(release.model.total)


@pytest.mark.parametrize("n", [-1, 1.5, "3", True])
def test_what_is_no_number_of_rows_is_refused(release: Release, n: Any) -> None:
    with pytest.raises(OptionError, match="number of rows"):
        release.sample(n)


@pytest.mark.parametrize(
    "where",
    [
        "district = A",
        "age is null or job = 'some'",
        {"zone": "north", "born": ["2001", "2002"]},
        "not (district in (A, B) or born >= 2002)",
        "age between 20 and 39 or moved is null and zone = south",
    ],
)
def test_rows_that_are_asked_for_satisfy_the_condition(release: Release, where: Any) -> None:
    table = release.sample(300, where=where, seed=0)
    assert len(table) == 300
    again = {name: ["null" if v is None else v for v in values] for name, values in table.to_dict().items()}
    checks = {
        "district = A": lambda r: r["district"] == "A",
        "age is null or job = 'some'": lambda r: r["age"] == "null" or r["job"] == "some",
        "not (district in (A, B) or born >= 2002)": lambda r: r["district"] == "C" and r["born"] < dt.date(2002, 1, 1),
    }
    check = (
        checks.get(where)
        if isinstance(where, str)
        else lambda r: r["zone"] == "north" and r["born"].year in (2001, 2002)
    )
    if check is not None:
        assert all(check(dict(zip(again, row, strict=True))) for row in zip(*again.values(), strict=True))


def test_conditional_rows_have_the_model_s_conditional_distribution(release: Release) -> None:
    table = release.sample(20_000, where="district = A or born < 2001-01-01", seed=0)
    shares = release.share("district", where="district = A or born < 2001-01-01", draws=2).to_dict()
    counts = [table.to_dict()["district"].count(level) / 20_000 for level in shares["district"]]
    # Rounding keeps each count within a few rows of what is expected.
    np.testing.assert_allclose(counts, shares["estimate"], atol=0.002)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("age >= 30", "one bin"),
        ("district = A and zone = south", "no row that satisfies"),
        ("district = Z", "not a level"),
    ],
)
def test_rows_that_cannot_be_had_are_refused(release: Release, where: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        release.sample(3, where=where)


def test_batches_make_the_same_file_as_one_table(release: Release, tmp_path: Path) -> None:
    whole = release.sample(700, seed=0)
    whole.write_csv(tmp_path / "whole.csv")
    pieces = [
        Table(
            {
                n: type(c)(c.values[i : i + 200], None if c.null is None else c.null[i : i + 200])
                for n, c in whole.columns.items()
            }
        )
        for i in range(0, 700, 200)
    ]
    write_batches(pieces, tmp_path / "pieces.csv")
    assert (tmp_path / "pieces.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    write_batches(pieces, tmp_path / "pieces.parquet")
    import duckdb

    found = duckdb.connect().execute(f"SELECT age, born, job FROM '{tmp_path / 'pieces.parquet'}'").fetchall()
    data = whole.to_dict()
    assert found == list(zip(data["age"], data["born"], data["job"], strict=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pieces.csv", "pieces.parquet", "whole.csv"]


def test_synthetic_rows_can_be_read_by_their_own_schema(release: Release, tmp_path: Path) -> None:
    write_batches(release.batches(500, seed=0), tmp_path / "a.csv")
    again = fit(tmp_path / "a.csv", SCHEMA, rho=10**6, mechanism="independent")
    counts = {m.query.clique: m.values for m in again.measurements}
    table = release.sample(500, seed=0).to_dict()
    assert counts["district",].tolist() == [table["district"].count(level) for level in "ABC"]
    assert counts["job",].tolist() == [table["job"].count(level) for level in ("none", "some", None)]
