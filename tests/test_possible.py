"""Constraints of a schema leave rows that can be drawn, or are refused by name before anything is paid."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import priory as pr
from command import priory
from priory.data.kinds import Category, ModelledColumn, Number
from priory.data.schema import Schema
from priory.data.schema.constraints import Condition, Constraint, Determine, Forbid, Order
from priory.data.schema.obeying import breaking
from priory.errors import SchemaError
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.ledger import Ledger, Terms
from priory.queries.factor import Factor
from priory.release.rows import batches, check_constraints


def number(name: str, *edges: int, nullable: bool = False, whole: bool = True) -> Number:
    last = edges[-1] - whole
    return Number.of(name, whole=whole, low=edges[0], high=last, edges=edges, other=edges[0], nullable=nullable)


@st.composite
def ordered(draw: st.DrawFn) -> Schema:
    """Two to four columns, of numbers with other bins or of levels, in one or two orders."""
    names = "abcd"[: draw(st.integers(2, 4))]
    kinds = draw(st.sampled_from([["integer"], ["real"], ["integer", "real"], ["ordinal"]]))
    other = draw(st.sampled_from("xzw"))
    columns: list[ModelledColumn] = []
    for name in names:
        kind, nullable = draw(st.sampled_from(kinds)), draw(st.booleans())
        if kind == "ordinal":
            columns.append(Category.of(name, "xyz", other=other, ordered=True, nullable=nullable))
        else:
            edges = draw(st.lists(st.integers(0, 6), min_size=2, max_size=4, unique=True).map(sorted))
            columns.append(number(name, *edges, nullable=nullable, whole=kind == "integer"))
    orders = st.permutations(names).flatmap(lambda found: st.integers(2, len(found)).map(lambda n: tuple(found[:n])))
    constraints = [Order(columns=chain) for chain in draw(st.lists(orders, min_size=1, max_size=2))]
    return Schema.of(columns, name="x", constraints=constraints)


def some_row_is_there(schema: Schema) -> bool:
    """Whether any row of halves obeys, for numbers of few values; levels in their order."""
    orders = [clique for constraint in schema.constraints for clique in constraint.cliques]
    return any(
        all(row[a] is None or row[b] is None or row[a] <= row[b] for a, b in orders)
        for values in itertools.product(*(_values(column) for column in schema.modelled))
        for row in [dict(zip(schema.domain, values, strict=True))]
    )


def _values(column: ModelledColumn) -> list[Any]:
    missing = [None] if column.nullable else []
    if isinstance(column, Category):
        # A label for other cells that is no level has no rank: it breaks no order.
        return [0, 1, 2, *missing, *([None] if column.places > 3 else [])]
    step = 1 if column.is_whole else 0.5
    return [*np.arange(column.edges[0], column.edges[-1] + (0 if column.is_whole else 0.25), step), *missing]


def refused(schema: Schema) -> str:
    """Why a schema's constraints are refused; nothing where they are not."""
    try:
        check_constraints(schema)
    except SchemaError as error:
        return str(error)
    return ""


@settings(max_examples=40)
@given(ordered(), st.data())
def test_every_schema_that_passes_can_be_sampled_whatever_the_model_says(schema: Schema, data: st.DataObject) -> None:
    refusal = refused(schema)
    if refusal:
        assert "leaves no row that could be drawn" in refusal
        assert any(f"order of {', '.join(each.columns)}" in refusal for each in schema.constraints)  # type: ignore[union-attr]
        return
    assert some_row_is_there(schema)
    # All but nothing of the model is in one cell, which may be one that no row has.
    cell = tuple(data.draw(st.integers(0, size - 1)) for size in schema.domain.shape)
    values = np.full(schema.domain.shape, -30.0)
    values[cell] = 0.0
    model = Model(Uniform(schema.domain), {schema.domain.attributes: Factor(schema.domain, values)}, 5.0)
    [table] = batches(model, schema, 5, seed=0)
    assert len(table) == 5
    assert not breaking(schema, table).any()


NEVER: dict[str, tuple[list[Number], list[Constraint], int]] = {
    # Each pair has rows, and the whole has none.
    "chain": ([number("a", 6, 9), number("b", 0, 9), number("c", 0, 3)], [Order(columns=("a", "b", "c"))], 1),
    # Reals that are equal: there are some, and none is ever drawn.
    "equal": (
        [number("a", 0, 9, whole=False), number("b", 0, 9, whole=False)],
        [Order(columns=("a", "b")), Order(columns=("b", "a"))],
        2,
    ),
    "circle": (
        [number("a", 0, 5), number("b", 5, 9)],
        [Order(columns=("a", "b")), Determine(column="b", by="a", values=()), Order(columns=("b", "a"))],
        3,
    ),
}


@pytest.mark.parametrize("name", NEVER)
def test_constraints_that_leave_nothing_to_draw_are_named(name: str) -> None:
    columns, constraints, number = NEVER[name]
    schema = Schema.of(columns, name="x", constraints=constraints)
    with pytest.raises(SchemaError, match=f"constraint {number}, order of"):
        check_constraints(schema)


def test_rows_are_drawn_of_a_table_that_breaks_a_chain() -> None:
    columns = [number("a", 0, 5, 9), number("b", 0, 9), number("c", 0, 5, 9)]
    schema = Schema.of(columns, name="x", constraints=[Order(columns=("a", "b", "c"))])
    release = pr.fit({"a": [7] * 50, "b": [5] * 50, "c": [1] * 50}, schema, epsilon=20, mechanism="independent")
    rows = release.sample(20, seed=0)
    assert all(a <= b <= c for a, b, c in zip(*(rows.columns[name].values for name in "abc"), strict=True))


def nobody() -> Schema:
    levels = ("yes", "no")
    columns = [Category.of("a", levels, other="no"), Category.of("b", levels, other="no")]
    yes, no = (Condition(column="a", values=(level,)) for level in levels)
    others = [Condition(column="b", values=(level,)) for level in levels]
    never: list[Constraint] = [Forbid(conditions=(yes,)), *(Forbid(conditions=(no, other)) for other in others)]
    return Schema.of(columns, name="nobody", constraints=never)


def test_constraints_that_leave_no_row_are_refused_before_a_ledger_or_a_file_is_touched(tmp_path: Path) -> None:
    schema = nobody()
    book = Ledger.create(tmp_path / "a.ledger", Terms("nobody", schema.dump(), pr.Budget.pure(2)))
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\nyes,no\n")
    with pytest.raises(SchemaError, match="constraint 3, forbid of a, b, with those before it leaves no row"):
        pr.fit(rows, schema, epsilon=1, ledger=book, output=tmp_path / "out.priory")
    assert not book.entries()
    assert {path.name for path in tmp_path.iterdir()} == {"a.ledger", "rows.csv"}
    schema.save(tmp_path / "schema.yaml")
    checked = priory("schema", "check", tmp_path / "schema.yaml")
    assert checked.returncode == SchemaError.exit_code
    assert "constraint 3" in checked.stderr
