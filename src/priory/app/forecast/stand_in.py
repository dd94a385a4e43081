"""Stand-in: a made-up table with a schema's columns, as uneven and as dependent as tables usually are.

It is a sparse Bayesian network: each column has a few parents among the columns before it, and a row follows one of
them. How uneven columns are and how strongly they depend on a parent are drawn from what real tables show; see
docs/studies/forecasts.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array

Codes = NDArray[np.int64]
# True for the values of a clique that no row can have together.
Mask = NDArray[np.bool_]
# Of how many kinds values are: two values go together where their kinds do.
KINDS = 3
# Columns of more values are more uneven.
FEW_VALUES = 40
# From so many draws quantiles are taken.
DRAWN = 2_000
# How many values hidden columns have.
HIDDEN_VALUES = 10
# A parent of more values is cut into as many runs.
MOST_VALUES = 100
# In tables of more columns a column depends less on each of its parents; see the study.
WIDE = 14
# How often a value that cannot be is drawn again as the column is, and then as often evenly.
REDRAWS = 20


@dataclass(frozen=True)
class Dependences:
    """How uneven columns are and how they depend on each other; the defaults are those of the study.

    Attributes:
        evenness: the two parameters of the beta distribution of a column's entropy, as a part of the largest.
        evenness_of_many: the same of columns of more than `FEW_VALUES` values.
        strength: the median of strengths: the standard deviation of what a parent's value adds to log shares. It falls
            with the root of the number of columns beyond `WIDE`.
        spread: the standard deviation of the logarithms of strengths.
        parents: how many parents a column has on average.
        hubs: early columns are parents more often, the more so the larger it is; with 1 all are alike.
        hidden: the first so many columns are in no table: those that depend on one all depend on each other.
    """

    evenness: tuple[float, float] = (1.6, 0.8)
    evenness_of_many: tuple[float, float] = (0.6, 0.7)
    strength: float = 3.0
    spread: float = 0.8
    parents: float = 3.0
    hubs: float = 2.0
    hidden: int = 3


TYPICAL = Dependences()


def stand_in(
    domain: Domain,
    rows: int,
    rng: np.random.Generator,
    dependences: Dependences = TYPICAL,
    *,
    impossible: Sequence[tuple[Clique, Mask]] = (),
) -> Codes:
    """Rows of codes drawn from a random network, their columns in the domain's order.

    Values that cannot be together are drawn again: leaving such rows out would leave few. Where drawing again does not
    help, a row may still have some.
    """
    hidden = dependences.hidden
    weaker = math.sqrt(min(1.0, WIDE / len(domain)))
    dependences = replace(dependences, strength=weaker * dependences.strength)
    sizes = [*[HIDDEN_VALUES] * hidden, *domain.shape]
    order = [*range(hidden), *(hidden + rng.permutation(len(domain))).tolist()]
    evenness = _evenness_of(sizes, dependences, rng)
    columns: list[Codes] = [np.zeros(0, dtype=np.int64)] * len(sizes)
    masks = [([hidden + domain.axis[name] for name in clique], mask) for clique, mask in impossible]
    for place, column in enumerate(order):
        logs = _logs(sizes[column], evenness[column], rng)
        parents = [order[each] for each in _parents(place, dependences, rng)]
        made = _Column.of(logs, [(columns[p], sizes[p]) for p in parents], dependences, rng)
        columns[column] = made.drawn(np.arange(rows), rng)
        known = set(order[: place + 1])
        _redraw(columns, column, made, [each for each in masks if column in each[0] and known >= set(each[0])], rng)
    return np.stack(columns[hidden:], axis=1)


@dataclass(frozen=True, eq=False)
class _Column:
    """How a column is drawn from its parents, one of which it follows in each row."""

    parents: tuple[Codes, ...]  # their values, cut into runs; a single one of zeros where there are none
    logs: tuple[Array, ...]  # for each of them, the logarithms of shares given each value

    @classmethod
    def of(
        cls, logs: Array, parents: Sequence[tuple[Codes, int]], dependences: Dependences, rng: np.random.Generator
    ) -> "_Column":
        """Dependences at random on parents, each with its number of values."""
        if not parents:
            return cls((np.zeros(1, dtype=np.int64),), (logs[None],))
        runs = [min(values, MOST_VALUES) for _, values in parents]
        given = (codes * each // values for (codes, values), each in zip(parents, runs, strict=True))
        return cls(tuple(given), tuple(logs + _tie(each, len(logs), dependences, rng) for each in runs))

    @property
    def size(self) -> int:
        """How many values it has."""
        return int(self.logs[0].shape[1])

    def drawn(self, rows: Codes, rng: np.random.Generator) -> Codes:
        """Values for these rows."""
        codes = np.zeros(len(rows), dtype=np.int64)
        follows = rng.integers(0, len(self.parents), len(rows))
        for number, (parent, logs) in enumerate(zip(self.parents, self.logs, strict=True)):
            is_led = follows == number
            codes[is_led] = _drawn(logs, parent[rows[is_led] % len(parent)], rng)
        return codes


def _redraw(
    columns: list[Codes],
    column: int,
    made: _Column,
    masks: Sequence[tuple[list[int], Mask]],
    rng: np.random.Generator,
) -> None:
    """Draw values of a column again where they cannot be beside those of the columns before."""
    rows = np.arange(len(columns[column]))
    for attempt in range(2 * REDRAWS):
        is_bad = np.zeros(len(rows), dtype=bool)
        for places, mask in masks:
            is_bad |= mask[tuple(columns[place][rows] for place in places)]
        rows = rows[is_bad]
        if not len(rows):
            return
        is_late = attempt >= REDRAWS
        columns[column][rows] = rng.integers(0, made.size, len(rows)) if is_late else made.drawn(rows, rng)


def _evenness_of(sizes: Sequence[int], dependences: Dependences, rng: np.random.Generator) -> Array:
    """The evenness of each column: spread over the distribution as evenly as can be, so that few columns will do."""
    found = np.zeros(len(sizes))
    for shape, is_many in ((dependences.evenness, False), (dependences.evenness_of_many, True)):
        places = [i for i, size in enumerate(sizes) if (size > FEW_VALUES) is is_many]
        points = (rng.permutation(len(places)) + rng.random()) / max(1, len(places))
        found[places] = np.quantile(rng.beta(*shape, DRAWN), points)
    return found


def _column(
    logs: Array,
    parents: Sequence[tuple[Codes, int]],
    rows: int,
    dependences: Dependences,
    rng: np.random.Generator,
) -> Codes:
    """A column that follows one of its parents in each row."""
    if not parents:
        return _drawn(logs[None], np.zeros(rows, dtype=np.int64), rng)
    codes = np.zeros(rows, dtype=np.int64)
    follows = rng.integers(0, len(parents), rows)
    for number, (parent, values) in enumerate(parents):
        runs = min(values, MOST_VALUES)
        given = parent[follows == number] * runs // values
        codes[follows == number] = _drawn(logs + _tie(runs, len(logs), dependences, rng), given, rng)
    return codes


def _parents(place: int, dependences: Dependences, rng: np.random.Generator) -> list[int]:
    """The places of the parents of a column among those before it."""
    if place == 0:
        return []
    number = int(dependences.parents + rng.random())
    return sorted({int(place * each**dependences.hubs) for each in rng.random(number)})


def _drawn(logs: Array, given: Codes, rng: np.random.Generator) -> Codes:
    """A value for each of `given`, the numbers of rows of `logs`, which are the logarithms of shares."""
    shares = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
    ends = (shares / shares[:, -1:] + np.arange(len(logs))[:, None]).ravel()
    found = np.searchsorted(ends, given + rng.random(len(given)), side="right") - given * logs.shape[1]
    return np.asarray(np.clip(found, 0, logs.shape[1] - 1), dtype=np.int64)


def _tie(parent: int, size: int, dependences: Dependences, rng: np.random.Generator) -> Array:
    """What each value of a parent adds to the logarithms of a column's shares."""
    strength = dependences.strength * np.exp(dependences.spread * rng.normal())
    theirs, ours = (rng.normal(size=(each, KINDS)) for each in (parent, size))
    return np.asarray(strength / np.sqrt(KINDS) * theirs @ ours.T)


def _logs(size: int, evenness: float, rng: np.random.Generator) -> Array:
    """Logarithms of shares at random, but for a constant, whose entropy is that part of the largest."""
    logs = rng.normal(size=size)
    low, high = 0.0, 30.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if _evenness(middle * logs) > evenness else (low, middle)
    return np.asarray(low * logs)


def _evenness(logs: Array) -> float:
    """The entropy of shares as a part of the largest; 1 where there is one value."""
    if len(logs) < 2:
        return 1.0
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    return float(-(shares * np.log(np.maximum(shares, 1e-300))).sum() / np.log(len(shares)))
