from pathlib import Path

import pytest

from houses import curated, random_rows
from priory.app.fit import fit
from priory.app.recovery import recover
from priory.data.schema import Schema
from priory.errors import NOTHING_SPENT, OptionError
from priory.mechanisms.aim import AIM
from priory.mechanisms.mst import MST
from priory.mechanisms.steps.effort import EFFORTS, at_effort
from priory.mechanisms.weighing import Weighing
from priory.privacy.budget import Budget
from priory.privacy.progress import Step
from priory.privacy.statement import Statement
from priory.release import load
from priory.release.partial import Partial

RHO = Budget.zcdp("1/10")


def test_effort_moves_the_caps_and_nothing_else() -> None:
    low, normal, high = (at_effort(AIM(), effort) for effort in EFFORTS)
    assert low.model_cells < normal.model_cells < high.model_cells
    assert low.most_candidates < normal.most_candidates < high.most_candidates
    assert (low.rounds, low.choosing, low.one_ways) == (normal.rounds, normal.choosing, normal.one_ways)
    works = [at_effort(Weighing(), effort).work for effort in EFFORTS]
    assert works[1] == Weighing().work
    for cap in ("rows", "most_rows", "places", "cells"):
        assert getattr(works[0], cap) < getattr(works[1], cap) < getattr(works[2], cap)


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


def test_a_release_says_with_which_effort_it_was_made(tmp_path: Path) -> None:
    usual, low = (_fitted(tmp_path / f"{effort}.priory", effort) for effort in ("normal", "low"))
    assert usual.effort == ""
    assert "effort" not in str(usual)
    assert low.effort == "low"
    assert "mechanism: aim, low effort" in str(low)
    assert load(tmp_path / "low.priory").statement == low
    # A word that is none is refused before anything is paid.
    with pytest.raises(OptionError) as caught:
        _fitted(tmp_path / "other.priory", "enormous")
    assert caught.value.spent == NOTHING_SPENT


def _fitted(path: Path, effort: str) -> Statement:
    source = random_rows()
    schema = Schema.coded(dict(zip(source.domain.attributes, source.domain.shape, strict=True)))
    return fit(source, schema, rho=1, mechanism="aim", effort=effort, output=path).statement


def test_a_run_that_ended_early_keeps_its_effort(tmp_path: Path) -> None:
    source = random_rows()
    schema = Schema.coded(dict(zip(source.domain.attributes, source.domain.shape, strict=True)))

    def stop(step: Step) -> None:
        if step.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(source, schema, rho=1, mechanism="aim", effort="low", output=tmp_path / "a.priory", progress=stop)
    left = Partial.load(tmp_path / "a.priory.partial")
    assert left.job.effort == "low"
    assert recover(left).statement.effort == "low"
