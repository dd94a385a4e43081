"""Basis: what answers rest on, and answers with all that is known of their errors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from priory.answer.intervals import Interval, Source, check_level, interval_of
from priory.data.schema import Schema
from priory.errors import SizeError
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query

MOST_CELLS = 10_000_000
_RANK: tuple[Source, ...] = ("measured", "inferred", "independent by assumption", "drawn", "prior")


@dataclass(frozen=True, eq=False)
class Drawn:
    """Answers with what is known of their errors."""

    estimate: Array  # the model's answers
    repeats: Array  # the same from redrawn noise, one more axis in front; no entries where it cannot be redrawn
    hidden: Array  # the standard deviation of what redrawing does not show; NaN where nothing is known
    source: Source  # where the answers come from

    @classmethod
    def summed(cls, parts: Sequence["Drawn"]) -> "Drawn":
        """Answers added up; what redrawing does not show is taken to err in the same direction."""
        return cls(
            np.asarray(sum(part.estimate for part in parts)),
            np.asarray(sum(aligned(parts))),
            np.asarray(sum(part.hidden for part in parts)),
            max((part.source for part in parts), key=_RANK.index),
        )

    def interval(self, level: float | None) -> Interval:
        """The answers with intervals; without a level nothing is said of their errors."""
        if level is None:
            nothing = np.full(self.estimate.shape, np.nan)
            return Interval(self.estimate, nothing, nothing, self.source)
        errors = self.repeats - self.estimate if len(self.repeats) else np.zeros((1, *self.estimate.shape))
        return interval_of(self.estimate, errors, self.hidden, level, self.source)


def aligned(parts: Sequence[Drawn]) -> list[Array]:
    """The repeats of answers in the draws that all of them have, which are the first ones."""
    draws = min((len(part.repeats) for part in parts), default=0)
    return [part.repeats[:draws] for part in parts]


@dataclass(frozen=True, eq=False)
class ScaledQuery:
    """A product query whose answers are multiplied and laid out anew, so that those of several can be added up."""

    query: Query  # the query
    scale: Array | float = 1.0  # what its answers are multiplied by
    # the attributes whose axes come first, in this order; all others become one axis after them. None leaves the
    # answers as they are
    first: tuple[str, ...] | None = None

    def laid(self, answers: Array) -> Array:
        """The query's answers as this term's."""
        answers = np.asarray(answers * self.scale)
        if self.first is None:
            return answers
        axes = [self.query.clique.index(name) for name in self.first]
        rest = [i for i in range(answers.ndim) if i not in axes]
        return answers.transpose([*axes, *rest]).reshape([*(answers.shape[i] for i in axes), -1])


class Ground(Protocol):
    """What answers rest on: a model with its redraws, or what was kept of them."""

    @property
    def domain(self) -> Domain:
        """The attributes."""

    def marginals(self, clique: Clique) -> Sequence[Measurement]:
        """The noisy marginals that have all these attributes."""

    def drawn(self, queries: Sequence[Query], level: float | None) -> list[Drawn]:
        """Answers to each query; without a level nothing need be known of their errors."""


@dataclass(frozen=True, eq=False)
class Basis:
    """What answers rest on."""

    schema: Schema  # what the codes mean
    ground: Ground  # the model, what it was estimated from, and its redraws
    # the share of answers whose interval should hold the truth; None for answers without intervals
    level: float | None = 0.9

    def drawn(self, terms: Sequence[ScaledQuery]) -> list[Drawn]:
        """Answers to each term."""
        check_size(term.query for term in terms)
        if self.level is not None:
            check_level(self.level)
        found = self.ground.drawn([term.query for term in terms], self.level)
        return [
            Drawn(term.laid(each.estimate), _laid_each(term, each.repeats), term.laid(each.hidden), each.source)
            for term, each in zip(terms, found, strict=True)
        ]

    def intervals(self, sums: Sequence[Sequence[ScaledQuery]]) -> list[Interval]:
        """Answers to sums of terms."""
        answers = iter(self.drawn([term for terms in sums for term in terms]))
        return [Drawn.summed([next(answers) for _ in terms]).interval(self.level) for terms in sums]


def _laid_each(term: ScaledQuery, repeats: Array) -> Array:
    laid = [term.laid(each) for each in repeats]
    return np.array(laid) if laid else np.empty((0, *term.laid(np.zeros(term.query.shape)).shape))


def check_size(queries: Iterable[Query]) -> None:
    """Refuse more answers than anybody can read, before any of them is worked out."""
    asked = list(queries)
    cells = sum(query.rows for query in asked)
    if cells > MOST_CELLS:
        raise SizeError(
            f"that is {cells:,} answers, more than {MOST_CELLS:,}; ask for fewer columns at once, or add a where",
            cells=cells,
            limit=MOST_CELLS,
            cliques=list(dict.fromkeys(query.clique for query in asked))[:4],
        )
