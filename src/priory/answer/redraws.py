"""Redraws: how far answers move when the noise of all measurements is drawn again.

Fresh noise of the kind and scale that was measured with is added to the model's own answers, and the estimate's
response (`estimate/response.py`) says how far each measured table moves: as far as the model's answers lie from the
truth. No rows are resampled: the target is the table. Answers that lie in no measured table move as a model does whose
potentials the tables move. What redrawing cannot show is added: of measured answers what stopping shrinks away, by the
estimated error of the fit; of others what the model assumes, by how measured marginals follow from others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.answer.errors import Bias, Errors, size_groups
from priory.answer.intervals import Source
from priory.answer.misfit import misfit_of
from priory.answer.neighbours import Neighbours
from priory.errors import OptionError
from priory.estimate.response import Response
from priory.estimate.tables import Rows, Table
from priory.model.model import Model
from priory.model.tilted import merged
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique
from priory.queries.factor import Array, Factor
from priory.queries.query import Query

# Sizes, in standard deviations, between which the bias of measured answers is compared, and the fewest answers between
# two of them: with fewer the comparison is mostly noise.
_EDGES, _FEWEST = (0.1, 0.3, 1.0, 2.0, 5.0, 20.0), 150
# So many of the draws make models, for answers that were not measured: their noise is the smaller part of their error.
MODELS = 10
# How far along its potentials a model goes: as far as it is straight.
STRIDE = 1e-4
# Draws from which the bias is found; and how many numbers all draws together may have.
_ERROR_DRAWS, _DRAWN_CELLS = 50, 20_000_000
SEED = 0


def errors_of(response: Response, measurements: Sequence[Measurement]) -> Errors:
    """Work out what the measurements of a model tell of the errors of its answers."""
    layout = response.evidence.layout
    marginals = {clique: factor.values for clique, factor in layout.unpack(response.marginals).items()}
    misfit = misfit_of(Neighbours(response.model, marginals), measurements)
    return Errors(response.temperature, bias_of(response, draws_of(measurements, _ERROR_DRAWS)), misfit)


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
        span = self.response.columns.spans[name]
        together = np.zeros((int(rows.max()) + 1, counts.shape[1]))
        np.add.at(together, rows, counts[span])
        whole = np.bincount(rows, weights=self.response.columns.shares[span])
        return np.asarray(
            self.response.columns.along(name, counts) - (together / np.maximum(whole, 1e-3)[:, None])[rows]
        )

    @cached_property
    def said(self) -> dict[Clique, Array]:
        """The directions in which the first draws move the model's potentials."""
        return self.response.said(self.counts[:, : min(self.draws, MODELS)], SEED)

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
        return [np.array([answer + (each[i] - answer) / STRIDE for each in asked]) for i, answer in enumerate(answers)]

    def hidden(self, query: Query, answer: Array, source: Source) -> Array:
        """The standard deviation of what redrawing does not show."""
        return self.errors.hidden(query, answer, source, self.measurements)


def bias_of(response: Response, draws: int) -> Bias:
    """What redrawing does not show of measured answers, from the noise that is added and how the answers move.

    An answer F_j with leverage h_j = ∂F_j/∂y_j has a mean squared error, in units of its noise, that Stein's formula
    ((y_j − F_j)/σ)² − 1 + 2h_j estimates without bias; redrawing shows only its variance. The two are compared over
    answers of like size, as a single one says next to nothing.
    """
    fitted, stddevs = response.evidence.values, response.evidence.stddevs
    leverage, squares = np.zeros(len(fitted)), np.zeros(len(fitted))
    counts = response.counts(draws, SEED)
    for index, table in enumerate(response.tables):
        moved = response.moved(index, counts, SEED).reshape(-1, draws)
        for number in table.numbers:
            span = response.evidence.spans[number]
            leverage[span] = np.mean(response.noise(number, draws, SEED).reshape(-1, draws) * moved, axis=1)
            squares[span] = np.mean(moved**2, axis=1)
    leverage /= stddevs**2
    excess = ((response.measured - fitted) / stddevs) ** 2 - 1 + 2 * leverage - squares / stddevs**2
    sizes = fitted / stddevs
    edges = size_groups(sizes, _EDGES, _FEWEST)
    group = np.searchsorted(edges, sizes)
    numbers = np.maximum(np.bincount(group, minlength=len(edges) + 1), 1)
    means, spreads = (np.bincount(group, excess**power, len(edges) + 1) / numbers for power in (1, 2))
    # One standard error is added: an interval that is too wide does less harm than one that is too narrow. It is
    # never less than that of the noise that is not fitted: a few answers that happen to agree prove nothing.
    unfitted = 2 * np.bincount(group, (1 - np.clip(leverage, 0, 1)) ** 4, len(edges) + 1) / numbers
    errors = np.sqrt(np.maximum(spreads - means**2, unfitted) / numbers)
    return Bias(edges, np.sqrt(np.maximum(means, 0.0) + errors))
