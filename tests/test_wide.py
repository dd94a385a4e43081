"""Wide: potentials that range over thousands, in everything a model answers, against the full table in log space."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from priory.model import graph, subtree
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.queries.domain import Domain
from priory.queries.parts import Matrix, Part, Point, Prefix, Range
from priory.queries.query import Query
from strategies_model import Case, brute, cases, marginal

WIDTHS = (30.0, 300.0, 3e3, 1e4)


def check_answers(model: Model, case: Case, queries: list[Query]) -> None:
    _, joint = brute(case.domain, case.potentials)
    for query in queries:
        expected = query(marginal(case.domain, joint, query.clique))
        np.testing.assert_allclose(
            model.project(query.clique).values, marginal(case.domain, joint, query.clique), atol=1e-8
        )
        np.testing.assert_allclose(model.answer(query), expected, atol=1e-7)


@pytest.mark.parametrize(("shared", "divided"), [(1 << 16, 1 << 20), (0, 1 << 20), (0, 0)])
def test_answers_across_bags_lose_nothing_however_wide_the_potentials(
    shared: int, divided: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "_SHARED_CELLS", shared)
    monkeypatch.setattr(subtree, "_DIVIDED_CELLS", divided)

    @settings(max_examples=60)
    @given(cases(scales=WIDTHS), st.data())
    def law(case: Case, data: st.DataObject) -> None:
        expected, _ = brute(case.domain, case.potentials)
        assume(bool(np.isfinite(expected)))
        model = Model.of(Uniform(case.domain), case.potentials)
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        names = data.draw(st.permutations(case.domain.attributes))[:4]
        parts: dict[str, Part] = {}
        for name in names:
            size = case.domain[name]
            choices: list[Part] = [Prefix(), Point(size - 1), Range(0, size // 2), Matrix(rng.normal(size=(1, size)))]
            parts[name] = choices[rng.integers(4)]
        check_answers(model, case, [Query.marginal(case.domain, names), Query.product(case.domain, parts)])

    law()


@pytest.mark.parametrize("divided", [0, 1 << 20])
@pytest.mark.parametrize("width", WIDTHS)
def test_cut_bags_and_their_neighbours_lose_nothing_either(
    width: float, divided: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "_SHARED_CELLS", 0)
    monkeypatch.setattr(subtree, "_DIVIDED_CELLS", divided)
    domain = Domain.of({f"a{i}": 8 for i in range(5)} | {"b": 3, "c": 4})
    cliques = (*combinations([f"a{i}" for i in range(5)], 2), ("a0", "b"), ("a0", "c"), ("a1", "c"))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        tables = tuple(width * rng.normal(size=domain.project(c).shape) for c in cliques)
        case = Case(domain, cliques, tables)
        model = Model.of(Uniform(domain), case.potentials)
        queries = [
            Query.marginal(domain, ("a2", "b", "c")),
            Query.product(
                domain, {"a0": Prefix(), "a4": Point(3), "b": Range(0, 1), "c": Matrix(rng.normal(size=(2, 4)))}
            ),
            Query.product(domain, {"a3": Matrix(rng.normal(size=(1, 8))), "c": Prefix()}),
        ]
        check_answers(model, case, queries)


@pytest.mark.parametrize("lowest", [-300.0, -500.0, -660.0, -3000.0])
def test_values_with_next_to_no_mass_overflow_nothing_in_tables_too_large_to_divide_once(
    lowest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "_SHARED_CELLS", 0)
    monkeypatch.setattr(subtree, "_DIVIDED_CELLS", 0)
    names = [f"b{i}" for i in range(4)]
    domain = Domain.of({"a": 3} | dict.fromkeys(names, 4))
    cliques = (("a",), *(("a", name) for name in names))
    rng = np.random.default_rng(0)
    tables = (np.array([0.0, lowest, lowest - 20]), *(rng.normal(size=(3, 4)) for _ in names))
    case = Case(domain, cliques, tables)
    model = Model.of(Uniform(domain), case.potentials)
    queries = [
        Query.marginal(domain, names),
        Query.product(domain, {name: Matrix(rng.normal(size=(1, 4))) for name in names}),
    ]
    check_answers(model, case, queries)
