from pathlib import Path

import pytest

from houses import DOMAIN, Rows, random_rows
from priory.app.fit import fit
from priory.app.registry import MECHANISMS, Registered, registered
from priory.data.schema import Schema
from priory.errors import BudgetError, DataError, DomainError, LedgerError, OptionError, SchemaError
from priory.mechanisms.independent import Independent
from priory.privacy.budget import Budget
from priory.privacy.ledger import EntryState, Ledger, Terms
from priory.privacy.progress import Step
from priory.privacy.randomness import Replay
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.workload import Workload

SCHEMA = Schema.parse(
    """
priory: 1
name: people
person: id
columns:
  id: {kind: id}
  colour: {kind: category, levels: [red, green], other: rest}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 50, 99]}, nullable: true}
"""
)
ROWS = "id,colour,age\n" + "\n".join(f"p{i // 2},{'red' if i % 3 else 'mauve'},{i}" for i in range(60))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(ROWS)
    return path


def test_a_source_of_other_attributes_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "a.ledger", Terms("people", SCHEMA.dump(), Budget.pure(1)))
    with pytest.raises(DomainError):
        fit(random_rows(), SCHEMA, epsilon=1, ledger=book)
    assert book.left() == 1


def test_an_unknown_mechanism_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="independent"):
        registered("magic")


def test_a_fit_goes_from_a_table_to_a_release(table: Path) -> None:
    release = fit(table, SCHEMA, epsilon=1, delta=1e-9, unit="id", max_rows=2)
    assert release.schema == SCHEMA
    assert release.statement.mechanism == "weighing"
    assert {m.query.clique for m in release.measurements} >= {("colour",), ("age",)}
    assert "a person (column 'id'), with at most 2 of their rows" in str(release.statement)
    assert "no ledger on disk" in str(release.statement)
    assert release.statement.is_private


def test_a_fit_takes_its_terms_from_the_ledger(table: Path, tmp_path: Path) -> None:
    total = Budget.pure(2, relation="replace-one", max_rows=2)
    book = Ledger.create(tmp_path / "a.ledger", Terms("people", SCHEMA.dump(), total, "id"))
    release = fit(table, SCHEMA, epsilon=1, ledger=tmp_path / "a.ledger")
    assert release.statement.budget == Budget.pure(1, relation="replace-one", max_rows=2)
    assert release.statement.ledger == "file"
    assert book.left() == 1
    fit(table, SCHEMA, epsilon=1, ledger=book)
    with pytest.raises(BudgetError):
        fit(table, SCHEMA, epsilon="0.001", ledger=book)
    assert len(book.entries()) == 2


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"epsilon": 1, "delta": 1e-9}, BudgetError),
        ({"rho": 1}, BudgetError),
        ({"epsilon": 3}, BudgetError),
        ({"epsilon": 1, "relation": "add-remove"}, LedgerError),
        ({"epsilon": 1, "max_rows": 3}, LedgerError),
        ({"epsilon": 1, "unit": "colour"}, LedgerError),
        ({"epsilon": 1, "unit": "nobody"}, LedgerError),
        ({"epsilon": 1, "unit": "nobody", "ledger": None}, SchemaError),
        ({"epsilon": 0}, OptionError),
        ({"epsilon": 1, "mechanism": "magic"}, OptionError),
        ({"epsilon": 1, "schema": Schema.coded({"colour": 2})}, LedgerError),
        ({"epsilon": 1, "data": "no.csv"}, DataError),
        ({"epsilon": 1, "schema": "no.yaml"}, SchemaError),
        ({"epsilon": 1, "ledger": "no.ledger"}, LedgerError),
    ],
)
def test_what_cannot_be_done_costs_nothing(table: Path, options: dict[str, object], error: type[Exception]) -> None:
    total = Budget.pure(2, relation="replace-one", max_rows=2)
    book = Ledger.in_memory(total, dataset="people", schema=SCHEMA.dump(), person="id")
    arguments = {"data": table, "schema": SCHEMA, "ledger": book, **options}
    with pytest.raises(error):
        fit(**arguments)  # type: ignore[arg-type]
    assert book.left() == 2


def test_a_table_without_its_columns_is_refused_and_the_reservation_given_back(table: Path) -> None:
    book = Ledger.in_memory(Budget.pure(1), dataset="people", schema=SCHEMA.dump())
    table.write_text("id,colour\np1,red\n")
    with pytest.raises(DataError, match="age"):
        fit(table, SCHEMA, epsilon=1, ledger=book)
    assert book.left() == 1
    assert book.entries()[0].state is EntryState.RELEASED


def test_a_mechanism_that_needs_gaussian_noise_is_refused_a_pure_epsilon(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Registered("gauss", "", lambda _: Independent(), is_pure=False)
    monkeypatch.setitem(MECHANISMS, "gauss", entry)
    with pytest.raises(BudgetError, match="give a delta"):
        fit(table, SCHEMA, epsilon=1, mechanism="gauss")


def test_a_mechanism_with_settings_of_ones_own_can_be_given() -> None:
    schema = Schema.coded(dict(zip(DOMAIN, DOMAIN.shape, strict=True)))
    source: Rows = random_rows()
    release = fit(source, schema, rho=1, mechanism=Independent(), randomness=Replay(seed=0))
    assert release.statement.mechanism == "independent"
    assert not release.statement.is_private


def test_a_fit_aims_at_the_workload_it_is_given() -> None:
    schema = Schema.coded(dict(zip(DOMAIN, DOMAIN.shape, strict=True)))
    workload = Workload.of([Query.marginal(DOMAIN, ("age", "sex"))])
    release = fit(random_rows(), schema, rho=1, workload=workload)
    assert {m.query.clique for m in release.measurements} <= {("age",), ("sex",), ("marital-status",), ("age", "sex")}
    with pytest.raises(OptionError, match="workload"):
        fit(random_rows(), schema, rho=1, workload=workload, mechanism="independent")
    with pytest.raises(DomainError):
        fit(random_rows(), schema, rho=1, workload=Workload.marginals(Domain.of({"age": 5}), 1))


def test_a_fit_upon_public_data_starts_from_it_unless_told(table: Path) -> None:
    release = fit(table, SCHEMA, rho=1, public={"colour": ["red", "green"], "age": [1, 70]})
    assert release.statement.mechanism == "prior"


def test_whoever_waits_is_told_of_each_round_and_of_what_was_paid_before_it() -> None:
    schema = Schema.coded(dict(zip(DOMAIN, DOMAIN.shape, strict=True)))
    told: list[Step] = []
    release = fit(random_rows(), schema, rho=1, mechanism="mwem+pgm", progress=told.append)
    assert [(step.number, step.of) for step in told] == [(1, 3), (2, 3), (3, 3)]
    assert 0 < told[0].share < told[1].share < told[2].share < 1
    assert told[-1].spent < release.statement.spent
    assert str(told[0]) == "round 1 of 3, ρ = 0.05 of 1 spent"
