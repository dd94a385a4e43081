import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings

from priory.model import carried
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.queries.domain import Domain
from priory.queries.query import Query
from strategies_model import Case, brute, cases


def marginals(domain: Domain) -> list[Query]:
    return [Query.marginal(domain, clique) for k in (2, 3) for clique in itertools.combinations(domain, k)]


@settings(max_examples=60)
@given(cases())
def test_pairs_and_triples_are_the_projections(case: Case) -> None:
    assume(bool(np.isfinite(brute(case.domain, case.potentials)[0])))
    model = Model.of(Uniform(case.domain), case.potentials, 7.0)
    asked = marginals(case.domain)
    for query, answer in zip(asked, model.answers(asked), strict=True):
        np.testing.assert_allclose(answer, model.project(query.clique).values, atol=1e-9)


@pytest.mark.parametrize("most", [1, 1 << 22])
def test_long_trees_with_cut_bags_lose_nothing(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried, "MOST_CELLS", most)
    rng = np.random.default_rng(0)
    domain = Domain.of({f"a{i}": int(rng.integers(2, 20)) for i in range(14)} | {"alone": 3})
    # Loops of four pairs each, of which some are computed as products of matrices, and a triple between them.
    loops = [[f"a{i}" for i in range(start, start + 4)] for start in (0, 3, 6, 9)]
    pairs = [pair for a, b, c, d in loops for pair in ((a, b), (b, c), (c, d), (a, d), (a, c))]
    cliques = [*pairs, ("a12", "a13"), ("a10", "a11", "a12")]
    model = Model.of(Uniform(domain), {c: rng.normal(size=domain.project(c).shape) for c in cliques})
    asked = marginals(domain)
    for query, answer in zip(asked, model.answers(asked), strict=True):
        np.testing.assert_allclose(answer, model.project(query.clique).values, atol=1e-12)
