"""What a release says of its own quality, and what the curator's own check says of it."""

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import priory as pr
from priory import town
from priory.answer.association import cramers_v
from priory.answer.quality import ABOVE, DOMINATED, INFERRED, UNMEASURED, is_dependent
from priory.answer.ties import Ties
from priory.cli import main
from priory.cli.printing import json_text
from priory.errors import DomainError, OptionError, ReleaseError
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Gaussian
from priory.privacy.statement import Statement
from priory.queries.domain import Clique
from priory.release import Release
from priory.report.evaluation import STAMP

SCHEMA = pr.Schema.coded({"a": 3, "b": 4, "c": 2, "d": 3}, name="coded")


def described(columns: dict[str, dict[str, object]]) -> pr.Schema:
    """The schema of these columns, written as a file is."""
    return pr.Schema.parse(yaml.safe_dump({"priory": 1, "name": "people", "columns": columns}, sort_keys=False))


def released(counts: dict[Clique, np.ndarray], *, stddev: int = 5, schema: pr.Schema = SCHEMA) -> Release:
    """A release of counts with noise of this standard deviation."""
    rng = np.random.default_rng(3)
    found = []
    for clique, values in counts.items():
        query = pr.Query.marginal(schema.domain, clique)
        noisy = np.round(values + rng.normal(0, stddev, query.shape)).astype(int)
        found.append(Measurement.of(query, noisy, float(stddev), Gaussian(Fraction(stddev))))
    budget = Budget.zcdp("1/10")
    statement = Statement("by hand", budget, budget.amount, "a row", schema.name, "memory", True, "0")  # noqa: FBT003
    return Release(schema.domain, tuple(found), statement, schema)


def even(*cliques: Sequence[str], records: float = 1200) -> dict[Clique, np.ndarray]:
    shapes = {tuple(clique): SCHEMA.domain.project(clique).shape for clique in cliques}
    return {clique: np.full(shape, records / np.prod(shape)) for clique, shape in shapes.items()}


def verdicts(release: Release) -> dict[Clique, str]:
    judged = release.judged()
    return {each.names: each.verdict for each in (*judged.columns, *judged.pairs)}


def test_a_pair_that_depends_is_above_the_noise_and_an_even_one_is_not() -> None:
    counts = even("a", "b", "c", "d", "ab", "cd")
    counts["a", "b"] = np.diag([400.0, 400, 400, 0])[:3]
    found = verdicts(released(counts))
    assert found["a", "b"] == ABOVE
    assert found["c", "d"] == DOMINATED
    assert found[("a",)] == ABOVE


def test_a_column_of_counts_below_the_noise_is_dominated_by_it() -> None:
    found = verdicts(released(even("a", "b", "c", "d", records=12), stddev=50))
    assert {found[(name,)] for name in "abcd"} == {DOMINATED}


def test_what_was_not_measured_has_no_error_and_says_so() -> None:
    release = released(even("a", "ab", "bc"))
    found = verdicts(release)
    assert found[("d",)] == UNMEASURED
    assert found["a", "c"] == INFERRED
    error = dict(zip(release.quality().to_dict()["column"], release.quality().to_dict()["error"], strict=False))
    assert error["d"] is None
    assert "not measured: d" in release.quality().notes


def test_a_pair_of_pure_noise_is_seldom_above_it() -> None:
    # Each of 400 pairs is above the noise with probability 0.001: more than 8 of them with a chance of about 1e-9.
    rng = np.random.default_rng(0)
    query = pr.Query.marginal(SCHEMA.domain, ("a", "b"))
    mean = np.outer([0.7, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]) * 2000
    found = []
    for _ in range(400):
        noisy = Measurement.of(query, mean + rng.normal(0, 20, mean.shape), 20.0)
        found.append(is_dependent(query, mean, np.full(mean.shape, 20.0), [noisy]))
    assert sum(found) <= 8


def test_the_expected_error_of_a_column_is_that_of_its_noise() -> None:
    # The mean of ½Σ|noise|/n over 3 cells is 0.5·3·5·0.798/1200.
    [column] = [each for each in released(even("a")).judged().columns if each.names == ("a",)]
    assert column.error == pytest.approx(0.5 * 3 * 5 * np.sqrt(2 / np.pi) / 1200, rel=0.05)


def test_redrawing_gives_errors_too_and_keeps_the_verdicts() -> None:
    release = released(even("a", "b", "ab"))
    noise, redrawn = release.quality().to_dict(), release.quality(redraw=True).to_dict()
    assert noise["verdict"] == redrawn["verdict"]
    assert all(0 < error < 1 for error in redrawn["error"][:2])


def test_columns_that_nothing_ties_together_are_independent_by_assumption() -> None:
    release = released(even("a", "b", "c", "ab"))
    assert set(release.marginal("a", "c").to_dict()["source"]) == {"independent by assumption"}
    assert set(release.marginal("a", "b").to_dict()["source"]) == {"measured"}
    assert set(release.count("c = 0", by="b").to_dict()["source"]) == {"independent by assumption"}
    assert set(release.marginal("a", "d").to_dict()["source"]) == {"prior"}
    assert any("independent by assumption: c, d" in note for note in release.quality().notes)


def test_columns_tied_through_another_are_inferred() -> None:
    release = released(even("ab", "bc"))
    assert set(release.marginal("a", "c").to_dict()["source"]) == {"inferred"}


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=2, max_size=3, unique=True), max_size=4))
def test_ties_are_the_connected_parts_of_what_was_measured(cliques: list[list[str]]) -> None:
    measurements = [
        Measurement.of(query, np.zeros(query.shape, dtype=int), 1.0)
        for query in (pr.Query.marginal(SCHEMA.domain, clique) for clique in cliques)
    ]
    ties = Ties.of(pr.Model.of(pr.Uniform(SCHEMA.domain), {}), measurements)
    reach = {name: {name} for name in "abcd"}
    for _ in "abcd":
        for clique in cliques:
            joined = set.union(*(reach[name] for name in clique))
            for name in joined:
                reach[name] = reach[name] | joined
    for one in "abcd":
        for other in "abcd":
            assert ties.hold((one, other)) == (other in reach[one])


def test_public_rows_tie_everything_and_a_product_nothing() -> None:
    rows = PublicRows(np.zeros((1, 4), dtype=int), SCHEMA.domain)
    assert Ties.of(pr.Model.of(rows, {}), []).alone() == []
    product = pr.Product([], domain=SCHEMA.domain)
    assert Ties.of(pr.Model.of(product, {}), []).alone() == list("abcd")


def test_a_correlation_is_that_of_the_values() -> None:
    numbers = {name: {"kind": "integer", "bounds": [0, 3], "other": 0} for name in "xy"}
    schema = described({**numbers, "z": {"kind": "category", "levels": ["p", "q"], "other": "p"}})
    counts = np.diag([100.0, 100, 100, 100])
    release = released({("x", "y"): counts, ("z",): np.array([200.0, 200])}, stddev=1, schema=schema)
    table = release.correlation("x", "y", "z").to_dict()
    assert table["correlation"][0] == pytest.approx(1.0, abs=0.02)
    assert table["strength"][0] > 0.95
    assert table["correlation"][1:] == [None, None]
    assert table["source"] == ["measured", "independent by assumption", "independent by assumption"]
    with pytest.raises(OptionError, match="two columns"):
        release.correlation("x")


@given(st.lists(st.floats(0, 100), min_size=6, max_size=6))
def test_cramers_v_is_a_share_that_turning_does_not_change(cells: list[float]) -> None:
    table = np.array(cells).reshape(2, 3)
    assert 0 <= cramers_v(table) <= 1
    assert cramers_v(table) == pytest.approx(cramers_v(table.T), abs=1e-9)


def test_the_quality_of_a_release_is_printed_and_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.priory"
    released(even("a", "b", "c", "d", "ab")).save(path)
    with pytest.raises(SystemExit) as ended:
        main(["quality", str(path)])
    assert ended.value.code == 0
    out, said = capsys.readouterr()
    assert "verdict" in out
    assert "4 of 4 columns are above the noise" in said
    with pytest.raises(SystemExit):
        main(["quality", str(path), "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["column"] for row in rows[:4]] == ["a", "b", "c", "d"]
    assert {"strength", "error", "clear", "verdict", "with"} < set(rows[0])


PEOPLE = described(
    {
        "sex": {"kind": "category", "levels": ["f", "m"], "other": "f"},
        "smokes": {"kind": "boolean", "other": False},
        "age": {"kind": "integer", "bounds": [0, 9], "other": 0},
    }
)
ROWS = {"sex": ["f", "m", "f", "m"] * 50, "smokes": [True, False, True, True] * 50, "age": [1, 5, 9, 5] * 50}


def perfect() -> Release:
    """A release whose only measurement is the true table, almost without noise."""
    source = pr.open_source(ROWS, PEOPLE)
    [whole] = source.count([("sex", "smokes", "age")])
    return released({("sex", "smokes", "age"): whole.values}, stddev=1, schema=PEOPLE)


def test_the_score_of_a_release_without_noise_is_near_100_and_of_uniform_far_below() -> None:
    good = pr.evaluate(perfect(), ROWS)
    uniform = released({("sex",): np.array([100.0, 100])}, schema=PEOPLE)
    poor = pr.evaluate(uniform, ROWS)
    assert good.score > 90
    assert 0 <= poor.score < 60
    assert good.score == pytest.approx(100 * np.mean(list(good.parts.values())))


def test_an_evaluation_is_stamped_wherever_it_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = pr.evaluate(perfect(), ROWS)
    assert str(found).splitlines()[0] == str(found).splitlines()[-1] == STAMP == found.to_dict()["stamp"]
    release, table = tmp_path / "p.priory", tmp_path / "p.csv"
    perfect().save(release)
    lines = ["sex,smokes,age", *(f"{a},{str(b).lower()},{c}" for a, b, c in zip(*ROWS.values(), strict=True))]
    table.write_text("\n".join(lines) + "\n")
    before = release.read_bytes()
    for options in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            main(["evaluate", str(release), str(table), *options])
        assert ended.value.code == 0
        assert STAMP in capsys.readouterr().out
    written = tmp_path / "p.not-private.json"
    with pytest.raises(SystemExit):
        main(["evaluate", str(release), str(table), "-o", str(written)])
    assert json.loads(written.read_text())["stamp"] == STAMP
    assert written.stat().st_mode & 0o077 == 0
    assert release.read_bytes() == before
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(release), str(table), "-o", str(tmp_path / "p.json")])
    assert ended.value.code == 2
    assert "not-private" in capsys.readouterr().err


def test_a_table_without_rows_has_no_score() -> None:
    found = pr.evaluate(perfect(), {name: [] for name in ROWS})
    assert "no rows to compare with" in str(found)
    assert found.to_dict()["score"] is None
    # Numbers that are not finite have no spelling in JSON.
    assert json.loads(json_text(found.to_dict()), parse_constant=pytest.fail)["score"] is None


def test_a_test_of_learning_needs_scikit_learn_and_says_so() -> None:
    found = pr.evaluate(perfect(), ROWS, target="smokes")
    try:
        import sklearn  # noqa: F401
    except ImportError:
        assert "priory[evaluate]" in str(found.learning)
        assert "learning" not in found.parts
    else:
        assert isinstance(found.learning, str) or found.parts["learning"] > 0.5


def test_evaluating_refuses_other_columns_and_workloads() -> None:
    with pytest.raises(OptionError, match="target"):
        pr.evaluate(perfect(), ROWS, target="colour")
    other = pr.Workload.marginals(SCHEMA.domain, 1)
    with pytest.raises(DomainError):
        pr.evaluate(perfect(), ROWS, workload=other)
    bare = Release(PEOPLE.domain, perfect().measurements, perfect().statement)
    with pytest.raises(ReleaseError, match="no schema"):
        pr.evaluate(bare, ROWS)


def test_a_chart_is_made_of_one_or_two_columns_or_of_all() -> None:
    pytest.importorskip("altair")
    release = perfect()
    for columns in ((), ("age",), ("smokes", "sex"), ("sex", "smokes")):
        assert release.plot(*columns).to_dict()["config"]
    with pytest.raises(OptionError, match="one or two"):
        release.plot("age", "sex", "smokes")
    with pytest.raises(OptionError, match="did you mean 'smokes'"):
        release.plot("smoke")


def test_a_report_begins_with_its_quality_and_shows_means() -> None:
    pytest.importorskip("altair")
    from priory.report.sections import page_of

    page = str(page_of(perfect()))
    assert page.index('id="quality"') < page.index('id="privacy"')
    assert "above the noise" in page
    assert "mean 5 [" in page or "mean 4.9" in page or "mean 5.0" in page
    assert ">records<" in page


def test_the_town_has_no_column_dominated_by_noise_at_a_usual_budget() -> None:
    release = pr.fit(town.THIS_YEAR, town.SCHEMA, epsilon=1, delta=1e-9, mechanism="independent")
    assert {each.verdict for each in release.judged().columns} == {ABOVE}
