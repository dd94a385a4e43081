"""Stand-in: a made-up table with a schema's columns, as uneven and as dependent as tables usually are.

It is a sparse Bayesian network: each column has a few parents among the columns before it, and a row follows one of
them. How uneven columns are and how strongly they depend on a parent are drawn from what real tables show; see
docs/studies/forecasts.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array

Codes = NDArray[np.int64]
# Values that cannot be together: True for those of a clique that no row has.
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
# How often a value that cannot be is drawn again, as the column is, and as often evenly.
REDRAWS = 20


@dataclass(frozen=True)
class Dependences:
    """How uneven columns are and how they depend on each other; the defaults are those of the study.

    Attributes:
        evenness: the two parameters of the beta distribution of a column's entropy, as a part of the largest.
        evenness_of_many: the same of columns of more than `FEW_VALUES` values.
        strength: the median of strengths: the standard deviation of what a parent's value adds to log shares.
        spread: the standard deviation of the logarithms of strengths.
        parents: how many parents a column has on average.
        lead: how unevenly a column's rows follow its parents: the parameter of a Dirichlet distribution, and the
            smaller it is the more follow one of them.
        hubs: early columns are parents more often, the more so the larger it is; with 1 all are alike.
        hidden: the first so many columns are in no table: those that depend on one all depend on each other.
    """

    evenness: tuple[float, float] = (1.1, 0.75)
    evenness_of_many: tuple[float, float] = (0.6, 0.6)
    strength: float = 4.5
    spread: float = 1.2
    parents: float = 3.0
    lead: float = 0.7
    hubs: float = 2.0
    hidden: int = 2


TYPICAL = Dependences()


def stand_in(
    domain: Domain,
    rows: int,
    rng: np.random.Generator,
    dependences: Dependences = TYPICAL,
    impossible: Sequence[tuple[Clique, Mask]] = (),
) -> Codes:
    """Rows of codes drawn from a random network, their columns in the domain's order.

    Values that cannot be together are drawn again; where that does not help a row may still have some.
    """
    hidden = dependences.hidden
    sizes = [*[HIDDEN_VALUES] * hidden, *domain.shape]
    order = [*range(hidden), *(hidden + rng.permutation(len(domain))).tolist()]
    evenness = _evenness_of(sizes, dependences, rng)
    columns: list[Codes] = [np.zeros(0, dtype=np.int64)] * len(sizes)
    masks = [([hidden + domain.axis[name] for name in clique], mask) for clique, mask in impossible]
    for place, column in enumerate(order):
        parents = [order[each] for each in _parents(place, dependences, rng)]
        network = _Column.of(
            sizes[column], evenness[column], [(columns[p], sizes[p]) for p in parents], dependences, rng
        )
        columns[column] = network.drawn(np.arange(rows), rng)
        drawn = set(order[: place + 1])
        _redraw(columns, column, network, [each for each in masks if column in each[0] and drawn >= set(each[0])], rng)
    return np.stack(columns[hidden:], axis=1)


@dataclass(frozen=True, eq=False)
class _Column:
    """How a column is drawn from its parents."""

    size: int
    parents: tuple[Codes, ...]  # their values, cut into runs; a single one of zeros where there are none
    ends: tuple[Array, ...]  # for each of them, the cumulative shares given each value
    follows: Array  # how many of the rows follow each

    @classmethod
    def of(
        cls,
        size: int,
        evenness: float,
        parents: Sequence[tuple[Codes, int]],
        dependences: Dependences,
        rng: np.random.Generator,
    ) -> "_Column":
        """Strengths at random, and shares that are as uneven over all rows as is asked."""
        given = [codes * min(values, MOST_VALUES) // values for codes, values in parents]
        runs = [min(values, MOST_VALUES) for _, values in parents]
        if not given:
            given, runs = [np.zeros(1, dtype=np.int64)], [1]
        ties = [_tie(each, size, dependences, rng) if parents else np.zeros((1, size)) for each in runs]
        follows = rng.dirichlet(np.full(len(given), dependences.lead))
        weights = [
            part * np.bincount(codes, minlength=each) / len(codes)
            for part, codes, each in zip(follows, given, runs, strict=True)
        ]
        logs = _scaled(rng.normal(size=size), ties, weights, evenness)
        ends = [np.cumsum(_shares(logs + tie), axis=1) for tie in ties]
        return cls(size, tuple(given), tuple(ends), follows)

    def drawn(self, rows: Codes, rng: np.random.Generator) -> Codes:
        """Values for these rows, each of which follows one of the parents."""
        leads = rng.choice(len(self.parents), size=len(rows), p=self.follows)
        codes = np.zeros(len(rows), dtype=np.int64)
        for number, (parent, ends) in enumerate(zip(self.parents, self.ends, strict=True)):
            is_led = leads == number
            given = parent[rows[is_led] % len(parent)]
            codes[is_led] = _inverse(ends, given, rng)
        return codes


def _redraw(
    columns: list[Codes],
    column: int,
    network: _Column,
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
        columns[column][rows] = rng.integers(0, network.size, len(rows)) if is_late else network.drawn(rows, rng)


def _evenness_of(sizes: Sequence[int], dependences: Dependences, rng: np.random.Generator) -> Array:
    """The evenness of each column: spread over the distribution as evenly as can be, so that few columns will do."""
    found = np.zeros(len(sizes))
    for shape, is_many in ((dependences.evenness, False), (dependences.evenness_of_many, True)):
        places = [i for i, size in enumerate(sizes) if (size > FEW_VALUES) is is_many]
        points = (rng.permutation(len(places)) + rng.random()) / max(1, len(places))
        found[places] = np.quantile(rng.beta(*shape, DRAWN), points)
    return found


def _parents(place: int, dependences: Dependences, rng: np.random.Generator) -> list[int]:
    """The places of the parents of a column among those before it."""
    if place == 0:
        return []
    number = int(dependences.parents + rng.random())
    return sorted({int(place * each**dependences.hubs) for each in rng.random(number)})


def _tie(parent: int, size: int, dependences: Dependences, rng: np.random.Generator) -> Array:
    """What each value of a parent adds to the logarithms of a column's shares."""
    strength = dependences.strength * np.exp(dependences.spread * rng.normal())
    theirs, ours = (rng.normal(size=(each, KINDS)) for each in (parent, size))
    return np.asarray(strength / np.sqrt(KINDS) * theirs @ ours.T)


def _scaled(logs: Array, ties: Sequence[Array], weights: Sequence[Array], evenness: float) -> Array:
    """Logarithms times a factor, so that the shares over all rows have that part of the largest entropy."""
    low, high = 0.0, 30.0
    for _ in range(15):
        middle = (low + high) / 2
        shares = sum(weight @ _shares(middle * logs + tie) for tie, weight in zip(ties, weights, strict=True))
        low, high = (middle, high) if _evenness(np.asarray(shares)) > evenness else (low, middle)
    return np.asarray(low * logs)


def _shares(logs: Array) -> Array:
    """The shares that logarithms stand for, in each row."""
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _inverse(ends: Array, given: Codes, rng: np.random.Generator) -> Codes:
    """A value for each of `given`, the numbers of rows of cumulative shares."""
    flat = (ends / ends[:, -1:] + np.arange(len(ends))[:, None]).ravel()
    found = np.searchsorted(flat, given + rng.random(len(given)), side="right") - given * ends.shape[1]
    return np.asarray(np.clip(found, 0, ends.shape[1] - 1), dtype=np.int64)


def _evenness(shares: Array) -> float:
    """The entropy of shares as a part of the largest; 1 where there is one value."""
    if len(shares) < 2:
        return 1.0
    return float(-(shares * np.log(np.maximum(shares, 1e-300))).sum() / np.log(len(shares)))
