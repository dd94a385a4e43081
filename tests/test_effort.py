import pytest

from houses import curated, random_rows
from priory.errors import OptionError
from priory.mechanisms.aim import AIM
from priory.mechanisms.mst import MST
from priory.mechanisms.prior import Prior
from priory.mechanisms.steps.effort import EFFORTS, at_effort
from priory.privacy.budget import Budget

RHO = Budget.zcdp("1/10")


def test_effort_moves_the_caps_and_nothing_else() -> None:
    low, normal, high = (at_effort(AIM(), effort) for effort in EFFORTS)
    assert low.model_cells < normal.model_cells < high.model_cells
    assert low.most_candidates < normal.most_candidates < high.most_candidates
    assert (low.rounds, low.choosing, low.one_ways) == (normal.rounds, normal.choosing, normal.one_ways)
    assert at_effort(Prior(), "low").searched < Prior().searched < at_effort(Prior(), "high").searched


def test_a_mechanism_without_caps_and_a_wrong_word_are_refused() -> None:
    assert isinstance(at_effort(MST(), "normal"), MST)
    with pytest.raises(OptionError):
        at_effort(MST(), "low")
    with pytest.raises(OptionError):
        at_effort(AIM(), "enormous")


@pytest.mark.parametrize("effort", EFFORTS)
def test_all_is_spent_whatever_the_effort(effort: str) -> None:
    with curated(RHO, random_rows()) as curator:
        release = at_effort(AIM(), effort).run(curator, RHO)
        assert curator.left == 0
    assert release.model.total > 0
