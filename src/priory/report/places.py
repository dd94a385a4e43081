"""Places: which codes of an attribute are shown one by one, and which together."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.data.kinds import ModelledColumn
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part, Recode
from priory.report.page import shortened

# A label on an axis has at most so many letters.
MOST_LETTERS = 34
ORDERED = frozenset({"ordinal", "integer", "real", "date", "datetime"})


@dataclass(frozen=True, eq=False)
class Attribute:
    """An attribute as people know it."""

    name: str  # its name
    kind: str  # the schema's word for it
    labels: tuple[str, ...]  # one for each code
    null: int | None  # the code of missing cells, if there is one

    @classmethod
    def of(cls, column: ModelledColumn) -> "Attribute":
        """The attribute that a declared column became."""
        return cls(column.name, column.kind, axis_labels(column), column.null_code)

    @classmethod
    def coded(cls, name: str, size: int) -> "Attribute":
        """An attribute of which only the number of codes is known."""
        return cls(name, "code", tuple(map(str, range(size))), None)

    @property
    def is_ordered(self) -> bool:
        """Whether neighbouring codes are alike."""
        return self.kind in ORDERED


@dataclass(frozen=True, eq=False)
class Places:
    """Groups of an attribute's codes, in the order in which they are shown."""

    attribute: Attribute  # whose codes
    labels: tuple[str, ...]  # one for each group
    targets: NDArray[np.int64]  # for each code, its group
    rest: int | None = None  # the group of all codes too rare to be shown by themselves, if there is one
    null: int | None = None  # the group of missing cells, if there is one

    @classmethod
    def of(cls, attribute: Attribute, counts: Array, most: int) -> "Places":
        """At most `most` groups: runs of neighbours where codes are ordered, else the most frequent and the rest."""
        size = len(attribute.labels)
        if size <= most:
            return cls(attribute, attribute.labels, np.arange(size), null=attribute.null)
        return _runs(attribute, most) if attribute.is_ordered else _frequent(attribute, counts, most)

    @property
    def part(self) -> Part:
        """The part of a query that gives the groups."""
        return Recode(self.targets.tolist()) if self.is_merged else Identity()

    @property
    def is_merged(self) -> bool:
        """Whether some group has several codes."""
        return len(self.labels) < len(self.targets)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many codes each group has."""
        return np.bincount(self.targets, minlength=len(self.labels))

    def summed(self, counts: Array) -> Array:
        """The groups' counts from the codes'."""
        return np.asarray(np.bincount(self.targets, weights=counts, minlength=len(self.labels)), dtype=np.float64)


def _runs(attribute: Attribute, most: int) -> Places:
    own = len(attribute.labels) - (attribute.null is not None)
    count = most - (attribute.null is not None)
    targets = np.arange(own) * count // own
    starts = np.searchsorted(targets, np.arange(count + 1))
    is_named, names = attribute.kind == "ordinal", attribute.labels
    labels = [_span(names[a], names[b - 1], is_named=is_named) for a, b in itertools.pairwise(starts)]
    if attribute.null is not None:
        targets, labels = np.append(targets, count), [*labels, attribute.labels[-1]]
    return Places(attribute, distinct(labels), targets, null=None if attribute.null is None else count)


def _frequent(attribute: Attribute, counts: Array, most: int) -> Places:
    """The most frequent first, then missing cells, then the rest."""
    ranked = np.argsort(-np.asarray(counts), kind="stable")
    shown = [int(code) for code in ranked[: most - 1] if code != attribute.null]
    if attribute.null is not None:
        shown = [*shown[: most - 2], attribute.null]
    targets = np.full(len(counts), len(shown))
    targets[shown] = np.arange(len(shown))
    rest = f"{len(counts) - len(shown):,} others"
    labels = distinct([*(attribute.labels[code] for code in shown), rest])
    return Places(attribute, labels, targets, len(shown), None if attribute.null is None else len(shown) - 1)


def _span(first: str, last: str, *, is_named: bool) -> str:
    """The label of a run of codes from those of its ends."""
    if first == last:
        return first
    if is_named:
        return f"{first} … {last}"
    between = " to " if " to " in first + last else "–"
    return f"{first.partition(between)[0]}{between}{last.rpartition(between)[2]}"


def axis_labels(column: ModelledColumn) -> tuple[str, ...]:
    """One label for each code, all of them different."""
    texts = [*column.short_labels, *(["not given"] if column.nullable else [])]
    return distinct([shortened(text, MOST_LETTERS) for text in texts])


def distinct(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels, with a number after each that was there before: a chart would put equal ones in one place.

    >>> distinct(["a", "b", "a"])
    ('a', 'b', 'a (2)')
    """
    seen: dict[str, int] = {}
    numbered: list[str] = []
    for label in labels:
        number = seen.get(label, 0) + 1
        seen[label] = number
        numbered.append(label if number == 1 else f"{label} ({number})")
    if len(set(numbered)) == len(numbered):
        return tuple(numbered)
    return tuple(f"{i}: {label}" for i, label in enumerate(labels))
