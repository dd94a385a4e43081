import math
import time
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from priory.domain import Domain
from priory.errors import DomainError, OptionError, SizeError
from priory.model import plan as planning
from priory.model.elimination import in_order
from priory.model.plan import Plan, plan
from strategies_model import Case, cases


def chain(length: int, size: int = 10, reach: int = 3) -> tuple[Domain, list[tuple[str, ...]]]:
    domain = Domain.of({f"a{i}": size for i in range(length)})
    return domain, [tuple(f"a{i + j}" for j in range(reach)) for i in range(length - reach + 1)]


def all_pairs(count: int, size: int = 8) -> tuple[Domain, list[tuple[str, ...]]]:
    domain = Domain.of({f"a{i}": size for i in range(count)})
    return domain, list(combinations(domain.attributes, 2))


def members(p: Plan) -> list[set[str]]:
    return [set(p.attributes_of(bag)) for bag in p.bags]


@given(cases(scales=(0.0,)))
def test_every_clique_lies_in_a_bag(case: Case) -> None:
    bags = members(plan(case.domain, case.cliques))
    assert all(any(set(clique) <= bag for bag in bags) for clique in case.cliques if clique)


@given(cases(scales=(0.0,)))
def test_bags_that_hold_an_attribute_are_joined_by_bags_that_hold_it(case: Case) -> None:
    p = plan(case.domain, case.cliques)
    for v in p.order:
        holding = [bag for bag in p.bags if v in bag.members]
        assert sum(v not in bag.separator for bag in holding) == 1
        assert all(v in p.bags[bag.parent].members for bag in holding if v in bag.separator)


@given(cases(scales=(0.0,)))
def test_no_bag_lies_in_another_one(case: Case) -> None:
    bags = members(plan(case.domain, case.cliques))
    assert not any(a <= b for a, b in combinations(bags, 2))
    assert not any(b <= a for a, b in combinations(bags, 2))


@given(cases(scales=(0.0,)))
def test_every_maximal_clique_is_multiplied_into_one_bag(case: Case) -> None:
    p = plan(case.domain, case.cliques)
    placed = sorted(leaf for bag in p.bags for leaf in bag.leaves)
    assert placed == list(range(len(p.maximal)))
    assert all(set(p.maximal[leaf]) <= set(p.attributes_of(bag)) for bag in p.bags for leaf in bag.leaves)


@settings(max_examples=200)
@given(cases(scales=(0.0,)), cases(scales=(0.0,), max_cliques=1))
def test_the_size_with_a_clique_added_is_that_of_the_same_order(case: Case, other: Case) -> None:
    p = plan(case.domain, case.cliques)
    axis = case.domain.axis
    for extra in (*case.cliques[:1], *(tuple(n for n in c if n in axis) for c in other.cliques)):
        scopes = [frozenset(axis[name] for name in clique) for clique in (*p.maximal, extra) if clique]
        buckets = in_order(scopes, p.order)
        sets = [rest | {v} for v, rest in buckets]
        largest = [s for i, s in enumerate(sets) if not any(s < t or (s == t and i < j) for j, t in enumerate(sets))]
        assert p.size_with(extra) == sum(math.prod(case.domain.shape[v] for v in s) for s in largest)
        assert p.with_clique(extra).size_in_cells <= p.size_with(extra)


def test_a_thousand_attribute_chain_is_planned_in_milliseconds() -> None:
    domain, cliques = chain(1000)
    best = math.inf
    for _ in range(5):
        planning._planned.cache_clear()
        start = time.perf_counter()
        p = plan(domain, cliques)
        best = min(best, time.perf_counter() - start)
    assert p.width == 2
    # The target is 20 ms; a loaded machine gets four times that before we call it a regression.
    assert best < 0.08


def test_a_star_of_a_thousand_attributes_is_planned_in_milliseconds() -> None:
    domain = Domain.of({f"a{i}": 3 for i in range(1001)})
    start = time.perf_counter()
    p = plan(domain, [("a0", f"a{i}") for i in range(1, 1001)])
    assert p.width == 1
    assert time.perf_counter() - start < 0.5


def test_candidates_are_sized_in_a_fraction_of_a_millisecond() -> None:
    domain = Domain.of({f"a{i}": 5 for i in range(30)})
    names = domain.attributes
    p = plan(domain, [*pairwise(names), *zip(names, names[7:], strict=False)])
    candidates = list(combinations(names, 3))[:500]
    p.size_with(candidates[0])
    start = time.perf_counter()
    for candidate in candidates:
        p.size_with(candidate)
    assert (time.perf_counter() - start) / len(candidates) < 4 * 0.2e-3


def test_cutting_a_clique_of_pairs_keeps_the_large_table_unformed() -> None:
    p = plan(*all_pairs(9))
    assert p.size_in_cells == 8**9
    assert p.largest_table == 8**6
    assert p.memory_in_bytes < 64 * 2**20


def test_plans_print_their_cost() -> None:
    text = str(plan(*chain(5)))
    assert "width 2" in text
    assert "1,000 cells" in text
    assert text.endswith("ms")


def test_plans_are_cached() -> None:
    assert plan(*chain(20)) is plan(*chain(20))


def test_a_plan_over_the_memory_limit_is_refused_with_the_cliques_to_blame() -> None:
    domain = Domain.of({"a": 10_000, "b": 10_000, "c": 10_000, "d": 2})
    with pytest.raises(SizeError, match="GiB") as caught:
        plan(domain, [("a", "b", "c"), ("c", "d")])
    assert caught.value.cells > caught.value.limit
    assert ("a", "b", "c") in caught.value.cliques
    assert ("c", "d") not in caught.value.cliques


def test_more_memory_can_be_allowed() -> None:
    domain, cliques = all_pairs(4)
    with pytest.raises(SizeError):
        plan(domain, cliques, memory_in_bytes=1000)
    assert plan(domain, cliques, memory_in_bytes=10**6).width == 3


def test_cliques_outside_the_domain_are_refused() -> None:
    domain = Domain.of({"age": 3, "sex": 2})
    with pytest.raises(DomainError, match=r"unknown attributes \['agee'\]"):
        plan(domain, [("agee", "sex")])
    with pytest.raises(DomainError, match="twice"):
        plan(domain, [("sex", "sex")])
    with pytest.raises(OptionError, match="memory_in_bytes"):
        plan(domain, [("sex",)], memory_in_bytes=0)


def test_attributes_in_no_clique_cost_nothing() -> None:
    domain = Domain.of({"a": 4, "b": 10**9})
    p = plan(domain, [("a",)])
    assert p.size_in_cells == 4
    assert [domain.attributes[v] for v in p.free] == ["b"]


def test_the_forecast_is_within_a_factor_of_ten_of_the_measured_time() -> None:
    from priory.model.bases import Uniform

    domain, cliques = chain(100)
    oracle = Uniform(domain).bind(cliques)
    theta = np.zeros(oracle.layout.size)
    oracle(theta)
    times = []
    for _ in range(9):
        start = time.perf_counter()
        oracle(theta)
        times.append(time.perf_counter() - start)
    assert 0.1 < plan(domain, cliques).seconds / float(np.median(times)) < 10
