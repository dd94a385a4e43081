"""Weighed model: what `Weighing` makes of its answers: a first model, rows of it and public ones, and their weights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from priory.estimate.evidence import Evidence
from priory.estimate.first_model import drawn_rows, first_model, of_single_attributes
from priory.estimate.measured import evidence, noisy, public_total
from priory.estimate.rows.weigh import LEAST_STDDEV, mixture, weighed
from priory.estimate.rows.work import Work
from priory.estimate.total import total_of
from priory.mechanisms.steps.cliques import coarse_model, telling
from priory.mechanisms.steps.drift import said_of_thin, without_thin_columns
from priory.mechanisms.steps.fitted import Fitted, noted
from priory.mechanisms.steps.plan import Settings
from priory.mechanisms.steps.public_rows import neighbourhood
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.work import stage

# What a release says of its public rows.
SHARES = "Public rows have {:.0%} of the weight and drawn rows the rest, as noisy answers say."


@dataclass(frozen=True, eq=False)
class StepAnswers:
    """What was answered in each step, as far as a run came."""

    one_ways: Fitted  # with the estimate from them
    coarse: tuple[Measurement, ...] = ()  # all pairs on runs of values
    chosen: tuple[Measurement, ...] = ()  # the cliques chosen by these
    everything: tuple[Measurement, ...] = ()  # all marginals once

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All of it, in order."""
        return (*self.one_ways.measurements, *self.coarse, *self.chosen, *self.everything)

    @property
    def has_triples(self) -> bool:
        """Whether everything is triples."""
        return bool(self.everything) and all(len(m.query.clique) > 2 for m in self.everything)


@dataclass(frozen=True, kw_only=True, eq=False)
class Weigher:
    """How answers become a model; the attributes are those of `Weighing`."""

    public: PublicRows | None
    settings: Settings
    work: Work
    outside: float
    seed: int
    device: str | None

    def model(self, answered: StepAnswers) -> Model:
        """Rows of a first model, and public ones, weighed by the answers that are not in it."""
        one_ways = answered.one_ways
        if self.public is None and not answered.coarse:
            return of_single_attributes(one_ways.measurements, one_ways.base)
        with stage(0.0, 0.2, "first model"):
            first, inside = self._first_model(answered)
            # All answers say how many records there are, not only those of the first model.
            total = _total(answered)
        # No answer is believed twice: it is in the first model, or rows are weighed by it.
        known = set(inside)
        everything = [m for m in answered.everything if m not in known]
        answers = [*(m for m in answered.coarse if m not in known), *everything]
        answers = noisy(answers if len(answers) <= 2 * self.work.marginals else everything, LEAST_STDDEV)
        with stage(0.2, 1.0, "weighing rows"):
            rows, records = drawn_rows(first, self.work.rows_for(total, len(answers)), self.seed), math.inf
            notes: list[str] = []
            if self.public is not None:
                public, changed = self._public_rows(self.public, total, one_ways.measurements, inside)
                rows, share = mixture(public, rows, noisy(everything, LEAST_STDDEV), total)
                # Public rows are a sample of so many records, and drawn rows beside them make the whole worth more.
                records = self.public.records / share if share else math.inf
                notes = [*([said_of_thin(changed)] if changed else []), SHARES.format(share)]
            if not answers:
                return first if self.public is None else replace(Model.of(rows, {}, total), diagnostics=None)
            model = weighed(answers, rows, total, records=records, device=self.device)
        for note in notes:
            model = noted(model, note)
        return _with_degrees_of(first, model)

    def _first_model(self, answered: StepAnswers) -> tuple[Model, list[Measurement]]:
        """The graphical model of one-way marginals, chosen cliques and what tells beyond them; and the latter.

        Coarse pairs that do are in it while it stays small, and triples where all of these were measured: rows have one
        weight for all answers, and would fit the noise of most of them to meet the one that stands out. Beside public
        rows triples say instead which share these get.
        """
        one_ways, inside = answered.one_ways, list(answered.chosen)
        rows = self.work.rows_for(one_ways.model.total, len(answered.everything))
        cells = self.work.cells_for(one_ways.base.domain)
        found = []
        if answered.coarse:
            begin = [*one_ways.measurements, *inside]
            model, pairs = coarse_model(answered.coarse, begin)
            found = _in_order(answered.coarse, telling(pairs, model, rows=rows, deviations=self.settings.telling))
        first, outside = first_model([*one_ways.measurements, *inside], found, one_ways.base, cells)
        inside += [m for m in found if m not in outside]
        if answered.has_triples and self.public is None:
            order = telling(answered.everything, first, rows=rows, deviations=self.settings.telling)
            found = _in_order(answered.everything, order)
            first, outside = first_model([*one_ways.measurements, *inside], found, one_ways.base, cells)
            inside += [m for m in found if m not in outside]
        return first, inside

    def _public_rows(
        self, public: PublicRows, total: float, one_ways: Sequence[Measurement], pairs: Sequence[Measurement]
    ) -> tuple[PublicRows, list[str]]:
        """Public rows that know what drawn ones do, and the columns that were changed in them.

        They are weighed by one-way marginals, in which populations differ most, then by pairs.
        """
        single = noisy([m for m in evidence(one_ways) if m.query.clique], LEAST_STDDEV)
        known, changed = without_thin_columns(public, single, total)
        rows = neighbourhood(known, self.outside, np.random.default_rng(self.seed))
        for answers in filter(None, (single, noisy(pairs, LEAST_STDDEV))):
            rows = _rows_of(weighed(answers, rows, total, records=public.records))
        return rows, changed


def _total(answered: StepAnswers) -> float:
    given = public_total(answered.measurements)
    known = Evidence.of(answered.one_ways.base.domain, evidence(answered.measurements))
    return total_of(known)(known.values) if given is None else given


def _in_order(answers: Sequence[Measurement], cliques: Sequence[tuple[str, ...]]) -> list[Measurement]:
    of = {m.query.clique: m for m in answers}
    return [of[clique] for clique in cliques]


def _rows_of(model: Model) -> PublicRows:
    if not isinstance(model.base, PublicRows):
        raise TypeError(f"a model of weighed rows is needed, not one of {model.base!r}")
    return model.base


def _with_degrees_of(first: Model, last: Model) -> Model:
    """The last model with the degrees of freedom that the first one used beside its own."""
    if first.diagnostics is None or last.diagnostics is None:
        return last
    degrees = first.diagnostics.degrees_of_freedom + last.diagnostics.degrees_of_freedom
    return replace(last, diagnostics=replace(last.diagnostics, degrees_of_freedom=degrees))
