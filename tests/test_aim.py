import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import BUDGET_CHECKS
from houses import DOMAIN, Rows, curated, random_rows
from priory.app.registry import MECHANISMS, Mechanism, Registered
from priory.errors import BudgetError, DomainError, OptionError
from priory.measure import measure
from priory.mechanisms.aim import AIM
from priory.mechanisms.steps.fitted import Fitted
from priory.model.bases import PublicRows, Uniform
from priory.model.fitting import structure
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.privacy.progress import Step
from priory.queries.domain import Domain
from priory.queries.parts import Prefix, Recode
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release
from priory.select.candidates import Candidates
from priory.select.one_ways import OneWays
from priory.select.workloads import default_workload
from publics import public

RHO = Budget.zcdp("1/10")
OURS = ("mst", "aim-textbook", "aim")


def built(name: str, domain: Domain) -> Mechanism:
    return MECHANISMS[name].build(domain)


def ran(mechanism: Mechanism, source: Rows, budget: Budget) -> Release:
    with curated(budget, source) as curator:
        release = mechanism.run(curator, budget)
        assert curator.left == 0
    return release


@given(st.data())
@settings(max_examples=30)
def test_candidates_weigh_what_they_share_with_the_workload(data: st.DataObject) -> None:
    domain = Domain.of({"a": 2, "b": 3, "c": 2, "d": 4})
    cliques = data.draw(
        st.lists(
            st.sampled_from([c for k in (1, 2, 3) for c in itertools.combinations(domain, k)]), min_size=1, unique=True
        )
    )
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(cliques), max_size=len(cliques)))
    found = Candidates.of(domain, Workload.of([Query.marginal(domain, c) for c in cliques], weights), most_cells=10**6)
    assert set(found.cliques) == {
        c for clique in cliques for k in range(1, len(clique) + 1) for c in itertools.combinations(clique, k)
    }
    for clique, weight in zip(found.cliques, found.weights, strict=True):
        slow = sum(w * len(set(clique) & set(other)) for other, w in zip(cliques, weights, strict=True))
        assert weight == pytest.approx(slow)


def test_candidates_that_would_drown_or_make_the_model_too_large_are_left_out() -> None:
    found = Candidates.of(DOMAIN, Workload.marginals(DOMAIN, 2), most_cells=10**6)
    planned = structure(DOMAIN, [("age",), ("sex",), ("marital-status",)])
    everything, _, noise = found.above_the_noise(planned, 10**6, RHO, total=10**6)
    assert {query.clique for query in everything} == set(found.cliques)
    # σ² = 1/2ρ = 5 in each cell.
    assert dict(zip((q.clique for q in everything), noise, strict=True))["age", "sex"] == pytest.approx(
        8 * np.sqrt(2 / np.pi * 5), rel=0.01
    )
    alone, _, _ = found.above_the_noise(planned, 0, RHO, total=10**6)
    assert all(len(query.clique) == 1 for query in alone)
    quiet, _, _ = found.above_the_noise(planned, 10**6, RHO, total=4 * np.sqrt(2 / np.pi * 5) / 2 + 0.1)
    assert {query.clique for query in quiet} == {("age",), ("sex",), ("marital-status",)}
    least, _, _ = found.above_the_noise(planned, 10**6, RHO, total=0.001)
    assert [query.clique for query in least] == [("sex",)]


def test_a_workload_is_triples_of_few_attributes_and_pairs_of_many() -> None:
    assert {len(query.clique) for query in default_workload(DOMAIN)} == {3}
    assert {len(query.clique) for query in default_workload(Domain.of({f"a{i}": 2 for i in range(40)}))} == {2}
    assert len(default_workload(Domain.of({"a": 2}))) == 1


def test_wide_attributes_are_measured_in_runs_too_and_paid_by_their_width() -> None:
    domain = Domain.of({"narrow": 4, "wide": 100})
    asked = OneWays().strategy(domain)
    [runs] = [query for query in asked if not query.is_marginal]
    assert runs.parts == (Recode([code // 10 for code in range(100)]),)
    paid = {name: sum(share for query, share in asked.items() if query.clique == (name,)) for name in domain}
    assert paid["wide"] == 5 * paid["narrow"]
    assert asked[runs] == Fraction(3, 10) * paid["wide"]


@pytest.mark.parametrize(("records", "again"), [(4_000, ["wide", "wide"]), (200_000, [])])
def test_what_noise_still_hides_is_measured_again(records: int, again: list[str]) -> None:
    # With ρ = 1/1000 the noise of 100 values adds up to 5,000: more than a twentieth of 8,000, less than of 400,000.
    domain, budget = Domain.of({"narrow": 2, "wide": 100}), Budget.zcdp("1/1000")
    with curated(budget, random_rows(records, domain=domain)) as curator:
        first = budget.part(OneWays().first)
        asked = OneWays().strategy(domain)
        measured = measure(curator, list(asked), first, shares=list(asked.values()))
        fitted = Fitted.start(curator, Uniform(domain)).with_measured(measured)
    assert [query.clique[0] for query in OneWays().still_noisy(asked, first, fitted.model.total)] == again


@pytest.mark.parametrize("name", OURS)
def test_dependence_is_found(name: str) -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(0, 4, 3_000)
    source = Rows(DOMAIN, np.stack([a, a // 2, rng.integers(0, 3, 3_000)], axis=1))
    release = ran(built(name, DOMAIN), source, RHO)
    truth = source.count([("age", "sex")])[0].values
    # Columns alone are wrong by half; the noise that the budget buys moves one row in twenty at most.
    assert np.abs(release.model.project(("age", "sex")).values - truth).sum() < 0.05 * 2 * 3_000


@pytest.mark.parametrize(("cells", "wide"), [(80, 10**9), (240, 2)])
def test_marginals_of_one_round_fit_the_model_together(cells: int, wide: int) -> None:
    # Eight columns of 6 values have 48 cells, and each pair of them 24 more: only one is allowed.
    domain = Domain.of(dict.fromkeys("abcdefgh", 6))
    alike = np.repeat(np.random.default_rng(0).integers(0, 6, (300, 1)), 8, axis=1)
    mechanism = AIM(model_cells=cells, wide=wide, together=2, rounds=Fraction(1))
    release = ran(mechanism, Rows(domain, alike), Budget.zcdp(5))
    assert any(len(m.query.clique) == 2 for m in release.measurements)
    assert structure(domain, [m.query.clique for m in release.measurements]).size_in_cells <= 80


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    "source",
    [
        random_rows(50, domain=Domain.of({"only": 5})),
        random_rows(50, domain=Domain.of({"one value": 1})),
        random_rows(1),
        random_rows(0),
        random_rows(30, domain=Domain.of({"many": 20_000, "few": 2})),
    ],
    ids=["one column", "one value", "one row", "no row", "many values"],
)
@pytest.mark.parametrize("budget", [RHO, Budget.zcdp("1/10", relation="replace-one"), Budget.approximate(0.001, 1e-9)])
def test_odd_tables_give_a_release(name: str, source: Rows, budget: Budget) -> None:
    with curated(budget, source) as curator:
        release = built(name, source.domain).run(curator, budget)
    shares = release.model.project(source.domain.attributes[:1]).values / release.model.total
    assert np.isfinite(shares).all()
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("check", BUDGET_CHECKS)
def test_the_contract_holds_from_public_rows(name: str, check: Callable[[Registered], None]) -> None:
    with_public = MECHANISMS[name].with_public
    assert with_public is not None
    check(Registered(name, "", lambda _: with_public(public("smaller"))))


def test_whoever_waits_is_told_of_every_round() -> None:
    told: list[Step] = []
    with Ledger.in_memory(RHO).reserve(RHO, "test") as reservation:
        AIM.textbook().run(Curator(reservation, random_rows(), progress=told.append), RHO)
    assert [step.number for step in told] == list(range(len(told)))
    assert [step.spent for step in told] == sorted({step.spent for step in told})


@pytest.mark.parametrize(
    ("mechanism", "error"),
    [
        (AIM(public=PublicRows([[0]], Domain.of({"age": 4}))), DomainError),
        (AIM(workload=Workload.of([])), DomainError),
        (AIM(workload=Workload.of([Query.product(DOMAIN, {"age": Prefix()})])), OptionError),
        (AIM(choosing=Fraction(1)), OptionError),
        (AIM(rounds=Fraction(0)), OptionError),
    ],
)
def test_what_cannot_be_done_costs_nothing(mechanism: AIM, error: type[Exception]) -> None:
    source = random_rows()
    with curated(RHO, source) as curator:
        with pytest.raises(error):
            mechanism.run(curator, RHO)
        with pytest.raises(BudgetError):
            AIM().run(curator, Budget.zcdp(1))
        assert curator.reservation.spent == 0
    assert source.looks == 0
