"""Answered: the groups of one or several attributes with their estimates and intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from priory.answer.basis import ScaledQuery
from priory.answer.intervals import Interval, Source, source_of
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.release import Release
from priory.release.release import DRAWS, LEVEL
from priory.report.places import Places

FEWEST_DRAWS = 10
# Draws hold so many numbers in all, about; and an attribute with more codes is summed up before it is asked about.
MOST_DRAWN, MOST_CODES = 20_000_000, 5_000
# A group this many times larger than all others would leave them no room.
DWARFED = 4


@dataclass(frozen=True, eq=False)
class Answer:
    """Groups with what is known of them."""

    places: tuple[Places, ...]  # the groups of each attribute
    estimate: Array  # how many records are in each cell
    low: Array  # the lower ends of the intervals; NaN where nothing is known of the error
    high: Array  # the upper ends
    source: Source  # where the answer comes from

    @property
    def rest_dwarfs(self) -> bool:
        """Whether the rest of a single attribute is so much more than any other group that it would hide them."""
        [places] = self.places
        if places.rest is None:
            return False
        others = np.delete(self.estimate, places.rest)
        return bool(self.estimate[places.rest] > DWARFED * others.max(initial=0.0))

    @property
    def turned(self) -> "Answer":
        """The same with its attributes in the other order."""
        return Answer(self.places[::-1], self.estimate.T, self.low.T, self.high.T, self.source)


def answered(release: Release, asked: Sequence[tuple[Places, ...]]) -> list[Answer]:
    """What the release says of each of `asked`."""
    small = [all(len(places.targets) <= MOST_CODES for places in each) for each in asked]
    found = _by_draws(release, [each for each, is_small in zip(asked, small, strict=True) if is_small])
    drawn = iter(found or ())
    few = found is not None
    sized = zip(asked, small, strict=True)
    return [next(drawn) if few and is_small else _by_noise(release, each) for each, is_small in sized]


def _by_draws(release: Release, asked: Sequence[tuple[Places, ...]]) -> list[Answer] | None:
    """Intervals by drawing the noise again; None where the estimate cannot be repeated, or that takes too much."""
    diagnostics = release.model.diagnostics
    draws = min(DRAWS, MOST_DRAWN // max(1, sum(m.query.rows for m in release.measurements)))
    if diagnostics is None or not diagnostics.schedule or draws < FEWEST_DRAWS:
        return None
    queries = [_query(release, each) for each in asked]
    found = release.basis(LEVEL, draws).intervals([[ScaledQuery(query)] for query in queries])
    return [_centred(each, interval) for each, interval in zip(asked, found, strict=True)]


def _centred(asked: tuple[Places, ...], interval: Interval) -> Answer:
    """A number of records is never below zero, and an interval holds the estimate."""
    low = np.minimum(interval.estimate, np.maximum(interval.low, 0.0))
    return Answer(asked, interval.estimate, low, np.maximum(interval.estimate, interval.high), interval.source)


def _by_noise(release: Release, asked: tuple[Places, ...]) -> Answer:
    """Intervals of the least noisy marginal that holds the attributes, widened to hold the estimate."""
    query = Query.marginal(release.domain, [places.attribute.name for places in asked])
    estimated = _summed(release.model.answer(query), asked)
    ties = release.redrawing().ties
    source = ties.named(source_of(query, release.measurements), query, release.measurements)
    holding = [m for m in release.evidence if m.query.is_marginal and set(query.clique) <= set(m.query.clique)]
    best = min(holding, key=lambda m: m.variance * m.query.rows, default=None)
    if best is None:
        nothing = np.full(estimated.shape, math.nan)
        return Answer(asked, estimated, nothing, nothing, "prior" if source == "measured" else source)
    others = tuple(i for i, name in enumerate(best.query.clique) if name not in query.clique)
    measured = _summed(best.values.sum(axis=others), asked)
    cells = math.prod(best.query.domain.shape[i] for i in others) * _cells(asked)
    margin = NormalDist().inv_cdf((1 + LEVEL) / 2) * best.stddev * np.sqrt(cells)
    low = np.minimum(estimated, np.maximum(measured - margin, 0.0))
    return Answer(asked, estimated, low, np.maximum(estimated, measured + margin), source)


def _query(release: Release, asked: tuple[Places, ...]) -> Query:
    return Query.product(release.domain, {places.attribute.name: places.part for places in asked})


def _summed(counts: Array, asked: tuple[Places, ...]) -> Array:
    for axis, places in enumerate(asked):
        counts = np.apply_along_axis(places.summed, axis, counts) if places.is_merged else counts
    return np.asarray(counts, dtype=np.float64)


def _cells(asked: tuple[Places, ...]) -> Array:
    """How many cells each group of cells has."""
    cells = np.ones(())
    for places in asked:
        cells = np.multiply.outer(cells, places.sizes)
    return cells
