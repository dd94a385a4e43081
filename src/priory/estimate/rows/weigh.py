"""Weigh: the weights of rows by noisy answers, which say themselves how many records the rows count for.

By moments, what answers differ from the rows by beyond their noise is what a sample of m records would differ by;
Stein's estimate of the error decides between multiples of that. Where rows times answers are very many, the multiple is
found on fewer of the rows. It is the same for public rows, for rows drawn from a model, and for a mixture of both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from priory.estimate.rows.answers import Answers, RowAnswers
from priory.estimate.rows.device import DeviceAnswers
from priory.estimate.rows.weights import RowFits, Weights, random_signs
from priory.model.bases import PublicRows
from priory.model.diagnostics import Diagnostics, ScheduledLevel
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.work import reached, stage

# How models say that they were found so; files of version 0.1 have the second for public rows.
WEIGHED, POSTERIOR = "weighed", "posterior"
# Rows may be unable to meet answers exactly: noise below a row is taken for a row.
LEAST_STDDEV = 1.0
# What whoever waits is told.
_WORDS = "weighing rows"
# Rows never count for more than so many times the records.
MOST_TEMPERATURE = 1000.0
# Of fits whose errors differ by less than this part, the one that stays closest to the rows is taken: it has less noise
# in small cells, which count little in squares of errors.
CLOSE = 0.03
# Public rows are left where that gains more than so many standard errors of its own.
CAUTION = 2.0
# How many places, rows times queries, the search for m goes over; more rows are thinned for it.
SEARCHED = 20_000_000
# Calls that one fit may take, where they are small, and how many places all of its calls may go over.
_MOST_CALLS, _LEAST_CALLS, _PLACES = 300, 90, 6_000_000_000


def weighed(
    measurements: Sequence[Measurement],
    base: PublicRows,
    total: float,
    *,
    caution: float = 0.0,
    searched: int = SEARCHED,
    device: str | None = None,
) -> Model:
    """The most likely model of weighed rows, where the answers say how many records the rows count for.

    Args:
        measurements: what they are weighed by.
        base: the rows.
        total: how many records they stand for.
        caution: how many standard errors of its own what is gained must exceed for the rows not to stay as they came.
        searched: how many places, rows times queries, the search for m goes over.
        device: a device of torch on which they are fitted, such as "cuda"; without one on the CPU.
    """
    part = base.thinned(max(1, searched // len(measurements)))
    search = _fits(measurements, part, total, device)
    # Three fits to a part of the rows, and one to all of them where these are more.
    searching = 3 * len(part.codes)
    with stage(0.0, searching / (searching + (0 if part is base else len(base.codes))), _WORDS):
        found = _of_least_error(search, _most_calls(len(part.codes), len(measurements)), caution)
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


def mixture(
    public: PublicRows, drawn: PublicRows, measurements: Sequence[Measurement], total: float
) -> tuple[PublicRows, float]:
    """Public and drawn rows as one set, and the share of the public ones, with which they meet answers best.

    The answers are none by which either was made: F and D are off them by their own errors and the same noise, so that
    the share w of least ‖(wF + (1 − w)D − y)/σ‖² is unbiased. Without answers the public ones are all there is.
    """
    if not measurements:
        return public, 1.0
    of_public, of_drawn = (_excess(rows, measurements, total) for rows in (public, drawn))
    apart = of_public - of_drawn
    square = float(apart @ apart)
    # The share of the drawn ones has a standard error of 1/√‖F − D‖²; what it is beyond that is believed.
    of_the_drawn = min(max(float(of_public @ apart) / square, 0.0), 1.0) if square > 0 else 0.0
    share = 1 - of_the_drawn * max(0.0, 1 - CAUTION**2 / max(of_the_drawn**2 * square, 1e-300))
    if share in (0.0, 1.0):
        return (public if share else drawn), share
    codes = np.concatenate([public.codes, drawn.codes])
    weights = np.concatenate([share * public.shares, (1 - share) * drawn.shares])
    return PublicRows(codes, public.domain, weights), share


def _excess(rows: PublicRows, measurements: Sequence[Measurement], total: float) -> Array:
    """By how many standard deviations of the noise the answers of rows exceed noisy ones."""
    answers = Model.of(rows, {}, total).answers([m.query for m in measurements])
    each = zip(answers, measurements, strict=True)
    return np.concatenate([np.ravel((answer - m.values) / m.stddev) for answer, m in each])


@dataclass(frozen=True, eq=False)
class _Found:
    """A fit, and what is known of its error."""

    fit: Weights
    multiple: float | None  # of the likely number of records; None for the rows as they came
    error: float  # Stein's estimate, in units of the noise variance
    degrees_of_freedom: float = 0.0


def _fits(measurements: Sequence[Measurement], rows: PublicRows, total: float, device: str | None) -> RowFits:
    logs = np.log(rows.shares)
    if device is None:
        return RowFits(RowAnswers.of(measurements, rows, total), logs)
    answers = DeviceAnswers(measurements, rows, total, device=device)
    return RowFits(answers, answers.tensor(logs))


def _as_array(shares: Any) -> Array:  # noqa: ANN401
    return np.asarray(shares if isinstance(shares, np.ndarray) else shares.cpu().numpy(), dtype=np.float64)


def _of_least_error(fits: RowFits, most: int, caution: float) -> _Found:
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
    least = min(found[1:], key=lambda each: each.error)
    moved = answers.predicted(least.fit.shares) - answers.predicted(base.shares)
    squares = float(answers.dot(moved * moved, answers.precision))
    if as_they_came.error - least.error <= caution * math.sqrt(4 * squares + 8 * least.degrees_of_freedom):
        return as_they_came
    close = [each for each in found[1:] if each.error <= least.error + CLOSE * abs(least.error)]
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
        reason="The rows weigh as much as the noisy answers bear them out.",
        estimated_error=math.sqrt(max(found.error, 0.0) / size),
        schedule=(ScheduledLevel(tuple(range(queries)), temperatures),),
        degrees_of_freedom=found.degrees_of_freedom,
    )
