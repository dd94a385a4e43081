"""Basis: what answers rest on, and answers with all that is known of their errors."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from priory.answer.drawn_rows import DrawnRows
from priory.answer.intervals import (
    Interval,
    Source,
    check_level,
    interval_of,
    noise_margin,
    normal_quantile,
    source_of,
)
from priory.answer.redraws import MODELS, Errors, Redraws, draws_of
from priory.answer.ties import Ties
from priory.data.schema import Schema
from priory.errors import SizeError
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.queries.query import Query

MOST_CELLS = 10_000_000
_RANK: tuple[Source, ...] = ("measured", "inferred", "independent by assumption", "drawn", "prior")
# Draws of a million cells each would take gigabytes: then there are fewer of them.
_DRAWN_CELLS = 20_000_000
# Redrawn models keep their calibrated tables for the next question up to so many bytes together.
_KEPT_BYTES = 2**29


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


@dataclass(frozen=True, eq=False)
class Redrawing:
    """The redraws of a model, made when the first answer needs them and kept for the others."""

    model: Model  # the estimate
    measurements: Sequence[Measurement]  # what it was estimated from
    draws: int = 50  # how often the noise is drawn again
    # finds what the measurements tell of errors, where that may be known already
    errors: Callable[[], Errors] | None = None

    @cached_property
    def redraws(self) -> Redraws | None:
        """None where the model does not say how it was estimated, so that nobody can repeat it."""
        diagnostics = self.model.diagnostics
        if diagnostics is None or not (diagnostics.schedule or diagnostics.stop == "converged"):
            return None
        draws = draws_of(self.measurements, self.draws)
        errors = None if self.errors is None else self.errors()
        return Redraws.of(self.model, self.measurements, draws=draws, errors=errors)

    @cached_property
    def ties(self) -> Ties:
        """Which attributes are tied together."""
        return Ties.of(self.model, self.measurements)

    @cached_property
    def rows(self) -> DrawnRows:
        """Rows of the model, for answers that cannot be worked out."""
        return DrawnRows(self.model)

    def repeats(self, queries: Sequence[Query], answers: Sequence[Array], sources: Sequence[Source]) -> list[Array]:
        """Answers of each draw to each query; fewer draws are asked where there are very many answers."""
        redraws = self.redraws
        if redraws is None:
            return [np.empty((0, *query.shape)) for query in queries]
        most = max(2, _DRAWN_CELLS // max(1, sum(query.rows for query in queries)))
        numbers = [i for i, source in enumerate(sources) if source == "inferred"]
        inferred = iter(self._inferred(redraws, [queries[i] for i in numbers], [answers[i] for i in numbers], most))
        found: list[Array] = []
        for query, answer, source in zip(queries, answers, sources, strict=True):
            if source == "measured":
                found.append(redraws.repeats(query, answer, most))
            elif source == "inferred":
                found.append(next(inferred))
            elif source == "drawn":
                found.append(answer + self.rows.moved(query, redraws.said, most))
            else:
                # Nothing moves what no measurement speaks of.
                found.append(np.broadcast_to(answer, (2, *query.shape)))
        return found

    def _inferred(self, redraws: Redraws, queries: Sequence[Query], answers: Sequence[Array], most: int) -> list[Array]:
        if not queries:
            return []
        return redraws.inferred([self._asked(model).answers(queries) for model in redraws.models[:most]], answers)

    def _asked(self, model: Model) -> Model:
        """The model itself, or a copy that takes its tables with it when it goes."""
        return model if self._bytes * MODELS <= _KEPT_BYTES else replace(model)

    @cached_property
    def _bytes(self) -> int:
        return self.model.bytes_of()


@dataclass(frozen=True, eq=False)
class Basis:
    """What answers rest on."""

    schema: Schema  # what the codes mean
    redrawing: Redrawing  # the model, what it was estimated from, and its redraws
    # the share of answers whose interval should hold the truth; None for answers without intervals
    level: float | None = 0.9

    @property
    def model(self) -> Model:
        """The estimate."""
        return self.redrawing.model

    def drawn(self, terms: Sequence[ScaledQuery]) -> list[Drawn]:
        """Answers to each term."""
        check_size(term.query for term in terms)
        queries = [term.query for term in terms]
        answers, sources = self._answered(queries)
        if self.level is None:
            unknown = [(np.empty((0, *each.shape)), np.full(each.shape, np.nan)) for each in answers]
        else:
            check_level(self.level)
            repeats = self.redrawing.repeats(queries, answers, sources)
            hidden = [self._hidden(*each) for each in zip(queries, answers, sources, strict=True)]
            unknown = list(zip(repeats, hidden, strict=True))
        ties = self.redrawing.ties
        return [
            Drawn(
                term.laid(answer), _laid_each(term, repeated), term.laid(hides), ties.named(source, term.query.clique)
            )
            for term, answer, (repeated, hides), source in zip(terms, answers, unknown, sources, strict=True)
        ]

    def _answered(self, queries: Sequence[Query]) -> tuple[list[Array], list[Source]]:
        """The model's answers, from drawn rows where working them out would take too much memory."""
        sources = [source_of(query, self.redrawing.measurements) for query in queries]
        try:
            return self.model.answers(queries), sources
        except SizeError:
            answers = [self._answer(query) for query in queries]
        drawn = [
            "drawn" if answer is None and source != "prior" else source
            for answer, source in zip(answers, sources, strict=True)
        ]
        found = [
            self.redrawing.rows.answer(query) if answer is None else answer
            for query, answer in zip(queries, answers, strict=True)
        ]
        return found, drawn

    def _answer(self, query: Query) -> Array | None:
        try:
            return self.model.answer(query)
        except SizeError:
            return None

    def intervals(self, sums: Sequence[Sequence[ScaledQuery]]) -> list[Interval]:
        """Answers to sums of terms."""
        answers = iter(self.drawn([term for terms in sums for term in terms]))
        return [Drawn.summed([next(answers) for _ in terms]).interval(self.level) for terms in sums]

    def _hidden(self, query: Query, answer: Array, source: Source) -> Array:
        """The standard deviation of what redrawing does not show of an answer."""
        redraws = self.redrawing.redraws
        if source == "prior":
            # No measurement tells how far off it is; redraws would all agree, and look sure.
            return np.full(answer.shape, np.nan)
        if redraws is None:
            return self._noise_alone(query, answer)
        hidden = redraws.hidden(query, answer, source)
        return hidden if source != "drawn" else np.hypot(hidden, self.redrawing.rows.stddev(query, answer))

    def _noise_alone(self, query: Query, answer: Array) -> Array:
        """Where an estimate cannot be repeated: the noise of what was itself measured, and how far the estimate is off.

        The interval then holds the one around the noisy answer, which holds the truth as often as it should. Of other
        answers nothing is known.
        """
        same = [m for m in self.redrawing.measurements if m.query == query]
        if not same:
            return np.full(answer.shape, np.nan)
        best = min(same, key=lambda m: m.variance)
        level = self.level or 0.0
        return np.asarray((noise_margin(best, level) + np.abs(best.values - answer)) / normal_quantile(level))


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
