import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from priory.mechanisms.merging import neighbours_together, rare_together
from priory.queries.parts import Identity, Recode

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=30).filter(any)


@given(COUNTS, st.integers(1, 12))
def test_runs_of_neighbours_are_runs_and_large_enough(counts: list[int], groups: int) -> None:
    shares = np.array(counts) / sum(counts)
    part = neighbours_together(shares, groups)
    targets = part.targets if isinstance(part, Recode) else tuple(range(len(shares)))
    steps = np.diff(targets)
    assert targets[0] == 0
    assert set(steps.tolist()) <= {0, 1}
    sums = np.bincount(targets, weights=shares)
    is_alone = np.bincount(targets) == 1
    # A run is cut short only by the end or by a value that is large enough alone.
    cut = np.append(np.array([shares[targets.index(g)] for g in range(1, len(sums))]) >= 1 / groups - 1e-12, True)
    assert ((sums >= 1 / groups - 1e-9) | cut | is_alone).all()
    for code, share in enumerate(shares):
        if share >= 1 / groups:
            assert sums[targets[code]] < share + 1 / groups


def test_a_value_with_a_large_share_stays_alone() -> None:
    part = neighbours_together(np.array([0.1, 0.1, 0.6, 0.05, 0.05, 0.1]), 5)
    assert isinstance(part, Recode)
    assert part.targets == (0, 0, 1, 2, 2, 2)


@given(COUNTS, st.integers(0, 60))
def test_rare_values_are_merged_and_no_others(counts: list[int], least: int) -> None:
    part = rare_together(np.array(counts), least)
    rare = [count < least for count in counts]
    if sum(rare) < 2:
        assert part == Identity()
        return
    assert isinstance(part, Recode)
    merged = {target for target, is_rare in zip(part.targets, rare, strict=True) if is_rare}
    others = [target for target, is_rare in zip(part.targets, rare, strict=True) if not is_rare]
    assert merged == {len(others)}
    assert others == list(range(len(others)))
