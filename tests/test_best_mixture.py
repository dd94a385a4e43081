from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest
from experiments.mixture_bounds import mixture_bounds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from houses import DOMAIN, Rows, curated, random_rows
from priory.audit.replay import replay_pair
from priory.audit.tables import PUBLIC_KINDS, SEED, neighbours, public_rows
from priory.errors import BudgetError, DomainError, OptionError
from priory.mechanisms.best_mixture import BestMixture
from priory.mechanisms.pmw_pub.row_weights import RowWeights
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.functionals import LargestCell, MixtureError
from priory.privacy.scores import Neighbours
from priory.queries.domain import Domain
from priory.queries.parts import Numbers
from priory.queries.sensitivity import Relation
from priory.queries.workload import Workload
from publics import KINDS, private, public

PAIRS = Workload.marginals(DOMAIN, 2)
RICH = Budget.zcdp(10**9, relation="replace-one")
SMALL = Domain.of({"a": 2, "b": 3})


def truths(rows: Numbers) -> list[Numbers]:
    return [factor.values.astype(np.float64) for factor in Rows(DOMAIN, rows).count(PAIRS.cliques)]


def whole_programme(rows: PublicRows, shares: list[Numbers]) -> float:
    """Every cell a constraint, both ways."""
    weights = RowWeights.of(PAIRS.queries, rows)
    matrix = np.concatenate(
        [np.eye(query.rows)[:, cells] for query, cells in zip(PAIRS.queries, weights.cells, strict=True)]
    )
    truth = np.concatenate([share.ravel() for share in shares])
    one = np.ones((len(matrix), 1))
    found = linprog(
        np.append(np.zeros(matrix.shape[1]), 1.0),
        A_ub=np.block([[matrix, -one], [-matrix, -one]]),
        b_ub=np.concatenate([truth, -truth]),
        A_eq=np.append(np.ones(matrix.shape[1]), 0.0)[None, :],
        b_eq=[1.0],
    )
    return float(found.fun)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from(list(KINDS)), st.integers(1, 60))
def test_generated_constraints_give_what_all_of_them_give(seed: int, kind: str, n: int) -> None:
    counts = truths(random_rows(n, seed).rows)
    bounds = mixture_bounds(public(kind), PAIRS, counts, 1e-6)
    exact = whole_programme(public(kind), [count / n for count in counts])
    assert bounds.lower - 1e-9 <= exact <= bounds.upper + 1e-9
    assert bounds.upper - bounds.lower <= 1e-6
    assert bounds.weights.sum() == pytest.approx(1)


def test_rows_that_are_the_private_ones_have_no_error_left() -> None:
    assert mixture_bounds(public("identical"), PAIRS, truths(private("identical")), 1e-6).upper < 1e-6


def test_rows_apart_from_the_private_ones_have_their_floor() -> None:
    counts = truths(private("disjoint"))
    weights = RowWeights.of(PAIRS.queries, public("disjoint"))
    floor = np.concatenate([count.ravel() for count in counts])[~weights.supported].max() / counts[0].sum()
    assert mixture_bounds(public("disjoint"), PAIRS, counts, 1e-6).upper >= floor


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_budget_gives_the_true_numbers(kind: str) -> None:
    source = Rows(DOMAIN, private(kind))
    n = len(source.rows)
    expected = mixture_bounds(public(kind), PAIRS, truths(source.rows), 1e-6).upper
    with curated(RICH, source) as curator:
        exact = BestMixture(public=public(kind), workload=PAIRS, kind="exact").look(curator, RICH.part("1/2"))
        floor = BestMixture(public=public(kind), workload=PAIRS).look(curator, RICH.part("1/2"))
    assert exact.error == pytest.approx(expected, abs=0.3 / n)
    assert floor.error <= exact.error + 0.3 / n
    assert "at least" in str(floor)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=5), st.integers(0, 5))
@settings(max_examples=25)
def test_one_row_moves_the_numbers_by_no_more_than_is_declared(rows: list[tuple[int, int]], public_size: int) -> None:
    workload = Workload.marginals(SMALL, 2)
    public_part = PublicRows(np.array([[0, 0], [1, 1], [0, 2], [1, 2], [0, 1], [1, 0]])[: public_size + 1], SMALL)
    weights = RowWeights.of(workload.queries, public_part)
    exact = MixtureError(weights.queries, weights.cells, weights.weights)
    floor = LargestCell(weights.queries, ~weights.supported)
    replaced = Neighbours(Relation.REPLACE_ONE, 1, None)

    def tables(records: list[tuple[int, int]]) -> list[Numbers]:
        return [factor.values for factor in Rows(SMALL, records).count(workload.cliques)]

    here = tables(rows)
    for a in range(2):
        for b in range(3):
            there = tables([(a, b), *rows[1:]])
            assert abs(exact.value(here) - exact.value(there)) <= exact.sensitivity(replaced)
            assert abs(floor.value(here) - floor.value(there)) <= floor.sensitivity(replaced)
            more = tables([(a, b), *rows])
            assert abs(floor.value(here) - floor.value(more)) <= floor.sensitivity(
                Neighbours(Relation.ADD_REMOVE, 1, None)
            )


@pytest.mark.parametrize("kind", PUBLIC_KINDS)
def test_neighbours_replay(kind: str) -> None:
    for pair in neighbours(12, SEED):
        rows = public_rows(kind, pair)
        assert replay_pair(BestMixture(public=rows), pair) is None
        if pair.has_public_total:
            assert replay_pair(BestMixture(public=rows, kind="exact"), pair) is None


def test_the_release_tells_the_number_and_nothing_else() -> None:
    budget = Budget.zcdp("1/10", relation="replace-one")
    with curated(budget) as curator:
        release = BestMixture(public=public("smaller"), workload=PAIRS).run(curator, budget)
        assert curator.reservation.spent == budget.amount
    assert release.measurements == ()
    assert release.public_check is not None
    told = asdict(release.public_check)
    assert set(told) == {"error", "stddev", "kind"}
    # One count of sensitivity 1 at ρ = 1/10 has σ² = 5.
    assert told["stddev"] == pytest.approx(5**0.5 / 200, rel=0.01)


def test_what_cannot_be_done_costs_nothing() -> None:
    source = random_rows()
    with curated(Budget.zcdp(1), source) as curator:
        with pytest.raises(OptionError, match="floor"):
            BestMixture(public=public("smaller"), kind="exact").look(curator, Budget.zcdp(1))
        with pytest.raises(DomainError):
            BestMixture(public=PublicRows([[0, 0]], SMALL)).look(curator, Budget.zcdp(1))
        with pytest.raises(BudgetError):
            BestMixture(public=public("smaller")).look(curator, Budget.zcdp(2))
        with pytest.raises(OptionError):
            curator.number(LargestCell(PAIRS.queries, np.ones(3, dtype=bool)), Budget.zcdp(1))
        assert curator.reservation.spent == 0
    assert source.looks == 0


def test_nothing_unsupported_costs_only_the_number_of_rows() -> None:
    budget = Budget.zcdp(1)
    with curated(budget) as curator:
        look = BestMixture(public=public("larger"), workload=PAIRS).look(curator, budget)
        assert curator.reservation.spent == Fraction(1, 20)
    assert look.error == 0


def test_a_solver_that_fails_leaves_what_is_known_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("priory.privacy.mixture._Problem.solved", lambda *_: None)
    counts = truths(random_rows(50, 7).rows)
    bounds = mixture_bounds(public("smaller"), PAIRS, counts, 1e-9)
    assert (
        bounds.lower
        <= whole_programme(public("smaller"), [count / 50 for count in counts]) + 1e-9
        <= bounds.upper + 2e-9
    )
