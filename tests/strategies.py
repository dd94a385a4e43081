"""Hypothesis strategies for the nouns."""

import math
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from priory.queries.domain import Domain
from priory.queries.factor import Factor
from priory.queries.parts import Identity, Matrix, Mean, Moments, Part, Point, Prefix, Range, Recode, Set, Total
from priory.queries.query import Query

NAMES = ("age", "sex", "marital-status", "größe", "household size")


@st.composite
def domains(draw: st.DrawFn, *, max_attributes: int = 4, max_size: int = 4, max_cells: int = 10**6) -> Domain:
    names = draw(st.permutations(NAMES))[: draw(st.integers(0, max_attributes))]
    sizes: dict[str, int] = {}
    for name in names:
        sizes[name] = draw(st.integers(1, min(max_size, max(1, max_cells // math.prod(sizes.values())))))
    return Domain.of(sizes)


@st.composite
def factors(draw: st.DrawFn, domain: Domain | None = None) -> Factor:
    domain = draw(domains()) if domain is None else domain
    counts = draw(st.lists(st.integers(0, 50), min_size=domain.size, max_size=domain.size))
    return Factor.of(domain, np.array(counts, dtype=np.int64).reshape(domain.shape))


def binary_parts(size: int) -> st.SearchStrategy[Part]:
    codes = st.integers(0, size - 1)
    return st.one_of(
        st.just(Identity()),
        st.just(Total()),
        st.just(Prefix()),
        st.builds(Point, codes),
        st.builds(Set, st.sets(codes, min_size=1)),
        st.builds(lambda a, b: Range(min(a, b), max(a, b)), codes, codes),
        st.builds(Recode, st.lists(st.integers(0, 2), min_size=size, max_size=size)),
    )


def integer_parts(size: int) -> st.SearchStrategy[Part]:
    entries = st.lists(st.lists(st.integers(-3, 3), min_size=size, max_size=size), min_size=1, max_size=3)
    zeros_and_ones = st.lists(st.lists(st.integers(0, 1), min_size=size, max_size=size), min_size=1, max_size=3)
    return binary_parts(size) | st.builds(Matrix, entries) | st.builds(Matrix, zeros_and_ones)


def parts(size: int) -> st.SearchStrategy[Part]:
    values = st.lists(st.floats(-100, 100, width=32), min_size=size, max_size=size)
    return integer_parts(size) | st.builds(Mean, values) | st.builds(Moments, values, st.integers(1, 3))


@st.composite
def queries(draw: st.DrawFn, *, of: Callable[[int], st.SearchStrategy[Part]] = parts, max_cells: int = 200) -> Query:
    domain = draw(domains(max_attributes=3, max_cells=max_cells))
    return Query.product(domain, {name: draw(of(domain[name])) for name in domain})
