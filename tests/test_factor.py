import numpy as np
import pytest
from hypothesis import given

from priory.errors import DomainError
from priory.queries.domain import Domain
from priory.queries.factor import Factor
from strategies import factors


@given(factors())
def test_projecting_in_two_steps_equals_projecting_once(factor: Factor) -> None:
    some = factor.domain.attributes[:1]
    most = factor.domain.attributes[:-1] or some
    np.testing.assert_array_equal(
        factor.project(some).values, factor.project(set(most) | set(some)).project(some).values
    )


@given(factors())
def test_projecting_keeps_the_total(factor: Factor) -> None:
    assert factor.project(factor.domain.attributes[1:]).total == factor.total
    assert factor.project(()).values == factor.total


@given(factors())
def test_transposing_there_and_back_changes_nothing(factor: Factor) -> None:
    back = factor.transpose(factor.domain.attributes[::-1]).transpose(factor.domain)
    np.testing.assert_array_equal(back.values, factor.values)


@given(factors())
def test_expanding_repeats_the_values_over_the_new_attribute(factor: Factor) -> None:
    wide = Domain.of({"new": 3, **dict(zip(factor.domain, factor.domain.shape, strict=True))})
    np.testing.assert_array_equal(factor.expand(wide).project(factor.domain).values, 3 * factor.values)


def test_values_of_another_shape_or_kind_are_refused() -> None:
    domain = Domain.of({"a": 2, "b": 3})
    with pytest.raises(DomainError, match=r"\(3, 2\).*\(2, 3\)"):
        Factor.of(domain, np.zeros((3, 2)))
    with pytest.raises(DomainError, match="real numbers"):
        Factor.of(Domain.of({"a": 1}), ["x"])
