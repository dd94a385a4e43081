import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from priory.app.public_check import MOST_CELLS, public_fitness
from priory.cli.frame import app_of
from priory.data.schema import Schema
from priory.errors import BudgetError, DataError
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger
from priory.queries.domain import Domain
from priory.select.workloads import countable_workload

TEXT = """
priory: 1
name: people
columns:
  colour: {kind: category, levels: [red, green, blue], other: green}
  size: {kind: category, levels: [small, large], other: large}
"""
SCHEMA = Schema.parse(TEXT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.yaml").write_text(TEXT)
    (tmp_path / "private.csv").write_text("colour,size\n" + "red,small\n" * 60 + "blue,large\n" * 40)
    (tmp_path / "public.csv").write_text("colour,size\nred,small\ngreen,large\n")
    return tmp_path


def book(rho: str) -> Ledger:
    return Ledger.in_memory(Budget.zcdp(rho), dataset="people", schema=SCHEMA.dump())


def test_what_no_public_row_supports_is_told_for_its_price(folder: Path) -> None:
    ledger = book("2000")
    found = public_fitness(folder / "private.csv", SCHEMA, folder / "public.csv", rho=1000, ledger=ledger)
    # Forty of a hundred rows are blue and large, which no public row is.
    assert found.error == pytest.approx(0.4, abs=0.02)
    assert found.kind == "floor"
    assert ledger.left() == 1000


def test_more_than_is_left_is_refused_and_nothing_spent(folder: Path) -> None:
    ledger = book("1")
    with pytest.raises(BudgetError):
        public_fitness(folder / "private.csv", SCHEMA, folder / "public.csv", rho=2, ledger=ledger)
    (folder / "bad.csv").write_text("colour,size\nmauve,small\n")
    with pytest.raises(DataError):
        public_fitness(folder / "private.csv", SCHEMA, folder / "bad.csv", rho=1, ledger=ledger)
    assert ledger.left() == 1


def test_large_domains_are_asked_about_fewer_attributes_at_a_time() -> None:
    small = Domain.of({"a": 2, "b": 3, "c": 4})

    def ways(domain: Domain, most_marginals: int = 1000) -> int:
        workload = countable_workload(domain, most_cells=MOST_CELLS, most_marginals=most_marginals)
        return len(workload.cliques[0])

    assert ways(small) == 3
    assert ways(Domain.of({str(i): 1000 for i in range(4)})) == 2
    assert ways(Domain.of({str(i): 10_000 for i in range(4)})) == 1
    assert ways(Domain.of({str(i): 2 for i in range(4)}), most_marginals=3) == 1


def arguments(folder: Path, *more: str) -> list[str]:
    public = ["--public", str(folder / "public.csv")]
    return ["plan", "--schema", str(folder / "people.yaml"), "--rows", "100", "--rho", "1", *public, "--json", *more]


def test_plan_opens_the_private_table_only_when_told_and_at_a_price(folder: Path) -> None:
    runner = CliRunner()
    plain = runner.invoke(app_of(), arguments(folder))
    assert plain.exit_code == 0, plain.output
    assert "public_check" not in json.loads(plain.stdout)
    assert runner.invoke(app_of(), arguments(folder, "--check", str(folder / "private.csv"))).exit_code != 0
    paid = runner.invoke(app_of(), arguments(folder, "--check", str(folder / "private.csv"), "--price", "1000"))
    assert paid.exit_code == 0, paid.output
    assert json.loads(paid.stdout)["public_check"]["error"] == pytest.approx(0.4, abs=0.05)
