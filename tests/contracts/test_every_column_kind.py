"""One contract for all kinds of columns: whatever the kind, cells, codes, files and conditions agree."""

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import priory
from priory.data.cells import Cells, Unread
from priory.data.codec import cells_of, decode_column, encode_column
from priory.data.kinds import KINDS, ModelledColumn, Unmodelled
from priory.data.public import misfits, refuse
from priory.data.reading import read_cell, read_cells
from priory.data.schema import Schema
from priory.data.schema.file import WORDS
from priory.errors import SchemaError
from strategies_data import BY_KIND

SOURCE = Path(priory.__file__).parent

every = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
few = settings(max_examples=40)


def drawn(data: st.DataObject, kind: type[ModelledColumn]) -> ModelledColumn:
    return data.draw(BY_KIND[kind]("a"))


def test_every_kind_is_tried_and_every_word_means_one() -> None:
    assert set(BY_KIND) == set(KINDS)
    words = [*itertools.chain.from_iterable(kind.WORDS for kind in KINDS), *Unmodelled.WORDS]
    assert len(set(words)) == len(words)
    assert tuple(words) == WORDS


@every
def test_every_word_and_option_of_a_kind_is_in_the_docs(kind: type[ModelledColumn]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "schema.md").read_text(encoding="utf-8")
    assert [word for word in (*kind.WORDS, *kind.OPTIONS) if f"`{word}" not in text and f" {word}:" not in text] == []


@every
@few
@given(data=st.data())
def test_places_rise_and_every_code_has_its_own_label(kind: type[ModelledColumn], data: st.DataObject) -> None:
    column = drawn(data, kind)
    edges = np.asarray(column.edges)
    assert len(edges) == column.places + 1
    assert (edges[1:] > edges[:-1]).all()
    assert len(set(column.labels)) == column.size
    assert len(column.short_labels) == column.places
    assert column.kind in kind.WORDS
    assert 0 <= column.other_code < column.size
    assert 0 <= column.missing_code < column.size
    assert column.ranks <= column.places
    assert not column.is_coarse or column.is_binned


@every
@few
@given(data=st.data(), seed=st.integers(0, 99))
def test_what_codes_are_decoded_to_is_encoded_to_them(
    kind: type[ModelledColumn], data: st.DataObject, seed: int
) -> None:
    column = drawn(data, kind)
    codes = np.arange(column.size)
    cells = decode_column(column, codes, np.random.default_rng(seed))
    np.testing.assert_array_equal(encode_column(column, cells), codes)
    readings = read_cells(column, cells)
    present = ~readings.missing
    assert not column.outside(readings.values)[present].any()
    if not column.is_coarse:
        np.testing.assert_array_equal(encode_column(column, cells_of(column, codes)), codes)


@every
@few
@given(data=st.data())
def test_an_array_is_read_as_its_cells_are_one_by_one(kind: type[ModelledColumn], data: st.DataObject) -> None:
    column = drawn(data, kind)
    values = decode_column(column, np.arange(column.places), np.random.default_rng(0)).values
    together = read_cells(column, Cells(values)).values.tolist()
    assert together == [read_cell(column, value) for value in values]


@every
@few
@given(data=st.data(), cell=st.none() | st.integers() | st.floats() | st.text() | st.binary() | st.booleans())
def test_no_cell_raises_and_none_is_without_a_code(kind: type[ModelledColumn], data: st.DataObject, cell: Any) -> None:
    column = drawn(data, kind)
    assert isinstance(read_cell(column, cell), int | float | Unread)
    [code] = encode_column(column, Cells.objects([cell])).tolist()
    assert 0 <= code < column.size


@every
@few
@given(data=st.data())
def test_a_column_is_the_same_after_it_was_written_to_a_file(kind: type[ModelledColumn], data: st.DataObject) -> None:
    schema = Schema.of([drawn(data, kind)], name="one")
    assert Schema.parse(schema.dump()) == schema


@every
@few
@given(data=st.data())
def test_a_draft_from_public_rows_fits_them(kind: type[ModelledColumn], data: st.DataObject) -> None:
    column = drawn(data, kind)
    values = decode_column(column, np.arange(column.places), np.random.default_rng(0)).values.tolist()
    schema = Schema.from_public({"a": values, "b": [True] * len(values)}, name="public")
    refuse(misfits(schema, {"a": values, "b": [True] * len(values)}))


@every
@few
@given(data=st.data())
def test_the_one_value_of_a_place_is_its_period_and_its_own_selection(
    kind: type[ModelledColumn], data: st.DataObject
) -> None:
    column = drawn(data, kind)
    if column.is_coarse:
        return
    for i, value in enumerate(column.place_values.tolist()):
        assert column.period_of(value) == (column.edges[i], column.edges[i + 1])


@every
@few
@given(data=st.data())
def test_a_comparison_holds_on_one_side_of_a_value_or_is_refused(
    kind: type[ModelledColumn], data: st.DataObject
) -> None:
    column = drawn(data, kind)
    [value] = column.values_at(np.asarray(column.edges[:1])).tolist()
    try:
        below, from_there = column.compared("<", value), column.compared(">=", value)
    except SchemaError:
        assert column.order is None
        return
    assert all(low >= high or high <= other for low, high in below for other, _ in from_there if column.is_binned)


@every
@few
@given(data=st.data())
def test_the_mean_of_a_whole_bin_lies_inside_it(kind: type[ModelledColumn], data: st.DataObject) -> None:
    column = drawn(data, kind)
    edges = np.asarray(column.edges)
    middles = column.middles(edges[:-1], edges[1:])
    assert len(middles) == column.places
    if column.is_binned:
        assert ((edges[:-1] <= middles) & (middles <= edges[1:])).all()


def asked_kinds(tree: ast.AST) -> Iterator[str]:
    """The names of classes that a module asks after."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            yield from (name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name))
        if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
            yield node.cls.id


def test_nothing_outside_the_kinds_asks_which_kind_a_column_is() -> None:
    names = {kind.__name__ for kind in KINDS} | {"Binned", "Listed", "Unmodelled"}
    assert asked_kinds(ast.parse("isinstance(column, Category | int)")).__next__() == "Category"
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name != "kinds":
            text = path.read_text(encoding="utf-8")
            asked = set(asked_kinds(ast.parse(text))) & names
            # Another `Number`, of budgets, is no class.
            assert not (asked and "priory.data.kinds" in text), path
