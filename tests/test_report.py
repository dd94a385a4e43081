import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import priory as pr
from priory import town
from priory.answer.association import cramers_v
from priory.cli import main
from priory.data.kinds import Category
from priory.errors import OptionError
from priory.model.diagnostics import Diagnostics
from priory.privacy.budget import Budget, Currency
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Gaussian
from priory.privacy.statement import Statement
from priory.queries.domain import Clique
from priory.release import Release
from priory.report import charts
from priory.report.answered import answered
from priory.report.contents import Contents, spending
from priory.report.page import Text, element, shortened
from priory.report.places import Attribute, Places, axis_labels
from priory.report.sections import page_of
from priory.report.truth import STAMP, truth_page

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
NAMES = ("<u>under</u>", "a & b", "'; drop", HOSTILE, "naïve 名前 🏠", "dots.and[brackets]", "\u202eturned", "")


class Reader(HTMLParser):
    """Every tag, attribute and text of a page, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def error(self, message: str) -> None:
        raise AssertionError(message)


def statement(name: str = "people", *, is_private: bool = True) -> Statement:
    budget = Budget.zcdp("1/10")
    return Statement("by hand", budget, budget.amount, "a row", name, "memory", is_private, "0.0")


def measured(
    schema: pr.Schema, cliques: Sequence[Clique], *, is_private: bool = True, records: float = 1000
) -> Release:
    """A release of made-up counts: no private row is needed to draw a page."""
    rng = np.random.default_rng(0)
    found = []
    for clique in cliques:
        query = pr.Query.marginal(schema.domain, clique)
        counts = rng.poisson(records / query.rows, query.shape)
        found.append(Measurement.of(query, counts, 5.0, Gaussian(Fraction(5))))
    return Release(schema.domain, tuple(found), statement(schema.name, is_private=is_private), schema)


def coded(*sizes: int) -> pr.Schema:
    return pr.Schema.coded({f"c{i}": size for i, size in enumerate(sizes)}, name="coded")


def page(release: Release) -> Reader:
    return Reader(str(page_of(release)))


@pytest.fixture(scope="module")
def hostile() -> Reader:
    columns = [Category.of(name or "x", [*(n for n in NAMES if n), "y"], nullable=True) for name in NAMES[:4]]
    schema = pr.Schema.of(columns, name=HOSTILE)
    names = [column.name for column in columns]
    return page(measured(schema, [(name,) for name in names] + [(names[0], names[3])]))


def test_whatever_names_and_labels_say_nothing_of_it_becomes_markup(hostile: Reader) -> None:
    assert not {"script", "img", "u", "iframe", "object", "link", "foreignobject", "image"} & set(hostile.tags)
    assert not [name for name, _ in hostile.attributes if name.startswith("on")]
    links = [value for name, value in hostile.attributes if name in ("href", "xlink:href", "src")]
    assert links
    assert all(str(link).startswith("#") for link in links)


def test_names_are_shown_as_they_are_spelled(hostile: Reader) -> None:
    shown = "".join(hostile.texts)
    assert HOSTILE in shown
    assert "a & b" in shown
    assert "naïve 名前 🏠" in shown
    assert "\u202e" not in shown


def test_a_page_loads_nothing_and_forbids_scripts(hostile: Reader) -> None:
    policy = [value for name, value in hostile.attributes if name == "content" and "default-src" in str(value)]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"]
    for name, value in hostile.attributes:
        assert name.startswith("xmlns") or "//" not in str(value), (name, value)
    assert "url(http" not in "".join(hostile.texts)


def test_every_picture_has_words_and_names_of_its_own(hostile: Reader) -> None:
    pictures = [value for name, value in hostile.attributes if name == "role" and value == "img"]
    words = [value for name, value in hostile.attributes if name == "aria-label"]
    assert len(pictures) >= 6
    assert all(words)
    identities = [value for name, value in hostile.attributes if name == "id"]
    assert len(set(identities)) == len(identities)
    anchors = [str(value)[1:] for name, value in hostile.attributes if name == "href"]
    assert set(anchors) <= set(identities)


def test_one_column_makes_a_page_without_pairs() -> None:
    found = page(measured(coded(3), [("c0",)]))
    assert ("id", "columns") in found.attributes
    assert ("id", "pairs") not in found.attributes


def test_a_column_of_very_many_values_shows_the_most_frequent_and_the_rest() -> None:
    schema = coded(30_000, 2)
    text = str(page_of(measured(schema, [("c0",), ("c1",)], records=70_000)))
    assert "29,977 others" in text
    assert "Not drawn" in text
    assert len(text) < 200_000


def test_many_columns_are_all_there_and_only_some_are_compared() -> None:
    schema = coded(*[2] * 70)
    contents = Contents.of(measured(schema, [(name,) for name in schema.domain] + [("c3", "c69")]))
    assert len(contents.columns) == 70
    assert contents.associations.left_out == 10
    # What was measured with others is compared first.
    assert {"c3", "c69"} <= set(contents.associations.names)


def test_a_release_without_a_schema_is_shown_in_codes() -> None:
    release = measured(coded(3, 4), [("c0", "c1")])
    bare = Release(release.domain, release.measurements, release.statement)
    assert "code · 3 values · " in page(bare).texts


def test_a_saved_release_gives_the_same_page_to_the_byte(tmp_path: Path) -> None:
    release = measured(coded(3, 4), [("c0",), ("c0", "c1")])
    release = release.with_model(release.model)
    release.save(tmp_path / "r.priory")
    release.report(tmp_path / "one.html")
    pr.load(tmp_path / "r.priory").report(tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert "Where the estimate stopped" in (tmp_path / "one.html").read_text(encoding="utf-8")


def test_test_randomness_is_stamped_on_every_section() -> None:
    stamped = page(measured(coded(2, 2), [("c0", "c1")], is_private=False))
    sections = stamped.tags.count("section")
    assert sections >= 5
    assert sum(text.startswith("NOT PRIVATE: made with test") for text in stamped.texts) == sections + 2
    plain = page(measured(coded(2, 2), [("c0", "c1")]))
    assert not any("NOT PRIVATE" in text for text in plain.texts)


def test_the_statement_says_who_is_protected_and_can_be_cited() -> None:
    shown = "".join(page(measured(coded(2), [("c0",)])).texts)
    assert "Rows are protected, not persons" in shown
    assert "No ledger on disk was kept" in shown
    assert "released under differential privacy with ρ = 0.1, for tables that differ in a row" in shown


def test_the_page_names_the_accounting_and_bounds_the_probability_of_a_larger_loss() -> None:
    schema = coded(2)
    made = measured(schema, [("c0",)])
    shown = {}
    for currency in (Currency.ZCDP, Currency.GAUSSIAN):
        budget = Budget.approximate(1, "1e-9", currency)
        told = replace(made.statement, budget=budget, spent=budget.amount)
        shown[currency] = "".join(page(replace(made, statement=told)).texts)
        assert "the probability that the noise lets it grow further is at most" in shown[currency]
        assert "δ = 1e-09 is not that probability" in shown[currency]
        assert "at most 73.2 %" in shown[currency]
        assert "but for a chance" not in shown[currency]
        assert "hardly anything" not in shown[currency]
    assert "(zCDP), ρ adds up" in shown[Currency.ZCDP]
    assert "exact Gaussian accounting, μ = 0.181975" in shown[Currency.GAUSSIAN]


def test_the_page_of_declared_counts_states_no_more_than_was_declared() -> None:
    budget = Budget.approximate(1, "1e-9")
    told = replace(statement(), is_declared=True, budget=budget, spent=budget.amount)
    shown = "".join(page(replace(measured(coded(2), [("c0",)]), statement=told)).texts)
    assert "released under differential privacy with ε = 1, δ = 1e-09, for tables" in shown
    assert "ρ = " not in shown


@given(
    st.integers(1, 200),
    st.sampled_from(["integer", "category"]),
    st.integers(0, 1),
    st.integers(3, 30),
    st.integers(0, 2**32 - 1),
)
def test_groups_keep_every_record_and_are_few_and_distinct(
    size: int, kind: str, nulls: int, most: int, seed: int
) -> None:
    is_ordered = kind == "integer"
    labels = tuple(f"{code % 7}" if not is_ordered else str(code) for code in range(size + nulls))
    attribute = Attribute("a", kind, labels, size if nulls else None)
    counts = np.random.default_rng(seed).random(size + nulls)
    places = Places.of(attribute, counts, most)
    grouped = places.summed(counts)
    assert len(grouped) == len(places.labels) <= max(most, 1)
    assert places.sizes.min() >= 1
    assert places.sizes.sum() == len(counts)
    assert grouped.sum() == pytest.approx(counts.sum())
    query = pr.Query.product(pr.Domain.of({"a": len(counts)}), {"a": places.part})
    np.testing.assert_allclose(query(counts), grouped)
    if len(counts) > most:
        assert len(set(places.labels)) == len(places.labels)
    if nulls:
        assert places.null is not None
        assert grouped[places.null] == counts[-1]


def test_the_rest_is_what_is_least_frequent() -> None:
    attribute = Attribute("a", "category", tuple("abcdef"), None)
    places = Places.of(attribute, np.array([1.0, 9, 2, 8, 3, 7]), 4)
    assert places.labels == ("b", "d", "f", "3 others")
    assert places.rest == 3


def test_labels_are_years_numbers_and_intervals_that_people_write() -> None:
    schema = pr.Schema.load(town.SCHEMA)
    labels = {column.name: axis_labels(column) for column in schema.modelled}
    assert labels["born"][:2] == ("1911–1930", "1931–1935")
    assert labels["born"][-2:] == ("2021–2025", "not given")
    assert labels["hours per week"][0] == "1–9"
    assert labels["hours per week"][6] == "40"
    assert labels["income"][-2] == "120,000–250,000"


@given(st.lists(st.lists(st.integers(1, 50), min_size=3, max_size=3), min_size=2, max_size=5))
def test_cramers_v_is_scipys(rows: list[list[int]]) -> None:
    from scipy.stats.contingency import association

    expected = association(np.array(rows), method="cramer")
    assert cramers_v(np.array(rows, dtype=float)) == pytest.approx(expected, abs=1e-9)


def test_shares_of_the_budget_add_up_to_it() -> None:
    schema = pr.Schema.load(town.SCHEMA)
    release = pr.fit(town.THIS_YEAR, schema, epsilon=1, delta=1e-9, mechanism="independent")
    items = spending(release)
    assert len(items) == 13
    assert sum(item.share for item in items) == pytest.approx(1)
    # A measurement whose noise nobody declared has no price.
    query = pr.Query.marginal(schema.domain, "zone")
    unknown = Measurement.of(query, np.zeros(5), 3.0)
    assert spending(Release(release.domain, (unknown,), release.statement)) == []


def test_many_sets_of_columns_that_got_the_same_are_told_in_one_line() -> None:
    schema = coded(*[2] * 9)
    pairs = [(f"c{i}", f"c{j}") for i in range(9) for j in range(i)]
    found = page(measured(schema, pairs))
    assert any("36 sets of columns, " in text for text in found.texts)
    assert "All 9 columns were measured together with each other, in 36 sets." in found.texts


def test_intervals_are_wider_where_noise_is_larger_and_unknown_where_nothing_was_measured() -> None:
    domain = coded(4, 4, 4).domain
    found = []
    for name, stddev in (("c0", 2.0), ("c1", 50.0)):
        query = pr.Query.marginal(domain, name)
        found.append(Measurement.of(query, np.array([700, 200, 60, 40]), stddev, Gaussian(Fraction(int(stddev)))))
    rows = pr.PublicRows(np.zeros((1, 3), dtype=np.int64), domain)
    release = Release(domain, tuple(found), statement())
    asked = [(Places.of(Attribute.coded(name, 4), np.zeros(4), 9),) for name in domain]
    sharp, blunt, _ = answered(release, asked)
    assert (sharp.high - sharp.low).mean() < (blunt.high - blunt.low).mean() / 5
    # A model that no estimate can be repeated for, and a column that nothing was measured of.
    *_, unknown = answered(release.with_model(pr.Model.of(rows, {}, 1000)), asked)
    assert unknown.source == "prior"
    assert np.isnan(unknown.low).all()


def test_an_estimate_without_a_path_is_told_in_words_alone() -> None:
    release = measured(coded(2, 2), [("c0", "c1")])
    told = release.model.diagnostics
    assert told is not None
    assert charts.path_chart(told).to_dict()
    assert Diagnostics("Dual", "fission", "Done.", True, (), 1.0, 3).path == ()  # noqa: FBT003


def test_long_and_invisible_texts_are_shortened_and_shown() -> None:
    assert shortened("x" * 100, 10) == "x" * 9 + "…"
    assert shortened("a\x00b\u200f") == "a�b�"
    assert element("p", Text("<&>")) == "<p>&lt;&amp;&gt;</p>"


def run(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    release = measured(coded(3, 2), [("c0",), ("c1",)])
    release.save(tmp_path / "people.priory")
    rows = "\n".join(f"{i % 3},{i % 2}" for i in range(7717))
    (tmp_path / "private.csv").write_text(f"c0,c1\n{rows}\n")
    return tmp_path / "people.priory", tmp_path / "private.csv"


def test_true_errors_are_stamped_everywhere_and_kept_from_others(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    release, private = files
    code, out, err = run("report", release, "--against", private, "--not-private", "--yes", capsys=capsys)
    written = release.with_name("people.not-private.html")
    # Before it, a slow machine may have said how far it was.
    assert (code, out, err.splitlines()[-1].split()[0]) == (0, "", "Wrote")
    text = written.read_text(encoding="utf-8")
    found = Reader(text)
    assert found.texts.count(STAMP) == found.tags.count("section") + 2
    assert "<title>NOT PRIVATE" in text
    assert "7,717" in text
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    # The release's own report knows nothing of it.
    assert run("report", release, capsys=capsys)[0] == 0
    assert "7,717" not in release.with_name("people.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--yes"], "--not-private"),
        (["--not-private"], "--yes"),
        (["--not-private", "--yes", "-o", "people.html"], "must contain not-private"),
    ],
)
def test_private_rows_are_not_read_for_nothing_unless_it_is_said_twice(
    options: list[str], words: str, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    release, private = files
    before = sorted(release.parent.iterdir())
    # A table that cannot be read would be noticed if it were opened.
    private.write_bytes(b"\xff\xfe")
    code, _, err = run("report", release, "--against", private, *options, capsys=capsys)
    assert code == 2
    assert words in err
    assert sorted(release.parent.iterdir()) == before


def test_the_page_of_true_errors_needs_a_confirmation_in_python_too(files: tuple[Path, Path]) -> None:
    release = pr.load(files[0])
    source = pr.open_source(files[1], pr.Schema.coded({"c0": 3, "c1": 2}))
    with pytest.raises(OptionError, match="nothing was read"):
        truth_page(release, source)


def test_true_errors_are_those_of_the_marginals(files: tuple[Path, Path]) -> None:
    schema = pr.Schema.coded({"c0": 3, "c1": 2})
    query = pr.Query.marginal(schema.domain, "c0")
    exact = Measurement.of(query, np.array([9000, 0, 0]), 1.0, Gaussian(Fraction(1)))
    release = Release(schema.domain, (exact,), statement(), schema)
    text = "".join(Reader(str(truth_page(release, pr.open_source(files[1], schema), confirmed=True))).texts)
    [distance] = re.findall(r"c0total variation (0\.\d+)", text)
    assert float(distance) == pytest.approx(2 / 3, abs=0.01)


def test_options_about_a_private_table_need_one(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("report", files[0], "--not-private", capsys=capsys)
    assert code == 2
    assert "--against" in err


def test_a_report_is_not_written_over_another(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    assert run("report", files[0], "--json", capsys=capsys)[0] == 0
    code, _, err = run("report", files[0], capsys=capsys)
    assert code == 2
    assert "exists" in err
