"""Whether the constraints of a schema leave any row, and what a fit does where they leave none."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import priory as pr
from priory.data.kinds import Category
from priory.data.schema import Schema
from priory.data.schema.constraints import MOST_JOINED_CELLS, Condition, Forbid, leaves_rows
from priory.errors import DataError
from priory.privacy.ledger import Ledger, Terms
from priory.queries.domain import Clique

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}


@st.composite
def masks(draw: st.DrawFn) -> list[tuple[Clique, NDArray[np.bool_]]]:
    """Impossible cells of a few cliques, mostly ones that leave little."""
    cliques = draw(st.lists(st.lists(st.sampled_from(sorted(SIZES)), unique=True, max_size=3), max_size=5))
    found = []
    for names in cliques:
        shape = tuple(SIZES[name] for name in names)
        size = int(np.prod(shape))
        cells = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
        found.append((tuple(names), np.array(cells, dtype=np.int64).reshape(shape) > 0))
    return found


@given(masks())
def test_rows_are_left_exactly_where_some_row_breaks_no_constraint(
    impossible: list[tuple[Clique, NDArray[np.bool_]]],
) -> None:
    rows = (dict(zip(SIZES, codes, strict=True)) for codes in itertools.product(*map(range, SIZES.values())))
    expected = any(not any(mask[tuple(row[name] for name in clique)] for clique, mask in impossible) for row in rows)
    assert leaves_rows(impossible) == expected


def test_what_takes_too_many_cells_is_left_to_the_model() -> None:
    wide = int(MOST_JOINED_CELLS**0.5) + 1
    assert not leaves_rows([(("a", "b"), np.zeros((wide, wide), dtype=np.bool_))])


def test_constraints_that_leave_no_row_are_refused_before_a_ledger_or_a_file_is_touched(tmp_path: Path) -> None:
    levels = ("yes", "no")
    columns = [Category.of("a", levels, other="no"), Category.of("b", levels, other="no")]
    yes, no = (Condition(column="a", values=(level,)) for level in levels)
    others = [Condition(column="b", values=(level,)) for level in levels]
    never = [Forbid(conditions=(yes,)), *(Forbid(conditions=(no, other)) for other in others)]
    schema = Schema.of(columns, name="nobody", constraints=never)
    book = Ledger.create(tmp_path / "a.ledger", Terms("nobody", schema.dump(), pr.Budget.pure(2)))
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\nyes,no\n")
    with pytest.raises(DataError, match="every row that could be is ruled out"):
        pr.fit(rows, schema, epsilon=1, ledger=book, output=tmp_path / "out.priory")
    assert not book.entries()
    assert {path.name for path in tmp_path.iterdir()} == {"a.ledger", "rows.csv"}
