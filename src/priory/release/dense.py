"""Dense: the model of more marginals than a graphical model can hold, as weighted rows of one that holds some of them.

Rows drawn from a first model are weighted by the other marginals, however these overlap: weighting takes time in
proportion to rows times marginals. No answer is believed twice: it is in the first model, or rows are weighted by it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from priory.errors import SizeError
from priory.estimate.measured import noisy
from priory.estimate.weighed_rows import weighed
from priory.model.bases import Base, PublicRows, Uniform
from priory.model.diagnostics import Diagnostics
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.release.estimated import estimated
from priory.select.candidates import structure
from priory.select.coarsened import Coarsened
from priory.select.noisy_pairs import fitting, strengths, surprises
from priory.work import stage

# Rows drawn for each record, while they are fewer than `Dense.rows`: with half as many triples err by 1 % more.
ROWS_A_RECORD = 16
# Rows drawn for each record of a large table, and for a small one together.
LEAST_A_RECORD, FEWEST_ROWS = 2, 50_000
# Rows times triples, and rows times other marginals, are no more than these places, while there are two rows a record.
MOST_TRIPLE_PLACES, MOST_PLACES = 160_000_000, 75_000_000
# Rows are weighted by coarse pairs beside finer ones where there are no more than these marginals together. Not by some
# of them: those that noise takes farthest from a model would be among them.
MOST_TABLES = 700
# On a device so many times more rows are drawn, however many triples there are: on Adult at ε = 10 triples then err by
# 0.0350 instead of 0.0361.
MORE_ON_A_DEVICE = 2.5
# However many records there are: these rows and all pairs of twenty columns take a gigabyte.
MOST_ROWS = 1_000_000
# A graphical model of more cells takes gigabytes on the way to its answers.
MOST_CELLS = 20_000_000
# Rows may be unable to meet answers exactly: noise below a row is taken for a row.
LEAST_STDDEV = 1.0


@dataclass(frozen=True, kw_only=True)
class Dense:
    """How large such a model is."""

    rows: int = 400_000  # about how many are drawn; more for a large table, fewer for a small one
    model_cells: int = 2_000_000  # how many cells all tables of the first model may have together
    seed: int = 0  # of the rows, which are drawn from what was answered with noise
    device: str | None = None  # a device of torch on which rows are weighted, such as "cuda"
    # a pair goes into the first model where it is farther from it than noise, by so many standard deviations of that
    telling: float = 2.0

    def modelled(self, measurements: Sequence[Measurement], base: Base) -> Model:
        """The graphical model of all measurements where it is small enough or needs no tree; else weighted rows."""
        tree = structure(base.domain, [m.query.clique for m in measurements])
        if base.is_informative or tree.size_in_cells <= MOST_CELLS:
            return estimated(measurements, base)
        single = [m for m in measurements if len(m.query.clique) < 2]
        # Without any one-way marginal the smallest ones begin.
        begin = single or [min(measurements, key=lambda m: m.query.rows)]
        return self.model(begin, [m for m in measurements if m not in begin], (), base)

    def model(
        self,
        begin: Sequence[Measurement],
        pairs: Sequence[Measurement],
        everything: Sequence[Measurement],
        base: Base,
    ) -> Model:
        """Rows of the first model, which holds at least what it begins with, weighted by all that is not in it."""
        with stage(0.0, 0.2, "first model"):
            first, rest = self.begun(begin, pairs, everything, base)
        if not rest:
            return first
        with stage(0.2, 1.0, "weighing rows"):
            last = weighed(rest, self.drawn(first, rest), first.total, device=self.device)
        return replace(last, diagnostics=_both(first, last))

    def wanted(self, total: float, marginals: int, *, are_triples: bool = False) -> int:
        """How many rows stand for so many records, where they are weighted by so many marginals or all triples."""
        records, most = math.ceil(total), self.rows
        if self.device is not None:
            return int(MORE_ON_A_DEVICE * max(min(ROWS_A_RECORD * records, most), FEWEST_ROWS))
        most = min(most, (MOST_TRIPLE_PLACES if are_triples else MOST_PLACES) // max(1, marginals))
        return max(min(ROWS_A_RECORD * records, most), LEAST_A_RECORD * records, FEWEST_ROWS)

    def drawn(self, first: Model, measurements: Sequence[Measurement] = ()) -> PublicRows:
        """Rows drawn from the first model to be weighted by these, or every cell where there are no more of them."""
        if math.isfinite(count := self._count(first, measurements)):
            return PublicRows(first.sample(int(count), seed=self.seed), first.domain)
        with np.errstate(divide="ignore"):
            return PublicRows.of_cells(first.domain, np.log(first.project(first.domain).values))

    def _count(self, first: Model, measurements: Sequence[Measurement] = ()) -> float:
        """How many rows are drawn; infinite where every cell is a row."""
        triples = sum(len(m.query.clique) > 2 for m in measurements)
        are_triples = 2 * triples > len(measurements)  # some of them may be in the first model
        count = min(self.wanted(first.total, len(measurements), are_triples=are_triples), MOST_ROWS)
        return count if first.domain.size > count else math.inf

    def begun(
        self,
        begin: Sequence[Measurement],
        pairs: Sequence[Measurement],
        everything: Sequence[Measurement],
        base: Base,
    ) -> tuple[Model, list[Measurement]]:
        """The model of what it begins with and what else must be in it and fits, and what its rows are weighted by."""
        inside, rest = self._parted(base.domain, begin, pairs, self._missed(begin, pairs))
        first = estimated(inside, base)
        if not _has_all_triples(everything, base.domain):
            is_all = not everything or len(rest) + len(everything) <= MOST_TABLES
            return first, noisy([*(rest if is_all else ()), *everything], LEAST_STDDEV)
        # Rows have one weight for all triples: one that stands out would have the noise of all others fitted, too.
        triples = [m for m in everything if len(m.query.clique) > 2]
        far = surprises(triples, self.as_rows(first), drawn=self._count(first))
        inside_again, others = self._parted(base.domain, inside, everything, far)
        if len(inside_again) > len(inside):
            first = estimated(inside_again, base)
        return first, noisy([*rest, *others], LEAST_STDDEV)

    def _missed(self, begin: Sequence[Measurement], pairs: Sequence[Measurement]) -> Iterable[Clique]:
        """The coarse pairs that tell something beyond a model of what it begins with, the farthest first."""
        if not pairs:
            return ()
        table = Coarsened.of(pairs, begin)
        model = estimated(table.summed(begin), Uniform(table.domain))
        try:
            return strengths(table.pairs(pairs), model, spreads=self.telling)
        except SizeError:
            # What a junction tree says of attributes far apart in it can take gigabytes; rows of it never do.
            rows = self.as_rows(model)
            return strengths(table.pairs(pairs), rows, spreads=self.telling, drawn=self._count(model))

    def as_rows(self, model: Model) -> Model:
        """The model as weighted rows, drawn from it where it is not one already."""
        if isinstance(model.base, PublicRows) and not model.potentials:
            return model
        return replace(Model.of(self.drawn(model), {}, model.total), diagnostics=model.diagnostics)

    def _parted(
        self, domain: Domain, inside: Sequence[Measurement], more: Sequence[Measurement], wanted: Iterable[Clique]
    ) -> tuple[list[Measurement], list[Measurement]]:
        """What is in the model with those of `wanted` that fit in, and what is left of `more`."""
        wanted = list(wanted)
        tree = structure(domain, [m.query.clique for m in inside])
        added = set(fitting(tree, wanted, most=len(wanted), most_cells=self.model_cells))
        return (
            [*inside, *(m for m in more if m.query.clique in added)],
            [m for m in more if m.query.clique not in added],
        )


def _has_all_triples(measurements: Sequence[Measurement], domain: Domain) -> bool:
    return sum(len(m.query.clique) > 2 for m in measurements) >= max(1, math.comb(len(domain), 3))


def _both(first: Model, last: Model) -> Diagnostics | None:
    """The diagnostics of the last step, with the degrees of freedom that the first model has used beside its own."""
    if first.diagnostics is None or last.diagnostics is None:
        return last.diagnostics
    degrees = first.diagnostics.degrees_of_freedom + last.diagnostics.degrees_of_freedom
    return replace(last.diagnostics, degrees_of_freedom=degrees)
