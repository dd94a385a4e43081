"""Basis: what answers rest on, and answers with all that is known of their errors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from priory.answer.intervals import (
    Interval,
    Source,
    check_level,
    interval_of,
    noise_margin,
    normal_quantile,
    source_of,
)
from priory.answer.redraws import Redraws
from priory.answer.ties import Ties
from priory.data.schema import Schema
from priory.errors import SizeError
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.queries.query import Query

MOST_CELLS = 10_000_000
_RANK: tuple[Source, ...] = ("measured", "inferred", "independent by assumption", "prior")
# Draws of a million cells each would take gigabytes: then there are fewer of them.
_DRAWN_CELLS = 20_000_000
# Redrawn models keep their calibrated tables for the next question up to so many bytes together.
_KEPT_BYTES = 2**29


@dataclass(frozen=True, eq=False)
class Drawn:
    """Answers with what is known of their errors.

    Attributes:
        estimate: the model's answers.
        repeats: the same from redrawn noise, one more axis in front; no entries where it cannot be redrawn.
        hidden: the standard deviation of what redrawing does not show; NaN where nothing is known.
        source: where the answers come from.
    """

    estimate: Array
    repeats: Array
    hidden: Array
    source: Source

    @classmethod
    def summed(cls, parts: Sequence["Drawn"]) -> "Drawn":
        """Answers added up; what redrawing does not show is taken to err in the same direction."""
        return cls(
            np.asarray(sum(part.estimate for part in parts)),
            np.asarray(sum(part.repeats for part in parts)),
            np.asarray(sum(part.hidden for part in parts)),
            max((part.source for part in parts), key=_RANK.index),
        )

    def interval(self, level: float) -> Interval:
        """The answers with intervals."""
        errors = self.repeats - self.estimate if len(self.repeats) else np.zeros((1, *self.estimate.shape))
        return interval_of(self.estimate, errors, self.hidden, level, self.source)


@dataclass(frozen=True, eq=False)
class ScaledQuery:
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
class Redrawing:
    """The redraws of a model, made when the first answer needs them and kept for the others.

    Attributes:
        model: the estimate.
        measurements: what it was estimated from.
        draws: how often the noise is drawn again.
    """

    model: Model
    measurements: Sequence[Measurement]
    draws: int = 50

    @cached_property
    def redraws(self) -> Redraws | None:
        """None where the model does not say how it was estimated, so that nobody can repeat it."""
        diagnostics = self.model.diagnostics
        if diagnostics is None or not (diagnostics.schedule or diagnostics.stop == "converged"):
            return None
        cells = sum(m.query.rows for m in self.measurements)
        draws = min(self.draws, max(10, _DRAWN_CELLS // max(1, cells)))
        return Redraws.of(self.model, self.measurements, draws=draws)

    @cached_property
    def ties(self) -> Ties:
        """Which attributes are tied together."""
        return Ties.of(self.model, self.measurements)

    def repeats(self, queries: Sequence[Query]) -> list[Array]:
        """Answers of each redrawn model to each query; fewer draws are asked where there are very many answers."""
        redraws = self.redraws
        if redraws is None:
            return [np.empty((0, *query.shape)) for query in queries]
        most = max(10, _DRAWN_CELLS // max(1, sum(query.rows for query in queries)))
        models = redraws.models[:most]
        each = [self._asked(model).answers(queries) for model in models]
        return [np.array([answers[i] for answers in each]) for i in range(len(queries))]

    def _asked(self, model: Model) -> Model:
        """The model itself, or a copy that takes its tables with it when it goes."""
        return model if self._bytes * self.draws <= _KEPT_BYTES else replace(model)

    @cached_property
    def _bytes(self) -> int:
        return self.model.bytes_of()


@dataclass(frozen=True, eq=False)
class Basis:
    """What answers rest on.

    Attributes:
        schema: what the codes mean.
        redrawing: the model, what it was estimated from, and its redraws.
        level: the share of answers whose interval should hold the truth.
    """

    schema: Schema
    redrawing: Redrawing
    level: float = 0.9

    @property
    def model(self) -> Model:
        """The estimate."""
        return self.redrawing.model

    def drawn(self, terms: Sequence[ScaledQuery]) -> list[Drawn]:
        """Answers to each term."""
        check_level(self.level)
        check_size(term.query for term in terms)
        queries = [term.query for term in terms]
        answers = self.model.answers(queries)
        repeats = self.redrawing.repeats(queries)
        return [self._drawn(*each) for each in zip(terms, answers, repeats, strict=True)]

    def intervals(self, sums: Sequence[Sequence[ScaledQuery]]) -> list[Interval]:
        """Answers to sums of terms."""
        answers = iter(self.drawn([term for terms in sums for term in terms]))
        return [Drawn.summed([next(answers) for _ in terms]).interval(self.level) for terms in sums]

    def _drawn(self, term: ScaledQuery, answer: Array, repeats: Array) -> Drawn:
        source = source_of(term.query, self.redrawing.measurements)
        redraws = self.redrawing.redraws
        if source == "prior":
            # No measurement tells how far off it is; redraws would all agree, and look sure.
            hidden = np.full(answer.shape, np.nan)
        elif redraws is None:
            hidden = self._noise_alone(term.query, answer)
        else:
            hidden = redraws.hidden(term.query, answer, source)
        laid = term.laid(answer)
        again = np.array([term.laid(each) for each in repeats]).reshape(len(repeats), *laid.shape)
        return Drawn(laid, again, term.laid(hidden), self.redrawing.ties.named(source, term.query.clique))

    def _noise_alone(self, query: Query, answer: Array) -> Array:
        """Where an estimate cannot be repeated: the noise of what was itself measured, and how far the estimate is off.

        The interval then holds the one around the noisy answer, which holds the truth as often as it should. Of other
        answers nothing is known.
        """
        same = [m for m in self.redrawing.measurements if m.query == query]
        if not same:
            return np.full(answer.shape, np.nan)
        best = min(same, key=lambda m: m.variance)
        return np.asarray((noise_margin(best, self.level) + np.abs(best.values - answer)) / normal_quantile(self.level))


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
