"""Steps of the studio: what is typed is never lost, and what is wrong is said beside the field."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from priory.data.dialect import USUAL
from priory.data.kinds import ModelledColumn, Number
from priory.data.schema import Schema
from priory.data.schema.open import OpenColumn
from priory.studio.checks import suggested_delta
from priory.studio.column_form import FIELDS, FieldProblem, column_of, fields_of
from priory.studio.schema_store import comments_of, dumped, parsed, with_column
from strategies_data import schemas
from studio_site import CANARY, Browser, Site, prepare, problems_of, site, until, write_tables


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("steps")
    write_tables(folder)
    with site(folder) as found:
        yield found


@pytest.fixture
def browser(studio: Site) -> Iterator[Browser]:
    """A browser in a project that has a schema, and no ledger."""
    browser = studio.browser()
    browser.submit("/table", private="people.csv", public="public.csv", name="people")
    browser.submit("/columns/draft")
    yield browser
    studio.studio.drafts.clear()


def value_of(page: str, field: str) -> str:
    """What a field shows, whatever kind of field it is."""
    area = re.search(rf'<textarea[^>]*name="{field}"[^>]*>\n?([^<]*)</textarea>', page)
    if area is not None:
        return unescape(area[1])
    chosen = re.search(rf'<select[^>]*name="{field}".*?<option value="([^"]*)" selected', page, re.DOTALL)
    if chosen is not None:
        return unescape(chosen[1])
    found = re.search(rf'<input(?=[^>]*name="{field}")[^>]*?value="([^"]*)"', page)
    return unescape(found[1]) if found else ""


def form_of(page: str) -> dict[str, str]:
    return {name: value_of(page, name) for name in FIELDS if name != "nullable"}


@given(schemas())
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_a_form_that_was_not_changed_changes_nothing(schema: Schema) -> None:
    for column in schema.columns:
        fields = fields_of(column, schema.reading)
        assert column_of(column.name, fields, column, schema.reading) is column


@given(schemas())
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_a_column_can_be_typed_anew(schema: Schema) -> None:
    for column in schema.columns:
        fields = fields_of(column, schema.reading)
        if any(
            "\r" in text or "\n" in str(level) for text in fields.values() for level in getattr(column, "levels", ())
        ):
            continue
        try:
            typed = column_of(column.name, fields, OpenColumn(name=column.name), schema.reading)
        except FieldProblem:
            continue  # texts that look like whole numbers are typed as such, and lists lose what is empty
        assert typed.kind == column.kind
        if isinstance(column, Number) and isinstance(typed, Number) and column.format == typed.format:
            # An empty text that means missing has no line of its own.
            assert replace(typed, nulls=column.nulls) == column


@given(schemas())
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_comments_stay_with_their_columns(schema: Schema) -> None:
    comments = {"": ["at the head"], **{column.name: [f"number {i}"] for i, column in enumerate(schema.columns)}}
    text = dumped(schema, comments)
    assert comments_of(text) == comments
    assert parsed(text, "schema.yaml") == schema


WRONG = [
    ({"kind": "integer", "low": "9", "high": "1"}, "low"),
    ({"kind": "integer", "low": "nine", "high": "10"}, "low"),
    ({"kind": "integer", "low": "1"}, "low"),
    ({"kind": "real", "low": "0", "high": "1"}, "bins"),
    ({"kind": "real", "low": "0", "high": "1", "bins_how": "count", "bins": "many"}, "bins"),
    ({"kind": "real", "low": "0", "high": "9", "bins_how": "edges", "bins": "0, 5, 3, 9"}, "bins"),
    ({"kind": "integer", "low": "0", "high": "9", "spikes": "12"}, "spikes"),
    ({"kind": "integer", "low": "0", "high": "9", "other": "77"}, "other"),
    ({"kind": "integer", "low": "0", "high": "9", "step": "-1"}, "step"),
    ({"kind": "date", "low": "2020-01-01", "high": "2020-13-01"}, "low"),
    ({"kind": "date", "low": "2020-01-01", "high": "2021-01-01", "bins_how": "every", "bins": "fortnight"}, "bins"),
    ({"kind": "category", "levels": ""}, "levels"),
    ({"kind": "category", "levels": "a\na"}, "levels"),
    ({"kind": "nonsense"}, "kind"),
]


@pytest.mark.parametrize(("typed", "field"), WRONG)
def test_a_wrong_edit_is_blamed_on_its_field_and_kept(typed: dict[str, str], field: str, browser: Browser) -> None:
    before = browser.get("/columns/yaml").text
    page = browser.submit("/columns/edit/2", **typed, nullable="yes").text
    assert list(problems_of(page)) == [field]
    assert f'id="problem-{field}"' in page
    again = browser.get("/columns/edit/2").text
    assert problems_of(again) == problems_of(page)
    for name, text in typed.items():
        if name not in ("kind", "bins_how"):
            assert value_of(again, name).strip() == text
    assert browser.get("/columns/yaml").text == before
    assert "does not fit yet" in browser.get("/columns").text
    assert "does not fit yet" in browser.get("/run").text
    forgotten = browser.submit("/columns/edit/2", go="forget").text
    assert problems_of(forgotten) == {}


def test_an_edit_changes_its_column_alone(studio: Site, browser: Browser) -> None:
    before = studio.studio.schema()
    assert isinstance(before, Schema)
    page = browser.get("/columns/edit/2").text
    fields = form_of(page) | {
        "low": "10",
        "high": "90",
        "bins_how": "count",
        "bins": "8",
        "spikes": "18",
        "nullable": "yes",
    }
    saved = browser.submit("/columns/edit/2", **fields, go="next")
    assert saved.url.path == "/columns/edit/3"
    after = studio.studio.schema()
    assert isinstance(after, Schema)
    assert after.columns[0] == before.columns[0]
    assert after.columns[2:] == before.columns[2:]
    changed = after.columns[1]
    assert isinstance(changed, Number)
    assert (changed.low, changed.high, changed.spikes) == (10, 90, (18,))
    assert comments_of(studio.studio.schema_text() or "") == comments_of(before_text(before, studio))
    bars = browser.get("/columns/edit/2").text
    assert "In the public table" in bars


def before_text(schema: Schema, studio: Site) -> str:
    """The drafted text with its comments, which the edit must have kept."""
    return dumped(schema, comments_of(studio.studio.schema_text() or ""))


def test_bins_are_drawn_over_the_public_rows(browser: Browser) -> None:
    page = browser.get("/columns/edit/3").text
    assert "blue" in page
    assert CANARY not in page


def test_a_schema_that_is_wrong_is_not_taken_and_points_at_its_line(studio: Site, browser: Browser) -> None:
    good = studio.studio.schema_text() or ""
    bad = good.replace("kind: boolean", "kind: bolean")
    assert bad != good
    page = browser.submit("/columns/yaml", text=bad).text
    assert "did you mean" in problems_of(page)["text"]
    assert re.search(r"line \d+", problems_of(page)["text"])
    assert studio.studio.schema_text() == good
    assert "bolean" in browser.get("/columns/yaml").text
    browser.submit("/columns/yaml", text=bad, go="forget")
    assert "bolean" not in browser.get("/columns/yaml").text


def test_a_schema_file_can_be_uploaded(studio: Site, browser: Browser) -> None:
    text = b"priory: 1\nname: people\ncolumns:\n  age: {kind: integer, bounds: [0, 120], bins: 12, nullable: true}\n"
    headers = {"origin": browser.address}
    data, files = {"csrf": browser.csrf(), "text": ""}, {"file": ("mine.yaml", text, "application/yaml")}
    assert browser.post("/columns/yaml", data=data, files=files, headers=headers).status_code == 200
    schema = studio.studio.schema()
    assert isinstance(schema, Schema)
    assert [column.name for column in schema.columns] == ["age"]
    broken = {"file": ("mine.yaml", b"\xff\xfe", "application/yaml")}
    assert browser.post("/columns/yaml", data=data, files=broken, headers=headers).status_code == 400


TYPED = {
    "/table": {"private": "people.csv", "public": "public.csv", "name": "a name"},
    "/persons": {"protects": "person", "person": "person", "max_rows": "many", "relation": "replace-one"},
    "/budget": {"rows": "about ten", "total_epsilon": "much", "total_delta": "2", "epsilon": "-1", "delta": "1e-7"},
}


@pytest.mark.parametrize("path", TYPED)
def test_what_was_typed_is_there_after_a_reload_and_after_going_back(path: str, browser: Browser) -> None:
    typed = TYPED[path]
    away = browser.submit(path, **typed, go="history")
    assert away.url.path == "/history"
    page = browser.get(path).text
    for field, text in typed.items():
        shown = value_of(page, field)
        checked = re.search(rf'name="{field}" value="{re.escape(text)}"[^>]*checked', page)
        assert shown == text or checked, field
    assert browser.get(path).text == page


def test_wrong_answers_are_said_beside_their_fields(browser: Browser) -> None:
    for path, typed in TYPED.items():
        browser.submit(path, **typed)
    assert set(problems_of(browser.get("/persons").text)) == {"max_rows"}
    assert {"rows", "total_epsilon", "epsilon"} <= set(problems_of(browser.get("/budget").text))
    refused = browser.submit("/budget", go="make")
    assert refused.status_code == 400
    browser.submit("/persons", protects="person", person="age", max_rows="1", relation="add-remove")
    assert "kind id" in problems_of(browser.get("/persons").text)["person"]
    public = browser.submit("/table", private="people.csv", public="people.csv", name="x").text
    assert "the private one" in problems_of(public)["public"]
    assert browser.submit("/columns/draft").status_code == 400


def test_a_ledger_that_is_bound_fixes_the_columns(tmp_path: Path) -> None:
    write_tables(tmp_path)
    with site(tmp_path) as found:
        browser = found.browser()
        prepare(browser)
        book = found.studio.ledger()
        assert book is not None
        book.bind(found.studio.schema_text() or "")
        before = found.studio.schema_text()
        for path, typed in (
            ("/columns/edit/2", {"kind": "text"}),
            ("/columns/draft", {}),
            ("/columns/yaml", {"text": "x"}),
        ):
            assert browser.submit(path, **typed).status_code == 409
        assert found.studio.schema_text() == before
        assert "bound to this schema" in browser.get("/columns").text
        browser.submit("/persons", protects="person", person="person", max_rows="2", relation="replace-one")
        assert found.studio.settings.protects == "row"


def test_names_alone_become_a_schema_column_by_column(tmp_path: Path) -> None:
    write_tables(tmp_path)
    with site(tmp_path) as found:
        browser = found.browser()
        browser.submit("/table", private="people.csv", public="", name="people")
        browser.submit("/columns/names", columns="person, age")
        assert CANARY not in (tmp_path / "schema.yaml").read_text()
        browser.submit("/columns/edit/1", kind="id")
        assert "not known yet" in browser.get("/run").text
        browser.submit("/columns/edit/2", kind="integer", low="0", high="120", nullable="yes")
        schema = found.studio.schema()
        assert isinstance(schema, Schema)
        assert [column.kind for column in schema.columns] == ["id", "integer"]


def test_the_forecast_comes_and_reads_no_private_row(tmp_path: Path) -> None:
    write_tables(tmp_path)
    with site(tmp_path) as found:
        browser = found.browser()
        prepare(browser)
        (tmp_path / "people.csv").unlink()
        first = browser.get("/budget/forecast.json?epsilon=1").json()
        assert first["state"] == "working"
        assert any("belief" in line for line in first["words"])
        answer: dict[str, Any] = {}

        def has_come() -> bool:
            answer.update(browser.get("/budget/forecast.json?epsilon=1").json())
            return bool(answer["state"] != "working")

        until(has_come)
        assert answer["state"] == "done", answer
        assert {each["column"] for each in answer["columns"]} == {"age", "colour", "smoker"}
        assert browser.get("/budget/forecast.json?epsilon=nothing").json()["state"] == "wrong"


@given(st.integers(1, 10**9))
def test_the_suggested_delta_is_small_for_all_persons_together(rows: int) -> None:
    delta = float(suggested_delta(str(rows)))
    assert delta * rows * 1000 <= 1 + 1e-9
    assert delta * rows * 1000 > 0.1 - 1e-9 or delta == 1e-9


def test_every_kind_has_its_fields() -> None:
    for kind in ("category", "integer", "boolean"):
        fields = dict.fromkeys(FIELDS, "") | {
            "kind": kind,
            "nullable": "yes",
            "levels": "a\nb",
            "low": "0",
            "high": "9",
        }
        column = column_of("x", fields, OpenColumn(name="x"), USUAL)
        assert isinstance(column, ModelledColumn)
        schema = Schema.of([column], name="x")
        assert with_column(schema, column) == schema
