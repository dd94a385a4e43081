"""Redrawing: answers of a model, and how far they may be off, from redraws of the noise of its measurements."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from priory.answer.basis import Drawn
from priory.answer.drawn_rows import DrawnRows
from priory.answer.errors import Errors
from priory.answer.intervals import Source, noise_margin, normal_quantile, source_of
from priory.answer.redraws import MODELS, Redraws, draws_of
from priory.answer.ties import Ties
from priory.errors import SizeError
from priory.estimate.dirichlet import DIRICHLET, Counts
from priory.estimate.measured import evidence
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.work import tracked

# Draws of a million cells each would take gigabytes: then there are fewer of them.
_DRAWN_CELLS = 20_000_000
# Redrawn models keep their calibrated tables for the next question up to so many bytes together.
_KEPT_BYTES = 2**29


@dataclass(frozen=True, eq=False)
class Redrawing:
    """The redraws of a model, made when the first answer needs them and kept for the others."""

    model: Model  # the estimate
    measurements: Sequence[Measurement]  # what it was estimated from
    draws: int = 50  # how often the noise is drawn again
    known: Callable[[], Errors | None] = lambda: None  # what is known already of what the measurements tell of errors
    keep: Callable[[Errors], None] = lambda _: None  # keeps it where it was not known

    @cached_property
    def redraws(self) -> Redraws | None:
        """None where the model does not say how it was estimated, so that nobody can repeat it."""
        diagnostics = self.model.diagnostics
        if diagnostics is None or not (diagnostics.schedule or diagnostics.stop == "converged"):
            return None
        draws = draws_of(self.measurements, self.draws)
        known = self.known()
        redraws = Redraws.of(self.model, self.measurements, draws=draws, errors=known)
        if known is None:
            self.keep(redraws.errors)
        return redraws

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
        models = tracked(redraws.models[:most], "redrawing noise")
        return redraws.inferred([self._asked(model).answers(queries) for model in models], answers)

    def _asked(self, model: Model) -> Model:
        """The model itself, or a copy that takes its tables with it when it goes."""
        return model if self._bytes * MODELS <= _KEPT_BYTES else replace(model)

    @cached_property
    def _bytes(self) -> int:
        return self.model.bytes_of()

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.model.domain

    def marginals(self, clique: Clique) -> list[Measurement]:
        """The noisy marginals that have all these attributes."""
        holding = [m for m in self.measurements if set(clique) <= set(m.query.clique)]
        return [m for m in holding if m.query.is_marginal and not m.is_public]

    def drawn(self, queries: Sequence[Query], level: float | None) -> list[Drawn]:
        """Answers to each query, with their errors where a level is given."""
        answers, sources = self._answered(queries)
        if level is None:
            unknown = [(np.empty((0, *each.shape)), np.full(each.shape, np.nan)) for each in answers]
        else:
            repeats = self.repeats(queries, answers, sources)
            hidden = [self._hidden(*each, level) for each in zip(queries, answers, repeats, sources, strict=True)]
            unknown = list(zip(repeats, hidden, strict=True))
        return [
            Drawn(answer, repeated, hides, self.ties.named(source, query, self.measurements))
            for query, answer, (repeated, hides), source in zip(queries, answers, unknown, sources, strict=True)
        ]

    def _answered(self, queries: Sequence[Query]) -> tuple[list[Array], list[Source]]:
        """The model's answers, from drawn rows where working them out would take too much memory."""
        sources = [source_of(query, self.measurements) for query in queries]
        try:
            return self.model.answers(queries), sources
        except SizeError:
            answers = [self._answer(query) for query in queries]
        drawn = [
            "drawn" if answer is None and source != "prior" else source
            for answer, source in zip(answers, sources, strict=True)
        ]
        found = [
            self.rows.answer(query) if answer is None else answer
            for query, answer in zip(queries, answers, strict=True)
        ]
        return found, drawn

    def _answer(self, query: Query) -> Array | None:
        try:
            return self.model.answer(query)
        except SizeError:
            return None

    def _hidden(self, query: Query, answer: Array, repeats: Array, source: Source, level: float) -> Array:
        """The standard deviation of what redrawing does not show of an answer."""
        redraws = self.redraws
        if source == "prior":
            # No measurement tells how far off it is; redraws would all agree, and look sure.
            return np.full(answer.shape, np.nan)
        if redraws is None:
            return self._noise_alone(query, answer, level)
        hidden = redraws.hidden(query, answer, repeats, source)
        return hidden if source != "drawn" else np.hypot(hidden, self.rows.stddev(query, answer))

    def _counts(self, clique: Clique) -> Counts:
        """What answers about one attribute say of its counts."""
        if clique not in self._known_counts:
            measured = [m for m in evidence(self.measurements) if m.query.clique == clique]
            self._known_counts[clique] = Counts.of(measured, self.model.total)
        return self._known_counts[clique]

    @cached_property
    def _known_counts(self) -> dict[Clique, Counts]:
        return {}

    def _noise_alone(self, query: Query, answer: Array, level: float) -> Array:
        """Where an estimate cannot be repeated: the noise of what was itself measured, and how far the estimate is off.

        Of single attributes by themselves the posterior says more. Else the interval holds the one around the noisy
        answer, which holds the truth as often as it should. Of other answers nothing is known.
        """
        found = self.model.diagnostics
        if found is not None and found.stop == DIRICHLET and len(query.clique) == 1:
            return self._counts(query.clique).deviations(query, found.total_stddev)
        same = [m for m in self.measurements if m.query == query]
        if not same:
            return np.full(answer.shape, np.nan)
        best = min(same, key=lambda m: m.variance)
        return np.asarray((noise_margin(best, level) + np.abs(best.values - answer)) / normal_quantile(level))
