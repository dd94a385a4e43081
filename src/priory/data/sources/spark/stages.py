"""Stages: how far a job of Spark has come, for whoever waits for it: tasks that are done, never what is in them."""

from __future__ import annotations

import secrets
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from priory.work import meanwhile, reached

if TYPE_CHECKING:
    from collections.abc import Iterator

# How often Spark is asked, in seconds.
PAUSE = 0.5
# The property by which Spark knows which jobs belong together.
GROUP = "spark.jobGroup.id"


@contextmanager
def followed(frame: Any, note: str) -> Iterator[None]:  # noqa: ANN401 - pyspark is optional
    """Report which share of the tasks of the jobs that are started inside is done."""
    with ExitStack() as stack:
        # Some managed clusters let nobody ask. The job is done all the same.
        with suppress(Exception):
            session = frame.sparkSession
            is_connect = ".connect." in type(session).__module__
            stack.enter_context((_of_connect if is_connect else _of_classic)(session, note))
        yield


@contextmanager
def _of_connect(session: Any, note: str) -> Iterator[None]:  # noqa: ANN401 - pyspark is optional
    """The server says itself how far it has come."""

    def heard(stages: Any = (), **_: object) -> None:  # noqa: ANN401 - Spark's own type
        _report([(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()], note)

    session.registerProgressHandler(heard)
    try:
        yield
    finally:
        session.removeProgressHandler(heard)


@contextmanager
def _of_classic(session: Any, note: str) -> Iterator[None]:  # noqa: ANN401 - pyspark is optional
    """The driver is asked from time to time, by a thread that reports as if it were this one."""
    context, group = session.sparkContext, f"priory-{secrets.token_hex(8)}"
    before = context.getLocalProperty(GROUP)

    def ask() -> None:
        # A session that is stopped meanwhile is no matter of progress.
        with suppress(Exception):
            _report(_tasks(context.statusTracker(), group), note)

    context.setLocalProperty(GROUP, group)
    try:
        with meanwhile(ask, lambda: PAUSE):
            yield
    finally:
        context.setLocalProperty(GROUP, before)


def _tasks(tracker: Any, group: str) -> list[tuple[int, int]]:  # noqa: ANN401 - Spark's own type
    """Of each stage of the group's jobs, the tasks that are done and all tasks."""
    jobs = [job for number in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(number))]
    stages = [tracker.getStageInfo(number) for job in jobs for number in job.stageIds]
    return [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage]


def _report(stages: list[tuple[int, int]], note: str) -> None:
    done, tasks = (sum(column) for column in zip(*stages, strict=True)) if stages else (0, 0)
    if tasks:
        reached(done / tasks, f"{note}, {done} of {tasks} tasks")
