import os

import pytest

from priory import cores


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(cores, "_quota", lambda: 64)
    for name in cores.LIMITS:
        monkeypatch.delenv(name, raising=False)


def test_threads_follow_the_cores_there_are() -> None:
    assert cores.available() == 4


@pytest.mark.parametrize(("text", "threads"), [("1", 1), ("3", 3), ("9", 4), ("0", 1), ("many", 4)])
@pytest.mark.parametrize("name", cores.LIMITS)
def test_a_limit_that_people_set_is_kept(name: str, text: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    assert cores.available() == threads


def test_a_container_has_no_more_than_its_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_quota", lambda: 2)
    assert cores.available() == 2
