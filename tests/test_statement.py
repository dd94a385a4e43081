import datetime as dt
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import priory as pr
from priory.cli import main
from priory.errors import ReleaseError
from priory.privacy.budget import Budget, Currency
from priory.privacy.encoding import decode_statement, encode_statement
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Gaussian, Laplace
from priory.privacy.statement import DECLARED, Statement
from priory.queries.sensitivity import Relation
from priory.release import Release
from priory.release.registry import BLANK, Entry, registry_entry
from registry_fields import FIELDS, REQUIRED_PARTS, Field

SCHEMA = pr.Schema.coded({"age": 3, "sex": 2}, name="People, 2026")
KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "number": (int, float), "integer": (int,)}
PERSON = "a person (column 'id'), with at most 2 of their rows"

BUDGETS = {
    "pure": Budget.pure(1),
    "zcdp": Budget.zcdp("1/10"),
    "zcdp with epsilon": Budget.approximate(1, 1e-9),
    "gaussian": Budget.gaussian("1/10", relation="replace-one"),
    "gaussian with epsilon": Budget.approximate(1, 1e-9, Currency.GAUSSIAN, relation="replace-one", max_rows=2),
}


def statement(budget: Budget, **fields: Any) -> Statement:
    made = {
        "mechanism": "by hand",
        "budget": budget,
        "spent": budget.amount,
        "unit": "a row" if budget.max_rows == 1 else PERSON,
        "dataset": SCHEMA.name,
        "ledger": "file",
        "is_private": True,
        "version": "0.0",
    }
    return Statement(**{**made, **fields})


def release(budget: Budget, **fields: Any) -> Release:
    noise = (Laplace if budget.is_pure else Gaussian)(Fraction(5))
    query = pr.Query.marginal(SCHEMA.domain, ("age", "sex"))
    counts = Measurement.of(query, np.full(query.shape, 100), 5.0, noise)
    return Release(SCHEMA.domain, (counts,), statement(budget, **fields), SCHEMA)


def values(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of an entry with its path, as the list of fields spells it."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from values(value, f"{path}/{key}" if path else key)
    elif isinstance(node, list):
        for value in node:
            yield from values(value, f"{path}[]")
    else:
        yield path, node


def problem(field: Field, value: Any) -> str | None:
    if isinstance(value, str) and BLANK in value:
        return None
    if isinstance(value, bool) or (field.kinds and not any(isinstance(value, KINDS[kind]) for kind in field.kinds)):
        return f"{field.path} is {value!r}, not {field.kinds}"
    if field.allowed and value not in field.allowed:
        return f"{field.path} is {value!r}, not one of {field.allowed}"
    if field.is_date:
        dt.date.fromisoformat(value)
    return None


def problems(fields: dict[str, Any]) -> list[str]:
    known = {field.path: field for field in FIELDS}
    held = list(values(fields))
    unknown = [f"{path} is unknown" for path, _ in held if path not in known]
    missing = [f"{path} is missing" for path in known if known[path].is_required and path not in dict(held)]
    wrong = [problem(known[path], value) for path, value in held if path in known]
    return [*unknown, *missing, *filter(None, wrong)]


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_an_entry_has_the_fields_types_and_values_of_the_registry(budget: Budget) -> None:
    entry = registry_entry(release(budget))
    assert problems(entry.fields) == []
    assert set(REQUIRED_PARTS) <= set(entry.fields["deployment"])
    # Nothing but blanks is left out.
    assert {field.path for field in FIELDS} - dict(values(entry.fields)).keys() <= {
        f"deployment/privacy_loss/privacy_parameters/{name}" for name in ("epsilon", "delta", "rho")
    }


def test_the_check_of_entries_finds_what_is_wrong() -> None:
    fields = registry_entry(release(BUDGETS["pure"])).fields
    for path, wrong in {
        "deployment/basic/surprise": "x",
        "deployment/administrative/tier": 0,
        "deployment/dp_variant/variant_name": "DP",
        "deployment/privacy_loss/privacy_parameters/epsilon": "1",
        "deployment/privacy_loss/number_of_privacy_units": 1.5,
        "deployment/implementation/mechanisms": None,
    }.items():
        *parents, last = path.split("/")
        node = changed = json.loads(json.dumps(fields))
        for parent in parents:
            node = node[parent]
        node[last] = wrong
        assert len(problems(changed)) == 1, path
    del fields["deployment"]["basic"]["name"]
    assert problems(fields) == ["deployment/basic/name is missing"]


def test_blanks_are_marked_and_listed() -> None:
    entry = registry_entry(release(BUDGETS["pure"]))
    marked = {path for path, value in values(entry.fields) if isinstance(value, str) and "TO FILL" in value}
    assert marked == set(entry.blanks)
    assert {"deployment/basic/intended_use", "deployment/basic/publication_date"} <= marked
    assert "deployment/basic/data_curators[]/data_curator_name" in marked


def loss_of(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = entry.fields["deployment"]["privacy_loss"]
    return found


def test_parameters_are_those_of_the_promise() -> None:
    parameters = {
        name: loss_of(registry_entry(release(budget)))["privacy_parameters"] for name, budget in BUDGETS.items()
    }
    assert parameters == {
        "pure": {"epsilon": 1.0},
        "zcdp": {"rho": 0.1},
        "zcdp with epsilon": {"epsilon": 1.0, "delta": 1e-9, "rho": 0.0149731},
        # μ-GDP is (μ²/2)-zCDP.
        "gaussian": {"rho": 0.05},
        "gaussian with epsilon": {"epsilon": 1.0, "delta": 1e-9, "rho": 0.0165575},
    }
    names = [registry_entry(release(budget)).fields["deployment"]["dp_variant"] for budget in BUDGETS.values()]
    assert [name["variant_name"] for name in names] == [
        "Pure DP",
        "Zero-concentrated DP",
        "Zero-concentrated DP",
        "Custom",
        "Approximate DP",
    ]
    assert "μ" in loss_of(registry_entry(release(BUDGETS["gaussian"])))["privacy_parameters_details"]


@given(st.fractions(Fraction(1, 1000), 100))
def test_no_parameter_is_smaller_than_promised(epsilon: Fraction) -> None:
    parameters = loss_of(registry_entry(release(Budget.pure(epsilon))))["privacy_parameters"]
    assert Fraction(str(parameters["epsilon"])) >= epsilon


def test_unit_and_adjacency_are_those_of_the_statement() -> None:
    rows = loss_of(registry_entry(release(BUDGETS["pure"])))
    assert rows["privacy_unit"] == "A row"
    assert "add-remove" in rows["privacy_unit_details"]
    assert rows["number_of_privacy_units"] == 600
    persons = loss_of(registry_entry(release(BUDGETS["gaussian with epsilon"])))
    assert persons["privacy_unit"] == PERSON.replace("a person", "A person")
    assert "same number of persons" in persons["privacy_unit_details"]
    # The release counts rows, and does not say how many persons they are of.
    assert persons["number_of_privacy_units"].startswith(BLANK)
    unprotected = registry_entry(release(BUDGETS["gaussian with epsilon"])).fields["deployment"]["dp_variant"]
    assert "number of persons" in unprotected["unprotected_quantities"]


def test_an_entry_says_which_noise_was_added_and_who_drew_it() -> None:
    made = release(BUDGETS["zcdp"], randomness="opendp", randomness_version="0.16")
    said = registry_entry(made).fields["deployment"]["implementation"]["mechanisms"]
    assert "discrete Gaussian noise" in said
    assert "drawn by opendp 0.16" in said
    assert "Laplace" not in said


def test_a_release_with_test_randomness_has_no_entry() -> None:
    with pytest.raises(ReleaseError, match="not private"):
        registry_entry(release(BUDGETS["pure"], is_private=False))


def test_a_declared_epsilon_and_delta_promise_no_rho() -> None:
    declared = release(BUDGETS["zcdp with epsilon"], is_declared=True)
    assert "ρ" not in str(declared.statement)
    entry = registry_entry(declared)
    assert problems(entry.fields) == []
    assert loss_of(entry)["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-9}
    assert entry.fields["deployment"]["dp_variant"]["variant_name"] == "Approximate DP"


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_the_command_prints_statement_and_entry_in_every_form(
    budget: Budget, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "a.priory"
    release(budget).save(saved)
    printed = {}
    for options in ((), ("--json",), ("--yaml",), ("--registry",), ("--registry", "--json")):
        with pytest.raises(SystemExit, match=r"^0$"):
            main(["statement", str(saved), *options])
        printed[options] = capsys.readouterr()
    assert printed[()].out == str(statement(budget)) + "\n"
    assert json.loads(printed[("--json",)].out) == yaml.safe_load(printed[("--yaml",)].out)
    entry = yaml.safe_load(printed[("--registry",)].out)
    assert entry == json.loads(printed[("--registry", "--json")].out) == registry_entry(release(budget)).fields
    assert "deployment/basic/intended_use" in printed[("--registry",)].err
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["statement", str(saved), "--json", "--yaml"])


def test_a_statement_names_its_accounting() -> None:
    assert "accounting: pure differential privacy" in str(statement(BUDGETS["pure"]))
    assert "(zCDP), ρ adds up" in str(statement(BUDGETS["zcdp"]))
    exact = statement(BUDGETS["gaussian with epsilon"])
    assert "accounting: exact Gaussian accounting, μ = 0.181975" in str(exact)


def test_a_gaussian_run_paid_from_a_ledger_in_rho_says_its_smaller_epsilon() -> None:
    book = pr.Ledger.in_memory(BUDGETS["zcdp with epsilon"], dataset=SCHEMA.name, schema=SCHEMA.dump())
    table = {"age": np.arange(30) % 3, "sex": np.arange(30) % 2}
    made = pr.fit(table, SCHEMA, epsilon=1, delta="1e-9", mechanism="independent", ledger=book)
    assert book.left() == 0
    assert made.statement.lines[0].startswith("promise: ε = 0.948708, δ = 1e-09 (μ² = ")
    assert loss_of(registry_entry(made))["privacy_parameters"]["epsilon"] == 0.948708


def test_a_statement_bounds_the_probability_of_a_larger_loss_and_does_not_call_it_delta() -> None:
    said = str(statement(BUDGETS["zcdp with epsilon"]))
    assert "loss above ε: for any one person, with a probability of at most 9.3e-08" in said
    assert "loss above" not in str(statement(BUDGETS["pure"]))


@given(st.fractions(Fraction(1, 1000), 100), st.sampled_from(["pure", "zcdp", "gaussian"]))
def test_a_statement_rounds_what_is_promised_and_spent_up(amount: Fraction, currency: str) -> None:
    budget = Budget(Currency(currency), amount)
    lines = dict(line.split(": ", 1) for line in statement(budget).lines)
    assert Fraction(lines["promise"].partition(" = ")[2]) >= amount
    assert Fraction(lines["spent"].partition(" = ")[2]) >= amount
    if currency == "gaussian":
        mu = Fraction(lines["accounting"].partition("μ = ")[2])
        assert amount <= mu**2 <= amount * (1 + Fraction(1, 10**4))


def test_a_promise_a_little_above_one_is_stated_as_more_than_one() -> None:
    assert statement(Budget.pure("1.0000049")).lines[0] == "promise: ε = 1.00001"


def test_a_statement_says_which_counts_are_public() -> None:
    said = {
        budget: dict(line.split(": ", 1) for line in statement(budget).lines)["number of rows"]
        for budget in (Budget.pure(1), *(Budget.pure(1, relation=Relation.REPLACE_ONE, max_rows=n) for n in (1, 2)))
    }
    assert list(said.values()) == ["protected", "public", "protected; the number of persons is public"]


def test_what_older_files_name_as_declared_is_declared() -> None:
    written = encode_statement(release(BUDGETS["pure"], mechanism=f"{DECLARED} and aim, combined").statement)
    assert not decode_statement(written).is_declared
    del written["is_declared"]
    assert decode_statement(written).is_declared
    assert not decode_statement(written | {"mechanism": "aim"}).is_declared
