"""Hidden: what bins hide of their values, and what shrinking hides of the noise, added to intervals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from priory.answer.basis import Drawn
from priory.answer.intervals import Interval, noise_left, normal_quantile
from priory.answer.ratios import Gather, added
from priory.data.kinds import ModelledColumn
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array, Factor
from priory.queries.query import Query

# An answer whose interval gets so many times wider says so in a note.
_DOMINATED = 2.0


def hidden_sums(cells: Sequence[Drawn], spreads: Sequence[Array]) -> Array:
    """The standard deviation of sums if all rows of a bin had one value, at random by the bin's shape.

    That is more than bins hide of values that are spread out, and what they hide of values that are all alike, such as
    prices that are round. Bins are taken to be independent.
    """
    pairs = zip(cells, spreads, strict=True)
    return np.asarray(np.sqrt(sum(added((found.estimate * spread) ** 2) for found, spread in pairs)))


@dataclass(frozen=True, eq=False)
class Noisy:
    """Answers added up from measurements alone: unbiased, and as noisy as they are."""

    values: Array  # NaN where no measured marginal has all attributes of the query
    stddev: Array

    @classmethod
    def of(cls, query: Query, measurements: Iterable[Measurement]) -> "Noisy":
        """The answers to a query from all measured marginals that have its attributes, weighed by their noise."""
        values, weights = np.zeros(query.shape), np.zeros(query.shape)
        for m in measurements:
            if m.query.is_marginal and not m.is_public and set(query.clique) <= set(m.query.clique):
                weight = noise_left(query, m) ** -2.0
                values += weight * query(Factor(m.query.domain, m.values).project(query.clique).values)
                weights += weight
        known = weights > 0
        values = np.divide(values, weights, out=np.full(query.shape, np.nan), where=known)
        return cls(values, np.divide(1.0, np.sqrt(weights), out=np.full(query.shape, np.nan), where=known))


def measured_sums(cells: Sequence[Noisy], weights: Sequence[Array], gather: Gather = added) -> Noisy:
    """Sums of cells times weights: of all of them, or as `gather` adds them up."""
    pairs = list(zip(cells, weights, strict=True))
    variance = sum(gather((each.stddev * weight) ** 2) for each, weight in pairs)
    return Noisy(np.asarray(sum(gather(each.values * weight) for each, weight in pairs)), np.sqrt(np.asarray(variance)))


def joined(found: Interval, measured: Noisy, level: float | None) -> Interval:
    """The interval, stretched to hold that of the measured answers themselves where they are known.

    An estimate errs less than its measurements because it is drawn towards what is simpler, and has no negative counts.
    That helps each cell and moves many of them the same way: those of a long tail upwards, and a mean with them.
    """
    if level is None:
        return found
    reach = normal_quantile(level) * measured.stddev
    low, high = np.fmin(found.low, measured.values - reach), np.fmax(found.high, measured.values + reach)
    # Where nothing is known of the error, it stays so.
    return replace(
        found, low=np.where(np.isnan(found.low), np.nan, low), high=np.where(np.isnan(found.high), np.nan, high)
    )


def widened(found: Interval, hidden: Array, level: float | None) -> Interval:
    """The interval with what bins hide, of this standard deviation, besides what it has."""
    if level is None:
        return found
    more = normal_quantile(level) * hidden
    return replace(
        found,
        low=found.estimate - np.hypot(found.estimate - found.low, more),
        high=found.estimate + np.hypot(found.high - found.estimate, more),
    )


def stretched(found: Interval, low_bins: tuple[Array, Array], high_bins: tuple[Array, Array]) -> Interval:
    """The interval of a quantile with what is hidden by the bins that its ends lie in.

    Values may lie anywhere in a bin. An end in the bin of the estimate moves to the end of that bin; one that noise has
    moved to another bin moves towards the end of that, in quadrature with how far noise has moved it.

    `low_bins` are the smallest and the largest values of the bins in which lower ends lie, `high_bins` of upper ends.
    """
    low = found.estimate - np.hypot(found.estimate - found.low, found.low - low_bins[0])
    high = found.estimate + np.hypot(found.high - found.estimate, high_bins[1] - found.high)
    low = np.where(found.estimate <= low_bins[1], low_bins[0], low)
    return replace(found, low=low, high=np.where(found.estimate >= high_bins[0], high_bins[1], high))


def hidden_notes(column: ModelledColumn, before: Interval, after: Interval) -> tuple[str, ...]:
    """A note where intervals are mostly what bins hide."""
    with np.errstate(invalid="ignore"):
        is_dominated = (after.high - after.low) > _DOMINATED * (before.high - before.low)
    count, all_of = int(is_dominated.sum()), is_dominated.size
    if not count:
        return ()
    which, them = ("the interval is", "it") if all_of == 1 else (f"{count} of {all_of} intervals are", "them")
    return (f"{which} as wide as the bins of {column.name!r} make {them}; narrower bins, or spikes, would show more",)
