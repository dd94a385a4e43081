import numpy as np
import pytest
from hypothesis import given

from priory.errors import SizeError
from priory.model.engine.maxsum import best_row
from priory.queries.domain import Domain
from priory.queries.factor import Array
from strategies_model import Case, cases, joint_logs


@given(cases())
def test_the_best_row_is_the_best_of_all_rows(case: Case) -> None:
    logs = joint_logs(case.domain, case.potentials) + np.log(case.domain.size)
    row, value = best_row(case.domain, case.potentials)
    assert value == pytest.approx(logs.max(), abs=1e-9)
    assert logs[tuple(row)] == pytest.approx(value, abs=1e-9)


def test_a_search_along_a_chain_needs_no_large_table() -> None:
    domain = Domain.of({f"x{i}": 3 for i in range(40)})
    rng = np.random.default_rng(0)
    steps: dict[tuple[str, str], Array] = {(f"x{i}", f"x{i + 1}"): rng.normal(size=(3, 3)) for i in range(39)}
    best = np.zeros(3)
    for table in steps.values():
        best = (best[:, None] + table).max(axis=0)
    _, value = best_row(domain, steps, most_cells=27)
    assert value == pytest.approx(best.max())


def test_a_search_that_is_too_wide_is_refused_with_its_size() -> None:
    domain = Domain.of(dict.fromkeys("abcdef", 10))
    pairs = {(a, b): np.zeros((10, 10)) for a in "abcdef" for b in "abcdef" if a < b}
    with pytest.raises(SizeError) as refused:
        best_row(domain, pairs, most_cells=10**5)
    assert refused.value.cells == 10**6
