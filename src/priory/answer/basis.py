"""Basis: what answers rest on, and sums of product queries with their intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.answer.intervals import Interval, Source, intervals, source_of
from priory.data.schema import Schema
from priory.errors import OptionError, SizeError
from priory.factor import Array
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.query import Query

MOST_CELLS = 10_000_000
_RANK: tuple[Source, ...] = ("measured", "inferred", "prior")
# Draws of a million cells each would take gigabytes.
_DRAWN_CELLS = 40_000_000


@dataclass(frozen=True, eq=False)
class Term:
    """A product query whose answers are multiplied and laid out anew, so that those of several can be added up.

    Attributes:
        query: the query.
        scale: what its answers are multiplied by.
        first: the attributes whose axes come first, in this order; all others become one axis after them. None leaves
            the answers as they are.
    """

    query: Query
    scale: Array | float = 1.0
    first: tuple[str, ...] | None = None

    def laid(self, answers: Array) -> Array:
        """The query's answers as this term's."""
        answers = np.asarray(answers * self.scale)
        if self.first is None:
            return answers
        axes = [self.query.clique.index(name) for name in self.first]
        rest = [i for i in range(answers.ndim) if i not in axes]
        return answers.transpose([*axes, *rest]).reshape([*(answers.shape[i] for i in axes), -1])


@dataclass(frozen=True, eq=False)
class Basis:
    """What answers rest on.

    Attributes:
        schema: what the codes mean.
        model: the estimate.
        measurements: what it was estimated from.
        level: the share of answers whose interval should hold the truth.
        draws: how often the noise is drawn again for intervals.
    """

    schema: Schema
    model: Model
    measurements: Sequence[Measurement]
    level: float = 0.9
    draws: int = 50

    def estimates(self, sums: Sequence[Sequence[Term]]) -> list[Array]:
        """The model's answers to sums of terms."""
        check_size(sums)
        answers = iter(self.model.answers([term.query for terms in sums for term in terms]))
        return [np.asarray(sum(term.laid(next(answers)) for term in terms)) for terms in sums]

    def intervals(self, sums: Sequence[Sequence[Term]]) -> list[Interval]:
        """The same with intervals.

        The ends of a sum are the sums of its terms' ends: where there are several they are on the safe side.
        """
        check_size(sums)
        found = iter(self._intervals([term.query for terms in sums for term in terms]))
        return [_summed([_laid(next(found), term) for term in terms]) for terms in sums]

    def _intervals(self, queries: Sequence[Query]) -> list[Interval]:
        cells = sum(query.rows for query in queries)
        draws = max(10, min(self.draws, _DRAWN_CELLS // max(1, cells)))
        if self.model.diagnostics is None or not self.model.diagnostics.schedule:
            return self._measured(queries)
        return intervals(self.model, self.measurements, queries, level=self.level, draws=draws)

    def _measured(self, queries: Sequence[Query]) -> list[Interval]:
        """Intervals where the estimate cannot be repeated: those of the noise, for what was itself measured.

        An interval around the noisy answer holds the truth as often as it should; it is stretched to the estimate. Of
        other answers nothing is known: their ends are NaN.
        """
        if not 0 < self.level < 1:
            raise OptionError("level", f"a share between 0 and 1; got {self.level}")
        found = []
        for query, answer in zip(queries, self.model.answers(queries), strict=True):
            same = [m for m in self.measurements if m.query == query]
            best = min(same, key=lambda m: m.variance, default=None)
            source = source_of(query, self.measurements)
            if best is None:
                unknown = np.full(answer.shape, np.nan)
                found.append(Interval(answer, unknown, unknown, source))
                continue
            margin = noise_margin(best, self.level)
            low, high = best.values - margin, best.values + margin
            found.append(Interval(answer, np.minimum(low, answer), np.maximum(high, answer), source))
        return found


def noise_margin(measurement: Measurement, level: float) -> float | Array:
    """How far the noise of a measurement goes, up or down, in all but 1 − `level` of cases."""
    from scipy.special import ndtri

    if measurement.noise is not None and measurement.noise.kind == "laplace":
        return -measurement.stddev / 2**0.5 * math.log(1 - level)
    return float(ndtri((1 + level) / 2)) * measurement.stddev


def check_size(sums: Sequence[Sequence[Term]]) -> None:
    """Refuse more answers than anybody can read, before any of them is worked out."""
    cells = sum(term.query.rows for terms in sums for term in terms)
    if cells > MOST_CELLS:
        cliques = list(dict.fromkeys(term.query.clique for terms in sums for term in terms))[:4]
        raise SizeError(
            f"that is {cells:,} answers, more than {MOST_CELLS:,}; ask for fewer columns at once, or add a where",
            cells=cells,
            limit=MOST_CELLS,
            cliques=cliques,
        )


def weakest(sources: Sequence[Source]) -> Source:
    """Where an answer comes from that is made of several."""
    return max(sources, key=_RANK.index)


def _laid(found: Interval, term: Term) -> Interval:
    return Interval(term.laid(found.estimate), term.laid(found.low), term.laid(found.high), found.source)


def _summed(found: Sequence[Interval]) -> Interval:
    return Interval(
        np.asarray(sum(each.estimate for each in found)),
        np.asarray(sum(each.low for each in found)),
        np.asarray(sum(each.high for each in found)),
        weakest([each.source for each in found]),
    )
