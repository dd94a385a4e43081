"""What a notebook shows of each noun: compact, and with everything that was not ours escaped."""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import priory as pr
from priory.data.cells import Cells
from priory.data.kinds import Category
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger
from priory.privacy.statement import Statement

HOSTILE = "<script>alert('x')</script> & \"quotes\""


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.texts = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts += data + "|"


def schema() -> pr.Schema:
    return pr.Schema.of([Category.of(HOSTILE, [HOSTILE, "b"], nullable=True)], name=HOSTILE)


def release() -> pr.Release:
    budget = Budget.pure(1)
    statement = Statement(HOSTILE, budget, budget.amount, "a row", HOSTILE, "memory", is_private=False, version="0")
    return pr.Release(schema().domain, (), statement, schema())


def ledger() -> Ledger:
    book = Ledger.in_memory(Budget.pure(3), dataset=HOSTILE, schema=schema().dump())
    with book.reserve(Budget.pure(1), HOSTILE):
        pass
    return book


SHOWN: dict[str, Callable[[], Any]] = {
    "schema": schema,
    "release": release,
    "ledger": ledger,
    "table": lambda: pr.Table.of({HOSTILE: Cells(np.array([HOSTILE], dtype=object))}),
    "plan": lambda: pr.plan(pr.Domain.of({HOSTILE: 2, "b": 3}), [(HOSTILE, "b")]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_noun_is_shown_as_tables_with_everything_escaped(name: str) -> None:
    shown = Tags(SHOWN[name]()._repr_html_())
    assert set(shown.found) <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert "table" in shown.found
    if name != "plan":
        # A cell of a table is shortened; what is left is as it was spelled.
        assert HOSTILE[:30] in shown.texts


def test_what_matters_is_there() -> None:
    assert "1 are modelled" in Tags(schema()._repr_html_()).texts
    assert "NOT PRIVATE: Release of" in Tags(release()._repr_html_()).texts
    assert "|ε = 1|" in Tags(release()._repr_html_()).texts
    assert "|left|ε = 3|" in Tags(ledger()._repr_html_()).texts
    assert "|width|1|" in Tags(pr.plan(pr.Domain.of({"a": 2, "b": 3}), [("a", "b")])._repr_html_()).texts


def test_a_ledger_shows_neither_its_secret_nor_where_it_lies(tmp_path: Path) -> None:
    from priory.privacy.ledger import Terms

    book = Ledger.create(tmp_path / "people.ledger", Terms("people", "", Budget.pure(1), None))
    shown = book._repr_html_()
    assert book.secret.hex() not in shown
    assert str(tmp_path) not in shown
    assert "people.ledger" in shown
