"""What every mechanism with a workload says to what it cannot use, and that nothing is spent on it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from houses import DOMAIN, Rows, curated
from priory.app.registry import MECHANISMS, Mechanism
from priory.cli import main
from priory.errors import DomainError, OptionError
from priory.mechanisms import HDMM, MWEM, DualQuery, Graphical, MultiplicativeWeights, PrivBayes
from priory.privacy.budget import Budget
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release

PAIRS = Workload.marginals(DOMAIN, 2)
RECIPES: dict[str, Callable[[Workload], Mechanism]] = {
    "mwem": lambda w: MWEM(w, MultiplicativeWeights()),
    "mwem+pgm": lambda w: MWEM(w, Graphical()),
    "hdmm": HDMM,
    "dualquery": DualQuery,
}
WORKLOADS = {
    "empty": (Workload.of([]), "the workload is empty"),
    "unknown attributes": (Workload.marginals(Domain.of({"height": 3}), 1), "height"),
    "other sizes": (Workload.of([Query.marginal(Domain.of({"age": 5}), "age")]), "unlike the domain's"),
}


@pytest.mark.parametrize("name", list(RECIPES))
@pytest.mark.parametrize("kind", list(WORKLOADS))
def test_a_workload_that_cannot_be_answered_is_refused_and_costs_nothing(name: str, kind: str) -> None:
    workload, told = WORKLOADS[kind]
    with curated(Budget.pure(1)) as curator:
        with pytest.raises(DomainError, match=told):
            RECIPES[name](workload).run(curator, curator.budget)
        assert curator.left == 1


@pytest.mark.parametrize(
    "recipe",
    [MWEM(PAIRS, MultiplicativeWeights(), rounds=0), MWEM(PAIRS, Graphical(), rounds=-1), DualQuery(PAIRS, rounds=0)],
)
def test_no_rounds_are_refused_and_cost_nothing(recipe: Mechanism) -> None:
    with curated(Budget.pure(1)) as curator:
        with pytest.raises(OptionError, match="rounds"):
            recipe.run(curator, curator.budget)
        assert curator.left == 1


@pytest.mark.parametrize("recipe", [*(build(PAIRS) for build in RECIPES.values()), PrivBayes()], ids=repr)
@pytest.mark.parametrize(
    "other", [Budget.zcdp("1/10"), Budget.pure(1, relation="replace-one"), Budget.pure(1, max_rows=3)], ids=str
)
def test_a_budget_of_another_kind_than_the_curators_is_refused_and_costs_nothing(
    recipe: Mechanism, other: Budget
) -> None:
    with curated(Budget.pure(1)) as curator:
        with pytest.raises(OptionError, match="no part of this run's budget"):
            recipe.run(curator, other)
        assert curator.left == 1


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_a_table_of_one_attribute_is_modelled(name: str) -> None:
    domain = Domain.of({"only": 3})
    budget = Budget.approximate(20, "0.001")
    with curated(budget, Rows(domain, [[0]] * 600 + [[1]] * 300 + [[2]] * 100)) as curator:
        release = MECHANISMS[name].build(domain).run(curator, budget)
    np.testing.assert_allclose(release.model.project("only").values, [600, 300, 100], atol=150)


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_one_column_can_be_fitted_from_the_command_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text(
        "priory: 1\nname: one\ncolumns:\n  colour: {kind: category, levels: [red, green], other: green}\n"
    )
    (tmp_path / "table.csv").write_text("colour\n" + "red\ngreen\nred\n" * 50)
    common = ["fit", str(tmp_path / "table.csv"), "--schema", str(tmp_path / "schema.yaml")]
    with pytest.raises(SystemExit) as ended:
        main([*common, "--epsilon", "5", "--delta", "0.001", "-o", str(tmp_path / "a.priory"), "--mechanism", name])
    assert not ended.value.code
    assert Release.load(tmp_path / "a.priory").domain.attributes == ("colour",)


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["--mechanism", "mwen", "--epsilon", "1"], 2, "mwem"),
        (["--mechanism", "hdmm"], 2, "epsilon"),
        (["--mechanism", "hdmm", "--epsilon", "0"], 2, "epsilon"),
        (["--mechanism", "dualquery", "--epsilon", "1", "--rho", "1"], 2, "rho"),
        (["--mechanism", "privbayes", "--epsilon", "1", "--relation", "swap"], 2, "relation"),
    ],
)
def test_the_command_line_refuses_in_one_line(
    options: list[str], code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "schema.yaml").write_text(
        "priory: 1\nname: one\ncolumns:\n  colour: {kind: category, levels: [red, green], other: green}\n"
    )
    (tmp_path / "table.csv").write_text("colour\nred\n")
    common = ["fit", str(tmp_path / "table.csv"), "--schema", str(tmp_path / "schema.yaml")]
    with pytest.raises(SystemExit) as ended:
        main([*common, *options, "-o", str(tmp_path / "a.priory")])
    complaint = capsys.readouterr().err
    assert ended.value.code == code
    assert told in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "a.priory").exists()
