import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from priory.queries.parts import Identity, Recode
from priory.select.merging import rare_together

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=30).filter(any)


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
