import math
import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.errors import DomainError, OptionError, SizeError
from priory.model.engine.plan import Plan, plan
from priory.queries.domain import Domain
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


def in_order(scopes: list[frozenset[int]], order: tuple[int, ...]) -> list[tuple[int, frozenset[int]]]:
    """Each attribute with its neighbours when it is eliminated; those that the order does not name go first."""
    buckets = []
    for v in (*sorted(frozenset().union(*scopes).difference(order)), *order):
        near = frozenset().union(*(scope for scope in scopes if v in scope)) - {v}
        scopes = [*(scope for scope in scopes if v not in scope), near]
        buckets.append((v, near))
    return buckets


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


@settings(max_examples=200)
@given(cases(scales=(0.0,)), cases(scales=(0.0,), max_cliques=4))
def test_a_structure_that_has_grown_is_as_large_as_was_said_before(case: Case, other: Case) -> None:
    axis, sizer = case.domain.axis, plan(case.domain, case.cliques).sizer
    for clique in other.cliques:
        axes = [axis[name] for name in clique if name in axis]
        said, sizer = sizer.size_with(axes), sizer.grown(axes)
        assert sizer.size == said
        assert sizer.size_with(axes) == said


@given(cases(scales=(0.0,)), cases(scales=(0.0,), max_cliques=3), st.integers(0, 5_000))
def test_a_clique_fits_where_the_size_with_it_does(case: Case, other: Case, limit: int) -> None:
    axis, sizer = case.domain.axis, plan(case.domain, case.cliques).sizer
    for clique in (*case.cliques[:1], *other.cliques):
        axes = [axis[name] for name in clique if name in axis]
        assert sizer.fits(axes, limit) == (sizer.size_with(axes) <= limit)


def test_long_chains_and_wide_stars_keep_their_width() -> None:
    assert plan(*chain(1000)).width == 2
    domain = Domain.of({f"a{i}": 3 for i in range(1001)})
    assert plan(domain, [("a0", f"a{i}") for i in range(1, 1001)]).width == 1


def test_cutting_a_clique_of_pairs_keeps_the_large_table_unformed() -> None:
    p = plan(*all_pairs(9))
    assert p.size_in_cells == 8**9
    assert p.largest_table == 8**6
    assert p.memory_in_bytes < 64 * 2**20


def test_plans_print_their_cost() -> None:
    text = str(plan(*chain(5)))
    assert "width 2" in text
    assert "largest table 1e+03 cells" in text
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


@pytest.mark.parametrize("count", [20, 130])
def test_a_hopeless_plan_is_refused_quickly_however_large(count: int) -> None:
    start = time.process_time()
    with pytest.raises(SizeError, match="GiB"):
        plan(*all_pairs(count, 10**4))
    assert time.process_time() - start < 5


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
