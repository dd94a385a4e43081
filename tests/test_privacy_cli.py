import json
from pathlib import Path

import pytest

from command import priory
from priory.app.fit import fit
from priory.data.schema import Schema
from priory.release import Release

SCHEMA = Schema.coded({"age": 3, "sex": 2}, name="people")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    SCHEMA.save(tmp_path / "schema.yaml")
    (tmp_path / "table.csv").write_text("age,sex\n" + "0,1\n2,0\n" * 20)
    return tmp_path


def test_a_name_that_is_too_long_is_refused_and_the_longest_one_is_written(house: Path) -> None:
    common = ("fit", house / "table.csv", "--schema", house / "schema.yaml", "--epsilon", 1, "-o")
    refused = priory(*common, house / ("x" * 248))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    # The partial file beside it has eight letters more.
    assert priory(*common, house / ("x" * 247)).returncode == 0
    assert [path.name for path in house.iterdir() if path.name.startswith("x")] == ["x" * 247]


def test_a_table_taken_for_a_schema_is_not_quoted(house: Path) -> None:
    for text in ("id,age\n" + "anna-secret,3\n" * 20, "anna-secret\n", "- anna-secret\n"):
        (house / "table.csv").write_text(text)
        refused = priory("fit", house / "table.csv", "--schema", house / "table.csv", "--epsilon", 1, "-o", house / "a")
        assert refused.returncode == 3
        assert "anna" not in refused.stderr


def test_a_ledger_is_not_made_for_a_person_column_that_is_no_id(house: Path) -> None:
    refused = priory(
        "ledger", "init", house / "a.ledger", "--schema", house / "schema.yaml", "--epsilon", 1, "--unit", "sex"
    )
    assert refused.returncode == 3
    assert not (house / "a.ledger").exists()


def test_a_release_is_made_from_schema_ledger_and_table(house: Path) -> None:
    made = priory("ledger", "init", house / "a.ledger", "--schema", house / "schema.yaml", "--epsilon", 1)
    assert made.returncode == 0
    assert "protecting a row" in made.stderr
    common = ("fit", house / "table.csv", "--schema", house / "schema.yaml", "--ledger", house / "a.ledger")
    fitted = priory(*common, "--epsilon", "0.75", "-o", house / "a.priory", "--mechanism", "independent")
    assert fitted.returncode == 0, fitted.stderr
    assert "promise: ε = 0.75" in fitted.stdout
    assert len(Release.load(house / "a.priory").measurements) == 2
    refused = priory(*common, "--epsilon", "0.5", "-o", house / "b.priory")
    assert refused.returncode == 7
    assert "Nothing was looked at" in refused.stderr
    assert not (house / "b.priory").exists()
    again = priory(*common, "--epsilon", "0.25", "-o", house / "a.priory")
    assert again.returncode == 2
    nowhere = priory(*common, "--epsilon", "0.25", "-o", house / "no" / "a.priory")
    assert nowhere.returncode == 2
    shown = json.loads(priory("ledger", "show", house / "a.ledger", "--json").stdout)
    assert (shown["spent"], shown["left"]) == ("ε = 0.75", "ε = 0.25")
    assert [entry["state"] for entry in shown["entries"]] == ["spent"]
    table = priory("ledger", "show", house / "a.ledger", "--events").stdout
    assert "marginal of (age)" in table
    assert "left: ε = 0.25" in table


def test_a_budget_is_explained() -> None:
    assert "from 50 % to at most 73.2 %" in priory("explain", "--epsilon", 1).stdout
    data = json.loads(priory("explain", "--epsilon", 1, "--delta", "1e-6", "--json").stdout)
    assert data["delta"] == 1e-6
    assert data["tail"] > 1e-6
    assert priory("explain", "--epsilon", "nan").returncode == 2
    assert priory("explain").returncode == 2


def test_a_ledger_that_cannot_be_used_is_one_line_and_its_exit_code(house: Path) -> None:
    missing = priory("ledger", "show", house / "no.ledger")
    assert missing.returncode == 8
    assert missing.stderr.count("\n") == 1
    wrong = priory(
        "ledger", "init", house / "a.ledger", "--schema", house / "schema.yaml", "--epsilon", 1, "--unit", "id"
    )
    assert wrong.returncode == 3
    assert not (house / "a.ledger").exists()


def test_a_person_column_of_the_schema_is_protected_without_being_asked(tmp_path: Path) -> None:
    columns = "{who: {kind: id}, x: {kind: category, levels: [a, b], other: b}}"
    schema = Schema.parse(f"priory: 1\nname: t\nperson: who\ncolumns: {columns}\n")
    schema.save(tmp_path / "s.yaml")
    release = fit({"who": ["p", "p", "q"], "x": ["a", "b", "a"]}, schema, epsilon=1)
    assert "a person (column 'who')" in str(release.statement)
    made = priory("ledger", "init", tmp_path / "a.ledger", "--schema", tmp_path / "s.yaml", "--epsilon", 1)
    assert "a person (column 'who')" in made.stderr


def test_a_book_of_mu_squared_is_made_on_request_and_refuses_rho(house: Path) -> None:
    common = ("ledger", "init", house / "a.ledger", "--schema", house / "schema.yaml", "--epsilon", 1, "--json")
    assert priory(*common, "--currency", "gaussian").returncode == 2
    made = priory(*common, "--delta", "1e-6", "--currency", "gaussian")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["currency"] == "gaussian"
    fitted = ("fit", house / "table.csv", "--schema", house / "schema.yaml", "--ledger", house / "a.ledger", "-o")
    refused = priory(*fitted, house / "a.priory", "--rho", "0.001")
    assert refused.returncode != 0
    assert "Give epsilon and delta" in refused.stderr
    kept = priory(*fitted, house / "a.priory", "--epsilon", 1, "--delta", "1e-6", "--mechanism", "independent")
    assert kept.returncode == 0, kept.stderr
    shown = json.loads(priory("ledger", "show", house / "a.ledger", "--json").stdout)
    assert shown["left"] == "μ² = 0"
    assert [event["kind"] for event in shown["entries"][0]["events"]] == ["rounded-gaussian"] * 2
    assert shown["entries"][0]["events"][0]["currency"] == "gaussian"
