"""Redraws: how far answers move when the noise of all measurements is drawn again.

Fresh noise of the kind and scale that was measured with is added to the model's own answers, and the estimate's
response (`estimate/response.py`) says how far each measured table moves: as far as noise takes the model's answers from
the truth. No rows are resampled: the target is the table. Answers that lie in no measured table move as a model does
whose potentials the tables move. What redrawing cannot show, as estimates shrink noise and models assume, is added:
the error of an answer follows from its size, by a law (`answer/errors.py`) that is found from the measured ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from priory.answer.errors import Errors, SizeLaw, has_all_pairs, law_of
from priory.answer.intervals import Source
from priory.answer.misfit import least_misfit
from priory.answer.neighbours import Neighbours
from priory.answer.ties import below
from priory.errors import OptionError
from priory.estimate.response import Response
from priory.estimate.tables import Rows, Table
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.model.tilted import merged
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique
from priory.queries.factor import Array, Factor
from priory.queries.query import Query

# Sizes, in standard deviations, between which the errors of measured answers are put together.
_EDGES = np.array([0.03, 0.1, 0.3, 1.0, 2.0, 5.0, 20.0, 100.0])
# So many of the draws make models, for answers that were not measured: their noise is the smaller part of their error.
MODELS = 10
# How far along its potentials a model goes: as far as it is straight.
STRIDE = 1e-4
# So many measured tables say how far moved models go.
_COMPARED = 8
# Draws from which the errors are found; and how many numbers all draws together may have.
_ERROR_DRAWS, _DRAWN_CELLS = 50, 20_000_000
SEED = 0


def errors_of(response: Response, measurements: Sequence[Measurement]) -> Errors:
    """Work out what the measurements of a model tell of the errors of its answers."""
    model = response.model
    errors = Errors(
        response.temperature,
        model.total,
        laws_of(response, draws_of(measurements, _ERROR_DRAWS)),
        has_all_pairs(model.domain.attributes, measurements),
        _least(model),
    )
    if errors.has_all_pairs:
        return errors
    layout = response.evidence.layout
    marginals = {clique: factor.values for clique, factor in layout.unpack(response.marginals).items()}
    return replace(errors, misfit=least_misfit(Neighbours(model, marginals), measurements))


def _least(model: Model) -> float:
    """Half of the records that a row stands for, in a model of rows."""
    base, _ = below(model)
    return 0.5 * model.total / len(base.codes) if isinstance(base, PublicRows) else 0.0


def draws_of(measurements: Sequence[Measurement], wanted: int) -> int:
    """How many draws to make: draws of a million cells each would take gigabytes, and then there are fewer of them."""
    return min(wanted, max(10, _DRAWN_CELLS // max(1, sum(m.query.rows for m in measurements))))


@dataclass(frozen=True, eq=False)
class Redraws:
    """The noise of all measurements drawn again and again."""

    response: Response  # how answers respond to noise
    measurements: tuple[Measurement, ...]  # what the model was estimated from
    draws: int  # how often the noise is drawn
    errors: Errors  # what redrawing does not show

    @classmethod
    def of(
        cls, model: Model, measurements: Sequence[Measurement], *, draws: int = 50, errors: Errors | None = None
    ) -> "Redraws":
        """Draw the noise again; fewer than 2 draws are an `OptionError`."""
        if draws < 2:
            raise OptionError("draws", f"at least 2; got {draws}")
        response = Response.of(model, measurements, None if errors is None else errors.temperature)
        known = errors_of(response, measurements) if errors is None else errors
        return cls(response, tuple(measurements), draws, known)

    @cached_property
    def counts(self) -> Array:
        """How far the counts of all columns' values move in each draw."""
        return self.response.counts(self.draws, SEED)

    def repeats(self, query: Query, answer: Array, most: int) -> Array:
        """The answers of at most so many draws, one more axis in front, where a measured table holds the query."""
        index, table = self._best(query)
        counts = self.counts[:, :most]
        moved = self.response.moved(index, counts, SEED)
        if table.query != query:
            moved = self._read(index, moved, counts, query)
        return np.asarray(answer + np.moveaxis(moved, -1, 0))

    def _best(self, query: Query) -> tuple[int, Table]:
        """The measured table that holds the query with the least noise."""
        holding = [(i, t) for i, t in enumerate(self.response.tables) if set(query.clique) <= set(t.query.clique)]
        return min(
            holding,
            key=lambda each: (each[1].query != query, each[1].rows is None, float(np.sum(each[1].stddevs ** 2))),
        )

    def _read(self, index: int, moved: Array, counts: Array, query: Query) -> Array:
        """How the answers of a query move with a table that holds its attributes."""
        table = self.response.tables[index]
        clique = table.query.clique
        summed = tuple(axis for axis, name in enumerate(clique) if name not in query.clique)
        kept = [axis for axis, name in enumerate(clique) if name in query.clique]
        marginal = table.marginal.sum(axis=summed)[..., None]
        if table.rows is None:
            added = self.response.added(table, counts.shape[1], SEED)
            said = self.response.columns.said(index, added, moved)
            mass = table.marginal[..., None]
            mean = np.sum(mass * said, axis=tuple(range(len(clique)))) / max(float(mass.sum()), 1.0)
            grown = self.response.grown(marginal[..., 0], self.response.records(counts.shape[1], SEED))
            cells = (mass * (said - mean)).sum(axis=summed) + grown
        else:
            cells, held = moved.sum(axis=summed), table.fitted.sum(axis=summed)[..., None]
            share = np.zeros_like(cells)
            for place, axis in enumerate(kept):
                rows, name = table.rows[axis], clique[axis]
                if cells.shape[place] == len(rows):
                    continue
                cells, held, share = (each.take(rows, axis=place) for each in (cells, held, share))
                if name in self.response.columns.spans:
                    shape = [-1 if k == place else 1 for k in range(len(kept))]
                    share = share + self._within(name, rows, counts).reshape(*shape, counts.shape[1])
            part = np.divide(marginal, held, out=np.zeros_like(marginal * held), where=held > 0)
            cells = cells * part + marginal * share
        left = [clique[axis] for axis in kept]
        cells = cells.transpose([*(left.index(name) for name in query.clique), len(left)])
        for axis, part_of in enumerate(query.parts):
            cells = part_of.apply(cells, axis)
        return np.asarray(cells, dtype=np.float64)

    def _within(self, name: str, rows: Rows, counts: Array) -> Array:
        """How the logarithms of a column's shares within each place that counts several of its values move."""
        columns = self.response.columns
        return np.asarray(columns.along(name, counts) - columns.along(name, counts, rows))

    @cached_property
    def said(self) -> dict[Clique, Array]:
        """The directions in which the first draws move the model's potentials."""
        return self.response.said(self.counts[:, : min(self.draws, MODELS)], SEED)

    @cached_property
    def share(self) -> float:
        """How much of the way along its potentials a model goes: as far as its measured tables move.

        On a tree of tables that is all of it; where tables overlap, each has what others say of it in its own move.
        """
        if self.response.columns.is_tree:
            return 1.0
        tables = [(i, t) for i, t in enumerate(self.response.tables) if len(t.query.clique) > 1]
        some = sorted(tables, key=lambda each: each[1].query.rows)[:: -(-len(tables) // _COMPARED)]
        counts = self.counts[:, : len(self.models)]
        answers = [table.fitted for _, table in some]
        moved = self._moved([model.answers([table.query for _, table in some]) for model in self.models], answers)
        wanted = [np.moveaxis(self.response.moved(i, counts, SEED), -1, 0) for i, _ in some]
        sums = [
            sum(float(np.sum(each**2 / np.maximum(answer, 1.0))) for each, answer in zip(moves, answers, strict=True))
            for moves in (wanted, moved)
        ]
        return min(1.0, math.sqrt(sums[0] / max(sums[1], 1e-300)))

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The model moved a little way in the direction of each of the first draws."""
        model = self.response.model
        count = min(self.draws, MODELS)
        records = self.response.records(count, SEED)
        moved = []
        for k in range(count):
            tables = {c: Factor(model.domain.project(c), STRIDE * table[..., k]) for c, table in self.said.items()}
            moved.append(Model(model.base, merged(model.potentials, tables), model.total + STRIDE * records[k]))
        return tuple(moved)

    def inferred(self, asked: Sequence[list[Array]], answers: Sequence[Array]) -> list[Array]:
        """From answers of the moved models, those of each query in each draw."""
        moved = self._moved(asked, answers)
        return [answer + self.share * each for answer, each in zip(answers, moved, strict=True)]

    def _moved(self, asked: Sequence[list[Array]], answers: Sequence[Array]) -> list[Array]:
        return [np.array([(each[i] - answer) / STRIDE for each in asked]) for i, answer in enumerate(answers)]

    def hidden(self, query: Query, answer: Array, repeats: Array, source: Source) -> Array:
        """The standard deviation of what redrawing does not show."""
        return self.errors.hidden(
            query, answer, repeats, growth=self._growth, source=source, measurements=self.measurements
        )

    @cached_property
    def _growth(self) -> Array:
        """The part by which all records grow in each draw."""
        total = np.asarray(self.response.model.total)
        moved = self.repeats(Query.marginal(self.response.model.domain, ()), total, self.draws) - total
        return np.asarray(moved.reshape(-1) / max(float(total), 1.0))


def laws_of(response: Response, draws: int) -> tuple[SizeLaw, ...]:
    """The error of answers by their size, from the noise that is added and how the answers move.

    An answer F_j with leverage h_j = ∂F_j/∂y_j has a mean squared error, in units of its noise, that Stein's formula
    ((y_j − F_j)/σ)² − 1 + 2h_j estimates without bias; redrawing shows only its variance. A single one says next to
    nothing: those of like size are put together, and a law is fitted to the groups of each number of attributes.
    """
    fitted, stddevs = response.evidence.values, response.evidence.stddevs
    leverage, attributes = np.zeros(len(fitted)), np.zeros(len(fitted), dtype=int)
    counts = response.counts(draws, SEED)
    for index, table in enumerate(response.tables):
        moved = response.moved(index, counts, SEED).reshape(-1, draws)
        for number in table.numbers:
            span = response.evidence.spans[number]
            leverage[span] = np.mean(response.noise(number, draws, SEED).reshape(-1, draws) * moved, axis=1)
            attributes[span] = len(table.query.clique)
    leverage /= stddevs**2
    misfits = ((response.measured - fitted) / stddevs) ** 2 - 1
    group = np.searchsorted(_EDGES, fitted / stddevs)
    laws = []
    for count in sorted(set(attributes.tolist()) - {0}):
        grouped = [np.nonzero((attributes == count) & (group == number))[0] for number in range(len(_EDGES) + 1)]
        means = [_mean(fitted[i], stddevs[i], misfits[i], leverage[i]) for i in grouped if len(i)]
        laws.append(law_of(count, *np.array(means).T))
    return tuple(laws)


def _mean(fitted: Array, stddevs: Array, misfits: Array, leverage: Array) -> tuple[float, ...]:
    """The mean size of answers, their mean squared error and its weight, and the deviation of their noise."""
    # A most likely answer has the error hσ², and leaves misfits of −h. Larger ones, above 0, are bias. Smaller ones say
    # that more of the noise was fitted than was seen: tables tell each other more than their columns. Stein's estimate,
    # misfit + 2h, is the same where all is as it should be, but counts what is wrong with h twice.
    misfit, followed = float(np.mean(misfits)), float(np.mean(leverage))
    error = max(followed, -misfit) + max(misfit, 0.0)
    # The variance of misfits is that of noise that is not fitted, or more where answers differ.
    weight = len(misfits) / max(2.0, float(np.var(misfits)))
    return float(np.mean(np.maximum(fitted, 0.0))), error, float(np.sqrt(np.mean(stddevs**2))), weight
