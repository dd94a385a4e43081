"""Ratios: sums, means and shares of counted cells, with errors carried over from the cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from priory.answer.basis import Drawn, aligned
from priory.queries.factor import Array

# Fewer rows than a millionth of one are nobody.
_NOBODY = 1e-6
# Adds cells up along the last axis in some way: all of them, up to each, or each by itself.
Gather = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Weights:
    """What a cell counts for, above and under the line of a ratio."""

    over: Array
    under: Array

    @classmethod
    def alike(cls, weights: Array) -> "Weights":
        """The same above and under."""
        return cls(weights, weights)


def added(cells: Array) -> Array:
    """All cells together."""
    return np.asarray(cells.sum(axis=-1, keepdims=True))


def below(cells: Array, places: int) -> Array:
    """For each place, the cells up to it."""
    return np.asarray(cells[..., :places].cumsum(axis=-1))


def weighed(cells: Sequence[Drawn], weights: Sequence[Array], gather: Gather) -> Drawn:
    """Sums of cells times weights, over all boxes; what redrawing does not show of cells is independent among them."""
    pairs = list(zip(cells, weights, strict=True))
    variance = sum(gather((found.hidden * weight) ** 2) for found, weight in pairs)
    repeats = zip(aligned(cells), weights, strict=True)
    return Drawn(
        np.asarray(sum(gather(found.estimate * weight) for found, weight in pairs)),
        np.asarray(sum(gather(repeated * weight) for repeated, weight in repeats)),
        np.sqrt(variance),
        Drawn.summed(cells).source,
    )


def ratios(cells: Sequence[Drawn], weights: Sequence[Weights], gather: Gather) -> Drawn:
    """Gathered sums of weighed cells, divided by the sum of all; NaN where there is nobody.

    To first order, r = a/b errs by (Δa − r·Δb)/b, in which a cell above the line, with weights u over and w under it,
    counts u − rw times and any other −rw times.
    """
    over = weighed(cells, [each.over for each in weights], gather)
    under = weighed(cells, [each.under for each in weights], added)
    ratio = _divided(over.estimate, under.estimate)
    moved = (over.repeats - over.estimate) - ratio * (under.repeats - under.estimate)
    repeats = ratio + _divided(moved, under.estimate)
    variance = np.zeros(ratio.shape)
    for found, weight in zip(cells, weights, strict=True):
        hidden = found.hidden**2
        inside = gather(hidden * weight.over**2) - 2 * ratio * gather(hidden * weight.over * weight.under)
        variance = variance + inside + ratio**2 * added(hidden * weight.under**2)
    return Drawn(ratio, repeats, _divided(np.sqrt(np.maximum(variance, 0.0)), under.estimate), over.source)


def _divided(over: Array, under: Array) -> Array:
    shape = np.broadcast_shapes(over.shape, under.shape)
    some = np.broadcast_to(under > _NOBODY, shape)
    return np.asarray(np.divide(over, under, out=np.full(shape, np.nan), where=some))
