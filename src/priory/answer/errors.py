"""Errors: what a release's measurements tell of the errors of its answers; the same whatever is asked."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from priory.answer.intervals import Source, noise_left
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.queries.parts import Identity
from priory.queries.query import Query

# Below half of the noise the error of small answers falls faster than they do, but never below that of a sample: by
# this power. It was read off pairs of Adult (0.3 ± 0.1); with 0 answers of a few records are held too often.
_POWER, _SMALL = 0.3, 0.5
# Answers that were not measured err by so much of what measured ones of their size do beyond a sample, without their
# noise: by all of it on small tables and Adult, by a third on the town.
_UNMEASURED = 0.5
# Marginals of up to so many attributes tell of others.
_COMMON = 2


@dataclass(frozen=True)
class SizeLaw:
    """The mean squared error of answers about so many attributes, by their size.

    An answer of F records has about the error of a sample, a·F, where nothing was measured of it, and of noisy answers
    of variance v no more than a part b of v: together 1/(1/aF + 1/bv), as a mean of both would have.

    Attributes:
        attributes: how many attributes the answers are about.
        stddev: the standard deviation of the noise of measured answers about so many, on average.
        excess: a, how many times the error of a sample of all records is what the model errs by; at least 1.
        part: b, the part of the noise that is left in measured answers.
    """

    attributes: int
    stddev: float
    excess: float
    part: float

    def prior(self, answers: Array) -> Array:
        """The mean squared error of answers of which nothing was measured."""
        if self.attributes < 2:
            return np.asarray(self.excess * answers)
        small = np.minimum(answers / (_SMALL * self.stddev), 1.0) ** _POWER
        return np.asarray((1 + (self.excess - 1) * small) * answers)

    def of_unmeasured(self, misfit: float) -> "SizeLaw":
        """The law of answers that were not measured, which may err by this misfit or more."""
        return replace(self, excess=max(1 + _UNMEASURED * (self.excess - 1), misfit))

    def __call__(self, answers: Array, variance: Array | float) -> Array:
        """The mean squared error of answers that were measured with noise of this variance."""
        prior, noise = self.prior(answers), self.part * np.asarray(variance)
        return np.asarray(prior * noise / np.maximum(prior + noise, 1e-300))


@dataclass(frozen=True, eq=False)
class Errors:
    """What the measurements tell of the errors of answers.

    Attributes:
        temperature: at which the model responds to its answers.
        total: how many records there are.
        laws: the error of answers by their size, for each number of attributes that was measured.
        has_all_pairs: whether all pairs of attributes were measured, so that larger marginals are tied to them.
        least: answers below so many records err as if they were so large: where a model is made of rows, a combination
            that no row has may be in half a record for each record that a row stands for.
        misfit: how far the model is at most from marginals that were not measured: the least squared error, for each
            record, of measured ones that are left out; 0 where all pairs were measured.
    """

    temperature: float
    total: float
    laws: tuple[SizeLaw, ...]
    has_all_pairs: bool
    least: float = 0.0
    misfit: float = 0.0

    def plain(self) -> dict[str, object]:
        """As numbers and lists, to be kept as JSON."""
        return asdict(self)

    @classmethod
    def of_plain(cls, found: Mapping[str, Any]) -> "Errors":
        """From what was kept; what cannot be right is a `ValueError`, `KeyError` or `TypeError`."""
        laws = tuple(SizeLaw(**each) for each in found["laws"])
        errors = cls(
            float(found["temperature"]),
            float(found["total"]),
            laws,
            bool(found["has_all_pairs"]),
            float(found["least"]),
            float(found["misfit"]),
        )
        numbers = [errors.temperature, *(n for law in laws for n in (law.stddev, law.excess, law.part))]
        if not all(number > 0 for number in numbers) or not min(errors.misfit, errors.least) >= 0:
            raise ValueError("errors are positive")
        return errors

    def hidden(
        self,
        query: Query,
        answer: Array,
        repeats: Array,
        *,
        growth: Array,
        source: Source,
        measurements: Iterable[Measurement],
    ) -> Array:
        """The standard deviation of what redraws do not show of an answer; NaN where nothing is known.

        Args:
            query: what was asked.
            answer: the model's answers.
            repeats: those of redraws, one more axis in front.
            growth: the part by which all records grow in these redraws, or in more of them: that is no error of cells.
            source: where the answers come from.
            measurements: those whose attributes include the query's, at least.
        """
        # Of the number of rows alone a model assumes nothing.
        if not query.clique:
            return np.zeros(answer.shape)
        # Where no two attributes were measured together, nothing tells how they depend on each other.
        if not any(source == "measured" or law.attributes > 1 for law in self.laws):
            return np.full(answer.shape, np.nan)
        variance = self._variance(query, answer, source, measurements)
        grown = np.multiply.outer(1 + growth[: len(repeats)], answer)
        shown = np.mean((repeats - grown) ** 2, axis=0) if len(repeats) else 0.0
        return np.asarray(np.sqrt(np.maximum(variance - shown, 0.0)))

    def _law(self, attributes: int, source: Source) -> SizeLaw:
        """The law of answers about so many attributes: that of those which were measured and are most like them."""
        if source == "measured":
            return min(self.laws, key=lambda each: (abs(each.attributes - attributes), each.attributes))
        common = [law for law in self.laws if law.attributes <= _COMMON] or self.laws[:1]
        # Where not all pairs were measured, those that were are the ones that stood out.
        law = common[-1] if self.has_all_pairs else min(common, key=lambda each: each.excess)
        return law.of_unmeasured(self.misfit)

    def _variance(self, query: Query, answer: Array, source: Source, measurements: Iterable[Measurement]) -> Array:
        """The mean squared error of an answer by its size: weights of cells count as a number of cells would."""
        law = self._law(len(query.clique), source)
        scale, norm = _scales(query)
        size = np.abs(answer) / scale
        size = np.maximum(size * np.clip(1 - size / self.total, 0.0, 1.0), self.least)
        holding = [m for m in measurements if set(query.clique) <= set(m.query.clique)]
        if source == "measured" and holding:
            variance = np.min([noise_left(query, m) for m in holding], axis=0) ** 2
        elif self.has_all_pairs:
            variance = norm * law.stddev**2
        else:
            return np.asarray(scale**2 * law.prior(size))
        return np.asarray(scale**2 * law(size, variance / scale**2))


def _scales(query: Query) -> tuple[Array, Array]:
    """Of each answer Σ w²/Σ |w| and Σ w² over the weights w of the cells that it adds up."""
    scale, norm = np.ones(()), np.ones(())
    for part, size in zip(query.parts, query.domain.shape, strict=True):
        if isinstance(part, Identity):
            squares, sums = np.ones(size), np.ones(size)
        else:
            matrix = np.abs(part.matrix(size).astype(np.float64))
            squares, sums = np.sum(matrix**2, axis=1), np.sum(matrix, axis=1)
        scale = np.multiply.outer(scale, np.divide(squares, sums, out=np.ones_like(sums), where=sums > 0))
        norm = np.multiply.outer(norm, squares)
    return scale, norm


# Of the noise about a third is left in measured answers, and an answer of about three standard deviations of it is
# known half by its noise and half by what the model says without it: so it was on all tables that were looked at,
# within a factor of two or three. It is what is taken where there are too few answers to tell.
_PART, _BALANCE, _WITHIN = 0.35, 3.0, 0.7
# Standard errors that are added. With none one-way answers of 2,000 rows of the town were held 0.75 of the time at
# ε = 1, with a half 0.83, with a whole one 0.89, but 0.975 at ε = 0.1.
_CAUTION = 0.5
_GRID = np.linspace(-3.0, 3.0, 41) * _WITHIN


def law_of(attributes: int, sizes: Array, errors: Array, stddevs: Array, weights: Array) -> SizeLaw:
    """The law that groups of answers follow, where few of them tell the usual one.

    Args:
        attributes: how many attributes they are about.
        sizes: the mean size of the answers of each group, in records.
        errors: their estimated mean squared error, in units of the noise variance.
        stddevs: the standard deviation of their noise.
        weights: one over the variance of `errors`.
    """
    stddev = float(np.sqrt(np.average(stddevs**2)))
    part, balance = (np.exp(grid) for grid in np.meshgrid(_GRID + math.log(_PART), _GRID + math.log(_BALANCE)))
    log_chance = -0.5 * ((np.log(part / _PART) / _WITHIN) ** 2 + (np.log(balance / _BALANCE) / _WITHIN) ** 2)
    excess = np.maximum(part * stddev / balance, 1.0)
    for size, error, noise, weight in zip(sizes, errors, stddevs, weights, strict=True):
        small = 1.0 if attributes < 2 else min(1.0, size / (_SMALL * stddev)) ** _POWER
        prior, left = (1 + (excess - 1) * small) * size / noise**2, part
        log_chance -= 0.5 * weight * (error - prior * left / (prior + left)) ** 2
    chance = np.exp(log_chance - log_chance.max())
    chance /= chance.sum()
    found = (_upper(np.log(each), chance) for each in (excess, part))
    return SizeLaw(attributes, stddev, *found)


def _upper(logs: Array, chance: Array) -> float:
    """What a number is likely to be, by its logarithms, with a part of its standard error added.

    An interval that is too wide does less harm than one that is too narrow.
    """
    mean = float(np.sum(chance * logs))
    return math.exp(mean + _CAUTION * math.sqrt(float(np.sum(chance * (logs - mean) ** 2))))


def has_all_pairs(names: Sequence[str], measurements: Iterable[Measurement]) -> bool:
    """Whether each pair of attributes is in a measurement, on its cells or on sums of them."""
    together = {frozenset((a, b)) for m in measurements for a in m.query.clique for b in m.query.clique if a != b}
    return len(together) == math.comb(len(names), 2)
