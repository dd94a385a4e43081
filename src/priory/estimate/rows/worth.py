"""Worth: how many records m rows count for, as noisy answers say.

Of rows that were drawn nothing is known beforehand: by moments, what answers differ from them by beyond their noise is
what a sample of m records would differ by, and Stein's estimate of the error decides between multiples of that. Rows
that are a sample of known size count for as many records as they are, or for fewer where that surely has less error.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from priory.estimate.rows.answers import Answers
from priory.estimate.rows.weights import RowFits, Weights
from priory.work import reached

# What whoever waits is told.
WORDS = "weighing rows"
# Rows never count for more than so many times the records.
MOST_TEMPERATURE = 1000.0
# Of fits whose errors differ by less than this part, the one that stays closest to the rows is taken: it has less noise
# in small cells, which count little in squares of errors.
CLOSE = 0.03
# Where rows are a sample, each number of records is this times the next, down to so many, or to this part of them.
STEP = 10**0.5
LEAST, LEAST_PART = 10.0, 0.01
# A sample counts for fewer records where that gains more than so many standard errors of its own.
CAUTION = 2.0


@dataclass(frozen=True, eq=False)
class Judged:
    """A fit, and what is known of its error."""

    fit: Weights
    part: float  # of the number of records that the search began with; infinite for the rows as they came
    error: float  # Stein's estimate, in units of the noise variance
    degrees_of_freedom: float = 0.0


def by_moments(fits: RowFits, most: int) -> Judged:
    """The fit of least estimated error at the likely number of records, at twice it, and on at four times or half."""
    likely, base = likely_records(fits), _as_they_came(fits)
    if not likely > 0:
        # All rows are in the same cells: no weights change an answer.
        return base

    found = [_judged(fits, likely, 2.0, base, most)]
    reached(1 / 3, WORDS)
    found.append(_judged(fits, likely, 1.0, found[0], most))
    reached(2 / 3, WORDS)
    is_colder = found[1].error < found[0].error
    part, near = (0.5, found[1]) if is_colder else (4.0, found[0])
    found.append(_judged(fits, likely, part, near, most))
    least = min(each.error for each in found)
    if base.error <= least:
        return base
    return max((each for each in found if each.error <= least + CLOSE * abs(least)), key=lambda each: each.part)


def of_samples(every: Sequence[RowFits], records: float, most: int) -> list[Judged]:
    """The fits where all samples count for the same number of records: at most so many, fewer where that surely helps.

    Where the samples as they came surely have less error, they stay so.
    """
    unmoved = [_as_they_came(fits) for fits in every]
    best = last = [_judged(fits, records, 1.0, base, most) for fits, base in zip(every, unmoved, strict=True)]
    part, least = 1.0, min(LEAST / records, LEAST_PART)
    while part > least:
        part /= STEP
        last = [_judged(fits, records, part, near, most) for fits, near in zip(every, last, strict=True)]
        if _are_surely_better(every, last, best):
            best = last
        elif _error(last) > _error(best):
            break
    return unmoved if _are_surely_better(every, unmoved, best) else best


def likely_records(fits: RowFits) -> float:
    """By moments: what answers differ from the rows by, beyond their noise, is what a sample of m records would.

    A sample's counts n·q differ from those of its population by n·Var(q)·n/m in the mean square. The difference beyond
    noise is taken two standard errors larger: that fits hardly any noise, and rows that are no good are left.
    """
    answers, base = fits.answers, fits.start(0.0)
    counts = answers.predicted(base.shares)
    spread = float(answers.dot(counts * (1 - counts / answers.total), answers.precision))
    beyond = base.misfit - answers.size + 2 * math.sqrt(2 * answers.size)
    return answers.total * spread / max(beyond, spread / MOST_TEMPERATURE, 1e-300)


def _as_they_came(fits: RowFits) -> Judged:
    base = fits.start(0.0)
    return Judged(base, math.inf, base.misfit - fits.answers.size)


def _judged(fits: RowFits, records: float, part: float, near: Judged, most: int) -> Judged:
    """The fit at a part of so many records, searched for from a nearby one."""
    fit = fits.fitted(fits.at(near.fit.logs, part * records), most)
    degrees = fits.degrees_of_freedom(fit, random_signs(fits.answers))
    return Judged(fit, part, fit.misfit - fits.answers.size + 2 * degrees, degrees)


def random_signs(answers: Answers) -> Any:  # noqa: ANN401
    """Random signs, always the same ones: what they say of two fits can be compared."""
    return answers.tensor(np.random.default_rng(0).choice([-1.0, 1.0], len(answers.values)))


def _are_surely_better(every: Sequence[RowFits], these: Sequence[Judged], those: Sequence[Judged]) -> bool:
    """Whether these fits have less error than those, by more than some standard errors of the difference."""
    moved = degrees = 0.0
    for fits, one, other in zip(every, these, those, strict=True):
        apart = fits.answers.predicted(one.fit.shares) - fits.answers.predicted(other.fit.shares)
        moved += float(fits.answers.dot(apart * apart, fits.answers.precision))
        degrees += abs(one.degrees_of_freedom - other.degrees_of_freedom)
    return _error(those) - _error(these) > CAUTION * math.sqrt(4 * moved + 8 * degrees)


def _error(fits: Sequence[Judged]) -> float:
    return sum(each.error for each in fits)
