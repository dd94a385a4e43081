"""Constraints, conditions and groups of a schema, against every row tried."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.data.kinds import Boolean, Category, ModelledColumn, Number
from priory.data.schema import Group, Schema
from priory.data.schema.constraints import Condition, Constraint, Determine, Forbid, Order
from priory.errors import SchemaError


def brute_force(schema: Schema) -> list[tuple[tuple[str, ...], np.ndarray[Any, Any]]]:
    """Impossible cells found by trying every whole value of every bin."""
    found = {column.name: column for column in schema.modelled}
    zeros = []
    for constraint in schema.constraints:
        for clique in constraint.cliques:
            ordered = schema.domain.clique(clique)
            values = {name: [_values(found[name], code) for code in range(found[name].size)] for name in clique}
            mask = np.zeros([schema.domain[name] for name in ordered], dtype=bool)
            for cell in np.ndindex(mask.shape):
                at = dict(zip(ordered, cell, strict=True))
                rows = itertools.product(*(values[name][at[name]] for name in clique))
                mask[cell] = not any(_allowed(constraint, clique, row) for row in rows)
            zeros.append((ordered, mask))
    return zeros


def _values(column: ModelledColumn, code: int) -> list[Any]:
    if code == column.null_code:
        return [None]
    match column:
        case Category():
            return [column.values[code]]
        case Boolean():
            return [bool(code)]
        case _:
            return list(range(int(column.edges[code]), int(column.edges[code + 1])))


def _allowed(constraint: object, clique: tuple[str, ...], row: tuple[Any, ...]) -> bool:
    match constraint:
        case Order():
            return None in row or row[0] <= row[1]
        case Determine():
            given, value = row
            return value is None or dict(constraint.values).get(given, value) == value
        case Forbid():
            return not all(map(_holds, constraint.conditions, row))
    raise AssertionError(clique)


def _holds(condition: Condition, value: Any) -> bool:
    if condition.null or value is None:
        return condition.null and value is None
    if condition.values:
        return value in condition.values
    below, above = condition.below, condition.above
    return (below is None or value < below) and (above is None or value > above)


@given(st.data())
def test_structural_zeros_are_the_cells_without_an_allowed_value(data: st.DataObject) -> None:
    edges = st.lists(st.integers(0, 12), min_size=2, max_size=5, unique=True).map(sorted)
    nullable = st.booleans()

    def number(name: str) -> Number:
        points = data.draw(edges)
        return Number.of(
            name,
            whole=True,
            low=points[0],
            high=points[-1] - 1,
            edges=points,
            other=points[0],
            nullable=data.draw(nullable),
        )

    u, v = number("u"), number("v")
    levels = ["a", "b", "c"]
    w = Category.of("w", levels, other="d", nullable=data.draw(nullable))
    x = Category.of("x", levels, other="a", nullable=data.draw(nullable))
    limit = data.draw(st.sampled_from(u.edges[1:]))
    picked = data.draw(st.lists(st.sampled_from([*levels, "d"]), min_size=1, unique=True))
    constraints: list[Constraint] = [
        Order(columns=("v", "u")),
        Forbid(conditions=(Condition(column="w", values=tuple(picked)), Condition(column="u", below=limit))),
        Forbid(conditions=(Condition(column="v", above=v.edges[0] - 1), Condition(column="x", values=("b",)))),
        Determine(column="x", by="w", values=(("a", "b"), ("d", "c"))),
    ]
    if x.nullable:
        constraints.append(Forbid(conditions=(Condition(column="w", values=("b",)), Condition(column="x", null=True))))
    schema = Schema.of([u, v, w, x], name="x", constraints=constraints)
    for (clique, mask), (expected_clique, expected) in zip(schema.impossible(), brute_force(schema), strict=True):
        assert clique == expected_clique
        np.testing.assert_array_equal(mask, expected)


def test_conditions_on_reals_take_whole_bins_only() -> None:
    column = Number.of("a", whole=False, low=0, high=3, edges=[0, 1, 2, 3], nullable=True)
    assert Condition(column="a", below=2).mask(column).tolist() == [True, True, False, False]
    assert Condition(column="a", below=2.5).mask(column).tolist() == [True, True, False, False]
    # The last bin holds its upper edge, so that it is not wholly below it.
    assert Condition(column="a", below=3).mask(column).tolist() == [True, True, False, False]
    assert Condition(column="a", above=0).mask(column).tolist() == [False, True, True, False]
    twin = Number.of("b", whole=False, low=0, high=3, edges=[0, 1, 2, 3], nullable=True)
    schema = Schema.of([column, twin], name="x", constraints=[Order(columns=("a", "b"))])
    expected = [[False, False, False], [True, False, False], [True, True, False]]
    assert schema.impossible()[0][1][:3, :3].tolist() == expected


def test_a_real_spike_is_a_value_that_conditions_can_name() -> None:
    column = Number.of("a", whole=False, low=0, high=3, edges=[0, 1, 3], spikes=[3, 0], nullable=True)
    assert column.labels == ("0", "(0, 1)", "[1, 3)", "3", "null")
    assert column.short_labels == ("0", ">0–1", "1–3", "3")
    assert Condition(column="a", values=(0, 3)).mask(column).tolist() == [True, False, False, True, False]
    assert Condition(column="a", above=0).mask(column).tolist() == [False, True, True, True, False]
    assert Condition(column="a", below=3).mask(column).tolist() == [True, True, True, False, False]
    with pytest.raises(SchemaError, match="by value only where it is one of spikes"):
        Condition(column="a", values=(0, 1)).mask(column)


def test_a_constraint_on_too_many_cells_is_refused() -> None:
    wide = [Number.of(name, whole=True, low=0, high=9999, nullable=True) for name in "ab"]
    with pytest.raises(SchemaError, match=r"100,020,001 cells"):
        Schema.of(wide, name="x", constraints=[Order(columns=("a", "b"))])


def test_groups_without_values_are_all_declared_levels() -> None:
    district = Category.of("d", ["n", "s"], other="elsewhere", nullable=True)
    member = Boolean.of("m", nullable=True)
    group = Group(by=("d", "m"), values=None)
    assert group.codes([district, member]) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    with pytest.raises(SchemaError, match="2 values"):
        Schema.of([district, member], name="x", groups=[Group(by=("d", "m"), values=(("n",),))])
    with pytest.raises(SchemaError, match="twice"):
        Schema.of([district], name="x", groups=[Group(by=("d",), values=(("n",), ("n",)))])
