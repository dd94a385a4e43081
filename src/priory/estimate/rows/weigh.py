"""Weigh: the weights of rows by noisy answers, which say themselves how many records the rows count for.

It is the same for public rows, for rows drawn from a model, and for a mixture of both. Where rows times answers are
very many, what rows are worth is found on fewer of them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from priory.estimate.rows.answers import RowAnswers
from priory.estimate.rows.device import DeviceAnswers
from priory.estimate.rows.weights import RowFits, Weights
from priory.estimate.rows.worth import CAUTION, WORDS, Judged, by_moments, likely_records, of_samples
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
# How many places, rows times queries, the search for what rows are worth goes over; more rows are thinned for it.
SEARCHED = 20_000_000
# Calls that one fit may take, where they are small, and how many places all of its calls may go over.
_MOST_CALLS, _LEAST_CALLS, _PLACES = 300, 90, 6_000_000_000


def weighed(
    measurements: Sequence[Measurement],
    base: PublicRows,
    total: float,
    *,
    records: float = math.inf,
    searched: int = SEARCHED,
    device: str | None = None,
) -> Model:
    """The most likely model of weighed rows, where the answers say how many records m the rows count for.

    Args:
        measurements: what they are weighed by.
        base: the rows.
        total: how many records they stand for.
        records: of how many records the rows are a sample; infinite where they are none.
        searched: how many places, rows times queries, the search for m goes over.
        device: a device of torch on which they are fitted, such as "cuda"; without one on the CPU.
    """
    part = base.thinned(max(1, searched // len(measurements)))
    search, is_sample = _fits(measurements, part, total, device), math.isfinite(records)
    most = _most_calls(len(part.codes), len(measurements))
    # About three fits to a part of the rows, and one to all of them where these are more.
    searching = 3 * len(part.codes)
    with stage(0.0, searching / (searching + (0 if part is base else len(base.codes))), WORDS):
        of_part = records * len(part.codes) / len(base.codes)
        found = of_samples([search], of_part, most)[0] if is_sample else by_moments(search, most)
    fit = found.fit
    if part is not base and math.isfinite(found.part):
        reached(searching / (searching + len(base.codes)), WORDS)
        fits = _fits(measurements, base, total, device)
        worth = found.part * (records if is_sample else likely_records(fits))
        fit = fits.fitted(fits.start(worth), _most_calls(len(base.codes), len(measurements)))
    shares = _as_array(fit.shares) if math.isfinite(found.part) else base.shares
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


def _fits(measurements: Sequence[Measurement], rows: PublicRows, total: float, device: str | None) -> RowFits:
    logs = np.log(rows.shares)
    if device is None:
        return RowFits(RowAnswers.of(measurements, rows, total), logs)
    answers = DeviceAnswers(measurements, rows, total, device=device)
    return RowFits(answers, answers.tensor(logs))


def _as_array(shares: Any) -> Array:  # noqa: ANN401
    return np.asarray(shares if isinstance(shares, np.ndarray) else shares.cpu().numpy(), dtype=np.float64)


def _most_calls(rows: int, queries: int) -> int:
    return min(_MOST_CALLS, max(_LEAST_CALLS, _PLACES // max(1, rows * queries)))


def _diagnostics(found: Judged, fit: Weights, size: int, queries: int, total: float) -> Diagnostics:
    """How the model was found, by which its intervals can be drawn."""
    temperatures = (fit.records / total,) if math.isfinite(found.part) else ()
    return Diagnostics(
        solver="RowFits",
        stop=WEIGHED,
        reason="The rows weigh as much as the noisy answers bear them out.",
        estimated_error=math.sqrt(max(found.error, 0.0) / size),
        schedule=(ScheduledLevel(tuple(range(queries)), temperatures),),
        degrees_of_freedom=found.degrees_of_freedom,
    )
