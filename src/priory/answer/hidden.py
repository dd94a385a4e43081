"""Hidden: what bins hide of their values, added to intervals that hold only what noise and the model do."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from priory.answer.basis import Drawn
from priory.answer.intervals import Interval, normal_quantile
from priory.answer.ratios import added
from priory.data.kinds import ModelledColumn
from priory.queries.factor import Array

# An answer whose interval gets so many times wider says so in a note.
_DOMINATED = 2.0


def hidden_sums(cells: Sequence[Drawn], spreads: Sequence[Array]) -> Array:
    """The standard deviation of sums if all rows of a bin had one value, at random by the bin's shape.

    That is more than bins hide of values that are spread out, and what they hide of values that are all alike, such as
    prices that are round. Bins are taken to be independent.
    """
    pairs = zip(cells, spreads, strict=True)
    return np.sqrt(np.asarray(sum(added((found.estimate * spread) ** 2) for found, spread in pairs)))


def widened(found: Interval, hidden: Array, level: float) -> Interval:
    """The interval with what bins hide, of this standard deviation, besides what it has."""
    more = normal_quantile(level) * hidden
    return replace(
        found,
        low=found.estimate - np.hypot(found.estimate - found.low, more),
        high=found.estimate + np.hypot(found.high - found.estimate, more),
    )


def stretched(found: Interval, low_spans: tuple[Array, Array], high_spans: tuple[Array, Array]) -> Interval:
    """The interval of a quantile with what is hidden by the bins that its ends lie in.

    Values may lie anywhere in a bin: an end moves by up to the bin's width, in quadrature with how far it is from the
    estimate, and never out of its bin.

    Args:
        found: the interval.
        low_spans: the smallest and the largest value of the bin in which each lower end lies.
        high_spans: the same for upper ends.
    """
    low = found.estimate - np.hypot(found.estimate - found.low, low_spans[1] - low_spans[0])
    high = found.estimate + np.hypot(found.high - found.estimate, high_spans[1] - high_spans[0])
    return replace(found, low=np.maximum(low, low_spans[0]), high=np.minimum(high, high_spans[1]))


def hidden_notes(column: ModelledColumn, before: Interval, after: Interval) -> tuple[str, ...]:
    """A note where intervals are mostly what bins hide."""
    with np.errstate(invalid="ignore"):
        is_dominated = (after.high - after.low) > _DOMINATED * (before.high - before.low)
    count, all_of = int(is_dominated.sum()), is_dominated.size
    if not count:
        return ()
    which = "the interval is" if all_of == 1 else f"{count} of {all_of} intervals are"
    return (f"{which} as wide as the bins of {column.name!r} make it; narrower bins, or spikes, would show more",)
