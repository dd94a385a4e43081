from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from experiments.contest import contest_pairs, contest_score

from checks import BUDGET_CHECKS
from houses import DOMAIN, Rows, curated, random_rows
from priory.app.fit import fit
from priory.app.registry import Registered
from priory.cli import main
from priory.data.schema import Schema
from priory.errors import DomainError, OptionError, PrioryError
from priory.mechanisms.ide.prior_update import PriorUpdate
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.queries.domain import Domain
from priory.queries.parts import Numbers
from priory.release import Release
from priory.select.information import mutual_information, strongest_pairs, unrelated_singles
from publics import KINDS, private, public

TWO = ((), ("age",))
CLIQUES = ((("sex", "marital-status"),), (("sex",),))
Way = Literal["raking", "noise-aware"]
WAYS: tuple[Way, ...] = ("raking", "noise-aware")


def biased(n: int, seed: int) -> Numbers:
    """Sex depends on age, so that groups differ."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 4, n)
    return np.stack([age, rng.random(n) < age / 3, rng.integers(0, 3, n)], axis=1).astype(np.int64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("check", BUDGET_CHECKS)
def test_the_contract_holds_upon_every_kind_of_public_rows(
    check: Callable[[Registered], None], kind: str, way: Way
) -> None:
    check(
        Registered("prior-update", "", lambda _: PriorUpdate(public=public(kind), by=TWO, way=way, workloads=CLIQUES))
    )


def test_two_levels_are_four_laplace_releases_of_a_fourth() -> None:
    budget = Budget.pure(1, max_rows=7)
    with curated(budget) as curator:
        release = PriorUpdate(public=public("larger"), by=TWO, workloads=CLIQUES, way="raking").run(curator, budget)
        events = curator.reservation.spent
    assert events == 1
    assert [m.query.clique for m in release.measurements] == [
        (),
        ("sex", "marital-status"),
        ("age",),
        ("age", "sex"),
    ]
    for measurement in release.measurements:
        assert measurement.noise is not None
        assert measurement.noise.kind == "laplace"
        assert measurement.noise.scale == pytest.approx(7 / Fraction(1, 4))


@pytest.mark.parametrize("way", WAYS)
def test_a_large_budget_gives_each_group_its_own_marginals_and_count(way: Way) -> None:
    source = Rows(DOMAIN, biased(4_000, 0))
    budget = Budget.pure(10**5)
    with curated(budget, source) as curator:
        release = PriorUpdate(
            public=PublicRows(biased(2_000, 1)[:, :], DOMAIN), by=TWO, workloads=CLIQUES, way=way
        ).run(curator, budget)
    assert release.model is not None
    found = release.model.project(("age", "sex")).values
    truth = source.count([("age", "sex")])[0].values
    np.testing.assert_allclose(found.sum(axis=1), truth.sum(axis=1), atol=2)
    np.testing.assert_allclose(found, truth, atol=12)


def test_groups_that_do_not_exist_get_no_rows_and_deeper_levels_nest() -> None:
    budget = Budget.pure(100)
    mechanism = PriorUpdate(public=public("larger"), by=(("age",), ("sex",)), groups=((0, 0), (0, 1), (2, 1)))
    levels = mechanism.levels(DOMAIN)
    assert [level.groups for level in levels] == [((0,), (2,)), ((0, 0), (0, 1), (2, 1))]
    assert levels[1].prior_of == (0, 0, 1)
    with curated(budget, random_rows(600)) as curator:
        release = mechanism.run(curator, budget)
    assert release.model is not None
    table = release.model.project(("age", "sex")).values
    assert {(int(a), int(s)) for a, s in zip(*np.nonzero(table), strict=True)} <= {(0, 0), (0, 1), (2, 1)}


def test_an_empty_private_table_gives_a_release() -> None:
    for way in WAYS:
        with curated(Budget.pure(10**4), Rows(DOMAIN, [])) as curator:
            release = PriorUpdate(public=public("smaller"), by=TWO, way=way).run(curator, Budget.pure(10**4))
        assert release.model is None or release.model.total < 5


@pytest.mark.statistical
def test_noise_spoils_raking_and_not_the_noise_aware_update() -> None:
    # Groups are alike and the prior is right. Ten runs: raking at ε = 0.05 is several times farther off.
    rows = random_rows(2_000, seed=4).rows
    budget = Budget.pure("1/20")

    def distance(way: Way) -> float:
        found = []
        for _ in range(10):
            with curated(budget, Rows(DOMAIN, rows)) as curator:
                release = PriorUpdate(public=PublicRows(rows, DOMAIN), by=TWO, workloads=CLIQUES, way=way).run(
                    curator, budget
                )
            if release.model is not None:
                table = release.model.project(("sex", "marital-status")).values
                found.append(np.abs(table / table.sum() - 1 / 6).sum())
        return float(np.mean(found))

    assert distance("noise-aware") < 0.7 * distance("raking")


@pytest.mark.parametrize(
    ("mechanism", "error"),
    [
        (PriorUpdate(public=PublicRows([[0]], Domain.of({"age": 4})), by=TWO), DomainError),
        (PriorUpdate(public=public("smaller"), by=()), OptionError),
        (PriorUpdate(public=public("smaller"), by=(("nobody",),)), DomainError),
        (PriorUpdate(public=public("smaller"), by=(("age",), ("age",))), DomainError),
        (PriorUpdate(public=public("smaller"), by=(tuple(DOMAIN),)), OptionError),
        (PriorUpdate(public=public("smaller"), by=TWO, groups=((9,),)), OptionError),
        (PriorUpdate(public=public("smaller"), by=TWO, groups=()), OptionError),
        (PriorUpdate(public=public("smaller"), by=TWO, workloads=((),)), OptionError),
        (PriorUpdate(public=public("smaller"), by=TWO, workloads=((), (("age",),))), OptionError),
        (PriorUpdate(public=public("smaller"), by=TWO, way="magic"), OptionError),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_done_costs_nothing(mechanism: PriorUpdate, error: type[Exception]) -> None:
    source = random_rows()
    with curated(Budget.pure(1), source) as curator:
        with pytest.raises(error):
            mechanism.run(curator, Budget.pure(1))
        assert curator.reservation.spent == 0
    assert source.looks == 0


def test_information_of_known_tables() -> None:
    assert mutual_information(np.ones((3, 4))) == pytest.approx(0)
    assert mutual_information(np.eye(4)) == pytest.approx(np.log(4))


def test_pairs_and_singles_come_from_public_data() -> None:
    rows = PublicRows(biased(3_000, 2), DOMAIN)
    assert strongest_pairs(rows, tuple(DOMAIN), count=1) == [("age", "sex")]
    assert unrelated_singles(rows, tuple(DOMAIN), most=0.05) == [("age",), ("marital-status",)]
    assert strongest_pairs(rows, tuple(DOMAIN), most_cells=7) == [("sex", "marital-status")]


def test_the_contest_scores_the_truth_itself_with_a_thousand() -> None:
    rows = private("identical")
    assert contest_score(rows, rows, DOMAIN, ("age",)).score == pytest.approx(1000)


def test_the_contest_gives_nothing_for_missing_groups_and_counts() -> None:
    rows = np.array([[0, 0, 0]] * 300 + [[1, 0, 0]] * 10)
    missing = contest_score(rows[:300], rows, DOMAIN, ("age",))
    assert missing.distances == pytest.approx([0, 2])
    assert missing.score == pytest.approx(500)
    short = contest_score(rows[260:], rows, DOMAIN, ("age",))
    assert short.missed.tolist() == [True, False]
    assert short.score == pytest.approx(500)


def test_the_contest_measures_the_mean_distance_of_pairs() -> None:
    truth = np.array([[0, 0, 0], [0, 1, 1]])
    found = np.array([[0, 0, 0], [0, 0, 0]])
    assert contest_score(found, truth, DOMAIN, ("age",)).distances == pytest.approx([1])
    assert contest_pairs(list("abc")) == contest_pairs(list("cba"))
    assert len(contest_pairs([str(i) for i in range(33)])) == 50


GROUPED = Schema.parse(
    """
priory: 1
name: people
columns:
  state: {kind: category, levels: [north, south], other: south}
  year: {kind: category, levels: ["1", "2"], other: "2"}
  sex: {kind: category, levels: [f, m], other: m}
groups:
  - by: [year, state]
    values: [["1", north], ["2", north], ["2", south]]
"""
)


@pytest.mark.filterwarnings("ignore:ε = 10000 promises")
def test_groups_within_groups_can_be_fitted_by_name(tmp_path: Path) -> None:
    rows = ["north,1,f"] * 30 + ["north,2,m"] * 20 + ["south,2,m"] * 50
    for name in ("a.csv", "last.csv"):
        (tmp_path / name).write_text("state,year,sex\n" + "\n".join(rows) + "\n")
    release = fit(tmp_path / "a.csv", GROUPED, epsilon=10**4, public=tmp_path / "last.csv", by=[["state"], ["year"]])
    assert release.statement.mechanism == "prior-update"
    assert release.model is not None
    np.testing.assert_allclose(release.model.project(("state", "year")).values, [[30, 20], [0, 50]], atol=2)


def test_the_command_line_fits_groups_within_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    GROUPED.save(tmp_path / "schema.yaml")
    data, last, made = tmp_path / "a.csv", tmp_path / "last.csv", tmp_path / "a.priory"
    data.write_text("state,year,sex\n" + "north,1,f\n" * 30 + "north,2,m\n" * 20 + "south,2,m\n" * 50)
    last.write_bytes(data.read_bytes())
    given = ["fit", data, "--schema", tmp_path / "schema.yaml", "--public", last, "--epsilon", "10000", "-o", made]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, given), "--by", "state", "--by", "year"])
    assert not ended.value.code, capsys.readouterr().err
    release = Release.load(made)
    assert release.statement.mechanism == "prior-update"
    assert release.model is not None
    np.testing.assert_allclose(release.model.project(("state", "year")).values, [[30, 20], [0, 50]], atol=2)


def test_groups_need_public_data_columns_and_the_recipe_for_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("state,year,sex\nnorth,1,f\n")
    data, public = tmp_path / "a.csv", {"state": ["north"], "year": ["1"], "sex": ["f"]}
    with pytest.raises(OptionError, match="public"):
        fit(data, GROUPED, epsilon=1, by=[["state"]])
    with pytest.raises(OptionError, match="prior-update"):
        fit(data, GROUPED, epsilon=1, public=public, by=[["state"]], mechanism="prior")
    with pytest.raises(PrioryError, match="county"):
        fit(data, GROUPED, epsilon=1, public=public, by=[["county"]])
