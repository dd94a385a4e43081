"""Weighed rows: rows of a model that was bought, weighted by everything that is not in it.

Nobody knows how many records m such rows are worth: the answers say it. By moments, what they differ from the rows by
beyond their noise is what a sample of m records would differ by; Stein's estimate of the error decides between
multiples of that. Where rows times answers are very many, the multiple is found on fewer of the rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from priory.estimate.prior_strength import AS_BORNE_OUT
from priory.estimate.row_answers import Answers, RowAnswers
from priory.estimate.row_device import DeviceAnswers
from priory.estimate.row_weights import RowFits, Weights, random_signs
from priory.model.bases import PublicRows
from priory.model.diagnostics import Diagnostics, ScheduledLevel
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.work import reached, stage

WEIGHED = "weighed"
# What whoever waits is told.
_WORDS = "weighing rows"
# A bought model is never worth more than so many times the records.
MOST_TEMPERATURE = 1000.0
# Of fits whose errors differ by less than this part, the one that stays closest to the rows is taken: it has less noise
# in small cells, which count little in squares of errors.
CLOSE = 0.03
# How many places, rows times queries, the search for m goes over; more rows are thinned for it.
SEARCHED = 20_000_000
# Calls that one fit may take, where they are small, and how many places all of its calls may go over.
_MOST_CALLS, _LEAST_CALLS, _PLACES = 300, 90, 6_000_000_000


def weighed(
    measurements: Sequence[Measurement],
    base: PublicRows,
    total: float,
    *,
    searched: int = SEARCHED,
    device: str | None = None,
) -> Model:
    """The most likely model of weighted rows, where the answers say how many records the rows are worth.

    Args:
        measurements: what they are weighted by.
        base: the rows.
        total: how many records they stand for.
        searched: how many places, rows times queries, the search for their worth goes over.
        device: a device of torch on which they are fitted, such as "cuda"; without one on the CPU.
    """
    part = base.thinned(max(1, searched // len(measurements)))
    search = _fits(measurements, part, total, device)
    # Three fits to a part of the rows, and one to all of them where these are more.
    searching = 3 * len(part.codes)
    with stage(0.0, searching / (searching + (0 if part is base else len(base.codes))), _WORDS):
        found = _of_least_error(search, _most_calls(len(part.codes), len(measurements)))
    if part is base or found.multiple is None:
        fit = found.fit
    else:
        reached(searching / (searching + len(base.codes)), _WORDS)
        fits = _fits(measurements, base, total, device)
        records = found.multiple * _likely_records(fits.answers, fits.start(0.0))
        fit = fits.fitted(fits.start(records), _most_calls(len(base.codes), len(measurements)))
    shares = base.shares if found.multiple is None else _as_array(fit.shares)
    diagnostics = _diagnostics(found, fit, search.answers.size, len(measurements), total)
    return replace(Model.of(base.with_shares(shares), {}, total), diagnostics=diagnostics)


@dataclass(frozen=True, eq=False)
class _Found:
    """A fit, and what is known of its error."""

    fit: Weights
    multiple: float | None  # of the likely number of records; None for the rows as they came
    error: float  # Stein's estimate, in units of the noise variance
    degrees_of_freedom: float = 0.0


def _fits(
    measurements: Sequence[Measurement],
    rows: PublicRows,
    total: float,
    device: str | None,
) -> RowFits:
    logs = np.log(rows.shares)
    if device is None:
        return RowFits(RowAnswers.of(measurements, rows, total), logs)
    answers = DeviceAnswers(measurements, rows, total, device=device)
    return RowFits(answers, answers.tensor(logs))


def _as_array(shares: Any) -> Array:  # noqa: ANN401
    return np.asarray(shares if isinstance(shares, np.ndarray) else shares.cpu().numpy(), dtype=np.float64)


def _of_least_error(fits: RowFits, most: int) -> _Found:
    """The fit of least estimated error at the likely number of records, at twice it, and on at four times or half."""
    answers = fits.answers
    signs = answers.tensor(random_signs(len(answers.values)))
    base = fits.start(0.0)
    likely = _likely_records(answers, base)
    as_they_came = _Found(base, None, base.misfit - answers.size)
    if not likely > 0:
        # All rows are in the same cells: no weights change an answer.
        return as_they_came

    def at(multiple: float, near: Weights) -> _Found:
        fit = fits.fitted(fits.at(near.logs, multiple * likely), most)
        degrees = fits.degrees_of_freedom(fit, signs)
        return _Found(fit, multiple, fit.misfit - answers.size + 2 * degrees, degrees)

    found = [as_they_came, at(2.0, base)]
    reached(1 / 3, _WORDS)
    found.append(at(1.0, found[1].fit))
    reached(2 / 3, _WORDS)
    is_colder = found[2].error < found[1].error
    found.append(at(0.5, found[2].fit) if is_colder else at(4.0, found[1].fit))
    least = min(found, key=lambda each: each.error)
    if least.multiple is None:
        return least
    close = [each for each in found if each.multiple and each.error <= least.error + CLOSE * abs(least.error)]
    return max(close, key=lambda each: each.multiple or 0.0)


def _likely_records(answers: Answers, base: Weights) -> float:
    """By moments: what answers differ from the rows by, beyond their noise, is what a sample of m records would.

    A sample's counts n·q differ from those of its population by n·Var(q)·n/m in the mean square. The difference beyond
    noise is taken two standard errors larger: that fits hardly any noise, and rows that are no good are left.
    """
    counts = answers.predicted(base.shares)
    spread = float(answers.dot(counts * (1 - counts / answers.total), answers.precision))
    beyond = base.misfit - answers.size + 2 * math.sqrt(2 * answers.size)
    return answers.total * spread / max(beyond, spread / MOST_TEMPERATURE, 1e-300)


def _most_calls(rows: int, queries: int) -> int:
    return min(_MOST_CALLS, max(_LEAST_CALLS, _PLACES // max(1, rows * queries)))


def _diagnostics(found: _Found, fit: Weights, size: int, queries: int, total: float) -> Diagnostics:
    """How the model was found, by which its intervals can be drawn."""
    temperatures = () if found.multiple is None else (fit.records / total,)
    return Diagnostics(
        solver="RowFits",
        stop=WEIGHED,
        reason=f"The drawn rows {AS_BORNE_OUT}",
        estimated_error=math.sqrt(max(found.error, 0.0) / size),
        schedule=(ScheduledLevel(tuple(range(queries)), temperatures),),
        degrees_of_freedom=found.degrees_of_freedom,
    )
