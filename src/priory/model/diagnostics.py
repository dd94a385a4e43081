"""Diagnostics: how a model was found, as plain data that travels with it."""

import math
from dataclasses import dataclass
from typing import Any

from priory.errors import MissingExtra
from priory.queries.factor import Array
from priory.queries.query import Query


@dataclass(frozen=True)
class PathPoint:
    """One model on the way from the base to the estimate."""

    level: int  # which round of evidence, from coarse to fine, it belongs to; from 0
    step: int  # the step within that round
    calls: int  # how many times the oracle had been called by then
    loss: float  # the loss on that round's evidence
    discrepancy: float  # the mean square of (Qμ − y)/σ; about 1 where the fit is as far from y as the truth is
    error: float  # the estimated mean square of (Qμ − truth)/σ; NaN where it was not estimated
    temperature: float  # the weight of relative entropy in that step, where the solver has one
    is_chosen: bool = False  # whether the next round, or the answer, started from here


@dataclass(frozen=True)
class ScheduledLevel:
    """The steps taken on one level."""

    members: tuple[int, ...]  # the numbers of the queries that were looked at
    temperatures: tuple[float, ...]  # the temperature of each step up to the chosen one
    is_implied: bool = False  # whether these are numbers of the one-way marginals that the measured ones imply
    share: float = 1.0  # how much of the last step was taken


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """How an estimate was reached."""

    solver: str  # which solver
    stop: str  # "fission" or "converged"
    reason: str  # why it stopped, in a sentence
    has_converged: bool = True  # whether it stopped because it was meant to, rather than for lack of steps
    path: tuple[PathPoint, ...] = ()  # the points it passed, coarse evidence first
    estimated_error: float = math.nan  # root mean square error of the measured answers, in units of noise; NaN: unknown
    oracle_calls: int = 0  # how many calls of the oracle it took
    total_stddev: float = 0.0  # the standard deviation of the estimated total; 0 where the total was given
    pace: float = 0.0  # the length of the solver's last steps, in its own measure, for a later estimate; or 0
    notes: tuple[str, ...] = ()  # what a careful reader should know, in sentences
    schedule: tuple[ScheduledLevel, ...] = ()  # the steps taken, level by level, to be repeated on other answers
    multipliers: tuple[tuple[Query, Array, Array], ...] = ()  # a later estimate's start: fit, perturbed fit
    degrees_of_freedom: float = math.nan  # those that the fit has used, estimated; NaN where they were not estimated

    def plot(self) -> Any:  # noqa: ANN401 - altair has no types
        """A chart, by altair, of the discrepancy and the estimated error along the path, the chosen points marked."""
        try:
            import altair as alt
        except ImportError:
            raise MissingExtra("altair", "priory[report]") from None
        rows = [
            {"oracle calls": p.calls, "level": str(p.level), "what": what, "per answer": value, "chosen": p.is_chosen}
            for p in self.path
            for what, value in (("discrepancy", p.discrepancy), ("estimated error", p.error))
            if value > 0
        ]
        line = alt.Chart(alt.Data(values=rows)).encode(
            x=alt.X("oracle calls:Q"), y=alt.Y("per answer:Q", scale=alt.Scale(type="log")), color="what:N"
        )
        chosen = line.transform_filter("datum.chosen").mark_point(size=90, filled=True)
        return line.mark_line().encode(detail="level:N") + chosen
