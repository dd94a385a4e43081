"""Sampling: rows drawn from tables, group by group, by randomised rounding or independently."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.queries.factor import Array, cell_codes

Codes = NDArray[np.int32]
Ints = NDArray[np.int64]
Method = Literal["rounding", "independent"]
Seed = int | np.random.Generator | None
Weights = Callable[[Ints], Array]
# Weights of groups are looked at in blocks of about so many cells.
_BLOCK = 1 << 22
# Groups with at least so many records on average are shuffled one by one, inside the processor's cache.
_RECORDS_A_GROUP = 200


@dataclass(frozen=True, eq=False)
class Chance:
    """Where chance comes from, and how records are divided among cells."""

    rng: np.random.Generator  # the generator
    method: Method  # "rounding" or "independent"

    @classmethod
    def of(cls, seed: Seed, method: Method) -> "Chance":
        """Build it from a seed, checking the method."""
        if method not in ("rounding", "independent"):
            raise OptionError("method", f"rows are drawn by 'rounding' or 'independent'; got {method!r}")
        return cls(seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed), method)

    def allocated(self, weights: Array, counts: Ints) -> Ints:
        """Divide `counts[g]` records among the cells of row g of `weights`."""
        # By rounding, each cell gets the floor or the ceiling of its expected number, which it has on average: one
        # uniform draw a row places a comb over the cumulated weights (systematic sampling). Independently, each row is
        # multinomial.
        if self.method == "independent":
            return self.rng.multinomial(counts, weights / weights.sum(axis=1, keepdims=True)).astype(np.int64)
        steps = np.cumsum(weights, axis=1)
        # Dividing by the last step makes it exactly 1, so every record is placed and no cell of weight 0 gets one.
        steps /= steps[:, -1:]
        steps *= counts[:, None]
        steps += self.rng.random((len(counts), 1))
        marks = np.floor(steps, out=steps).astype(np.int64)
        marks[:, 1:] -= marks[:, :-1].copy()
        return marks

    def order(self, groups: Ints, size: int, *, at_random: bool) -> NDArray[np.intp]:
        """Records sorted by group; within each of the `size` groups at random, or as they come."""
        order = self.rng.permutation(len(groups)) if at_random else None
        # NumPy sorts 16-bit keys by radix, in linear time: larger keys are sorted 16 bits at a time.
        for shift in range(0, max(1, math.ceil(math.log2(max(size, 2)))), 16):
            digit = (groups >> shift if shift else groups).astype(np.uint16)
            if order is None:
                order = np.argsort(digit, kind="stable")
            else:
                order = order.take(np.argsort(digit.take(order), kind="stable"))
        return np.asarray(order)

    def shuffle_each(self, cells: Ints, tally: Ints) -> None:
        """Shuffle the cells of each group, which lie side by side, in place."""
        start = 0
        for count in tally.tolist():
            self.rng.shuffle(cells[start : start + count])
            start += count


def drawn_alike(weights: Array, n: int, chance: Chance) -> Ints:
    """Draw a cell for each of `n` records, all with the same weights."""
    counts = chance.allocated(weights[None, :], np.array([n]))[0]
    cells = np.repeat(np.arange(len(counts)), counts)
    chance.rng.shuffle(cells)
    return cells


def drawn(groups: Ints, size: int, weights: Weights, chance: Chance) -> Ints:
    """Draw a cell for each record, given which of `size` groups it is in; `weights` gives those of a group as a row."""
    present, tally = _tallied(groups, size)
    # A cell of a group is to meet a random record of it: shuffle one or the other, whichever is quicker.
    few = len(groups) >= _RECORDS_A_GROUP * len(present)
    order = chance.order(groups, size, at_random=not few)
    placed = np.empty(len(groups), dtype=np.int64)
    done = 0
    for block, counts in _blocks(present, tally, weights):
        share = chance.allocated(block, counts)
        cells = np.repeat(np.tile(np.arange(share.shape[1]), len(share)), share.reshape(-1))
        placed[done : done + len(cells)] = cells
        done += len(cells)
    if few:
        chance.shuffle_each(placed, tally)
    drawn_cells = np.empty_like(placed)
    drawn_cells[order] = placed
    return drawn_cells


def _blocks(present: Ints, tally: Ints, weights: Weights) -> Iterator[tuple[Array, Ints]]:
    width = weights(present[:1]).shape[1] if len(present) else 1
    step = max(1, _BLOCK // width)
    for i in range(0, len(present), step):
        yield weights(present[i : i + step]), tally[i : i + step]


def _tallied(groups: Ints, size: int) -> tuple[Ints, Ints]:
    if size <= 4 * len(groups) + 1024:
        counts = np.bincount(groups, minlength=size)
        present = np.flatnonzero(counts)
        return present, counts[present]
    return np.unique(groups, return_counts=True)


@dataclass(frozen=True, eq=False)
class Columns:
    """Rows that are filled column by column."""

    shape: tuple[int, ...]  # how many values each attribute can take
    codes: Codes  # the rows

    @classmethod
    def empty(cls, n: int, shape: tuple[int, ...]) -> "Columns":
        """`n` rows to be filled; columns are contiguous."""
        return cls(shape, np.empty((n, len(shape)), dtype=np.int32, order="F"))

    def draw(self, new: tuple[int, ...], given: tuple[int, ...], weights: Weights, chance: Chance) -> None:
        """Fill the columns `new`, given those of `given`, which were drawn before."""
        # The cells of `given` are the groups, those of `new` the columns of their weights, in C order.
        if not new:
            return
        if given:
            sizes = [self.shape[v] for v in given]
            groups = cell_codes([self.codes[:, v] for v in given], sizes)
            cells = drawn(groups, math.prod(sizes), weights, chance)
        else:
            cells = drawn_alike(weights(np.zeros(1, dtype=np.int64))[0], len(self.codes), chance)
        for v in new[:0:-1]:
            cells, self.codes[:, v] = np.divmod(cells, self.shape[v])
        self.codes[:, new[0]] = cells


def checked_count(n: int) -> int:
    """A number of rows; an `OptionError` unless it is a whole number of at least 0."""
    if isinstance(n, bool) or not hasattr(n, "__index__") or n < 0:
        raise OptionError("n", f"the number of rows is a whole number, at least 0; got {n!r}")
    return int(n)
