import pytest
from hypothesis import given

from priory.errors import DomainError
from priory.queries.domain import Domain
from strategies import domains


@given(domains())
def test_a_domain_splits_into_a_clique_and_the_rest(domain: Domain) -> None:
    clique = domain.attributes[::2]
    rest = domain.without(clique)
    assert set(rest) | set(clique) == set(domain)
    assert domain.project(clique).size * rest.size == domain.size == domain.size_of(domain)


@given(domains())
def test_cliques_are_put_in_the_domains_order(domain: Domain) -> None:
    assert domain.clique(reversed(domain.attributes)) == domain.attributes


def test_sizes_beyond_any_float_are_exact() -> None:
    assert Domain.of({f"x{i}": 10 for i in range(400)}).size == 10**400


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "3", None])
def test_a_size_that_is_not_a_positive_whole_number_is_refused(size: object) -> None:
    with pytest.raises(DomainError, match="attribute 'a'"):
        Domain.of({"a": size})  # type: ignore[dict-item]


def test_unknown_and_repeated_attributes_are_named() -> None:
    domain = Domain.of({"age": 85, "sex": 2})
    with pytest.raises(DomainError, match=r"unknown attributes \['agee'\]; domain has \['age', 'sex'\]"):
        domain.clique(["agee", "sex"])
    with pytest.raises(DomainError, match="twice"):
        domain.clique(["age", "age"])
