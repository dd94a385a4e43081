import numpy as np
import pytest

from priory.estimate.dual import Dual, solved
from priory.estimate.loss import L2
from priory.estimate.problem import Problem
from priory.estimate.tangent import marginals_along, tangent
from problems import LOOP, TREE, small

EXACT = Dual(accuracy=1e-16, inner=400)


@pytest.mark.parametrize("cliques", [TREE, LOOP], ids=["tree", "loop"])
def test_a_tangent_is_how_the_exact_solution_moves(cliques: tuple[tuple[str, ...], ...]) -> None:
    problem = small(3, cliques).problem()
    evidence = problem.evidence
    rng = np.random.default_rng(0)
    moves, center = rng.normal(size=evidence.size), 0.1 * rng.normal(size=evidence.size)
    start, temperature = Dual().init(problem), 0.05

    def fitted(share: float) -> tuple[np.ndarray, np.ndarray]:
        moved = Problem(problem.oracle, L2(evidence.with_values(evidence.values + share * moves)), problem.total)
        alpha, marginals, _ = solved(
            moved, share * center, near=start.marginals, temperature=temperature, settings=EXACT
        )
        return alpha, marginals

    alpha, marginals = fitted(0.0)
    step = 1e-3
    ahead, behind = fitted(step), fitted(-step)
    found = tangent(
        problem,
        alpha,
        marginals,
        right_hand_side=moves,
        center=center,
        temperature=temperature,
        accuracy=1e-12,
        most=500,
    )
    scale = np.abs(found.marginals).max()
    np.testing.assert_allclose(found.alpha, (ahead[0] - behind[0]) / (2 * step), atol=2e-3)
    np.testing.assert_allclose(found.marginals, (ahead[1] - behind[1]) / (2 * step), atol=2e-3 * scale)
    again = tangent(
        problem,
        alpha,
        marginals,
        right_hand_side=moves,
        center=center,
        temperature=temperature,
        accuracy=1e-12,
        most=500,
        start=found.alpha,
    )
    np.testing.assert_allclose(again.alpha, found.alpha, atol=1e-3)
    assert again.calls < found.calls


def test_marginals_stay_where_nothing_moves() -> None:
    problem = small(0).problem()
    state = Dual().init(problem)
    still = np.zeros(problem.evidence.size)
    assert not marginals_along(problem, state.alpha, state.marginals, still).any()
