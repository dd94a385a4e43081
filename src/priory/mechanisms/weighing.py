"""Weighing: buy a first model, draw rows from it, and weigh them by every pair, all measured once."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from priory.measure import measure
from priory.mechanisms.aim import AIM
from priory.mechanisms.steps.fitted import Fitted, refitted
from priory.mechanisms.steps.resolution import LEAST_FOR_ONE_WAYS, Resolution, share_of_one_ways
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget, Number
from priory.privacy.curator import Curator
from priory.privacy.journal import Transcript
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.query import Query
from priory.release import Release
from priory.release.dense import Dense
from priory.release.estimated import estimated, uniform
from priory.select.noisy_pairs import joining_pairs, strengths, strong_cliques
from priory.select.one_ways import OneWays

# With more pairs of attributes than this all of them drown: marginals are chosen privately instead.
MOST_PAIRS = 1_000
# A pair's distance from what a noisy tree implies has about so many times the noise of its own answers.
NOISE_OF_A_TREE = 1.8

# Has queries answered for a share of the budget, in proportion to their weights, by a curator or from what one answered
# before; nothing where nothing was answered. The note is for people.
Ask = Callable[[str, Mapping[Query, Number], Budget], Sequence[Measurement]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighing:
    """Buy a first model with a part of the budget, and leave it as far as noisy marginals of everything say.

    One-way marginals are measured, then all pairs on runs of values. From these noisy answers the strongest cliques
    are chosen, which is free, and measured finely: together they give a first model. Rows drawn from it are weighted
    by all pairs, measured once with the rest of the budget. Nothing is chosen privately: all of it is noise on counts.

    A pure budget, with which so many marginals are too noisy, and a table of very many attributes are left to `AIM`.

    Attributes:
        rows: see `Dense`.
        model_cells: see `Dense`.
        fewest_runs: into how many runs of values pairs must at least be cut, above the noise, for cliques to be chosen.
        seed: see `Dense`.
    """

    rows: int = 200_000
    model_cells: int = 2_000_000
    fewest_runs: float = 8
    seed: int = 0
    choice_share: ClassVar[Fraction] = Fraction(0)

    def with_effort(self, factor: float) -> "Weighing":
        """The mechanism with a first model of so many times more cells, and as many more rows."""
        return replace(self, model_cells=int(factor * self.model_cells), rows=int(factor * self.rows))

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Measure step by step, then estimate."""
        if _is_left_to_aim(curator.domain, budget):
            return AIM(model_cells=self.model_cells).run(curator, budget)
        start = Fitted.start(curator, Uniform(curator.domain))
        curator.check(budget)
        numbers = itertools.count(1)

        def ask(note: str, weights: Mapping[Query, Number], share: Budget) -> Sequence[Measurement]:
            curator.report_progress(next(numbers), note=note)
            return measure(curator, list(weights), share, shares=list(weights.values()))

        answered = self._answered(start, budget, ask)
        curator.report_progress(next(numbers), note="weighing rows")
        release = Release(curator.domain, answered.measurements, curator.statement("weighing"))
        return release.with_model(self._model(answered))

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early: the same steps, as far as they were answered."""
        if _is_left_to_aim(release.domain, budget):
            return refitted(release, None)
        batches = (batch.measurements for batch in transcript.answers)
        base = uniform(release.domain, release.schema)
        public = tuple(m for m in release.measurements if m.is_public)
        start = Fitted(base, public, Model(base, {}, max(1.0, float(transcript.public_total or 1))))
        return release.with_model(self._model(self._answered(start, budget, lambda *_: next(batches, ()))))

    def _answered(self, start: Fitted, budget: Budget, ask: Ask) -> "_Answered":
        """One-way marginals, coarse pairs, chosen cliques, everything: each depends on what was answered before."""
        domain = start.base.domain
        one_ways, share = _one_ways(start, budget, ask)
        if len(domain) < 2:
            return _Answered(one_ways)
        resolution = Resolution.of(domain, budget.part(1 - share), one_ways.model.total, self.fewest_runs)
        counts = {name: one_ways.model.project((name,)).values for name in domain}
        coarse = ask("coarse pairs", _alike(resolution.coarse_pairs(domain, counts)), resolution.coarse)
        strength = strengths(coarse, one_ways.model)
        cliques = self._chosen(one_ways, coarse, strength, resolution) if resolution.chosen else []
        resolution = resolution if cliques else resolution.without_choice()
        chosen: Sequence[Measurement] = ()
        if resolution.chosen:
            queries = [Query.marginal(domain, clique) for clique in cliques]
            chosen = ask("chosen cliques", _alike(queries), resolution.chosen)
        every = resolution.every_marginal(domain, counts, strength)
        everything = ask("everything once", _alike(every), resolution.everything)
        return _Answered(one_ways, tuple(coarse), tuple(chosen), tuple(everything))

    def _chosen(
        self, one_ways: Fitted, coarse: Sequence[Measurement], strength: Mapping[Clique, float], resolution: Resolution
    ) -> list[Clique]:
        """A tree of the strongest pairs, and cliques of what it does not imply, all by noisy answers: this is free."""
        domain, most_cells = one_ways.base.domain, self.model_cells / 2
        tree = joining_pairs(domain, strength, most_cells)
        if resolution.last == "runs":
            return tree
        in_tree = set(tree)
        implied = estimated([*one_ways.measurements, *(m for m in coarse if m.query.clique in in_tree)], one_ways.base)
        others = [m for m in coarse if m.query.clique not in in_tree]
        together = {pair: strength[pair] for pair in tree} | strengths(others, implied, noise=NOISE_OF_A_TREE)
        ordered = {pair: together[pair] for pair in sorted(together, key=lambda pair: -together[pair])}
        return strong_cliques(domain, tree, ordered, most_cells)

    def _model(self, answered: "_Answered") -> Model:
        dense = Dense(rows=self.rows, model_cells=self.model_cells, seed=self.seed)
        begin = (*answered.one_ways.measurements, *answered.chosen)
        return dense.model(begin, answered.coarse, answered.everything, answered.one_ways.base)


@dataclass(frozen=True, eq=False)
class _Answered:
    """What was answered in each step."""

    one_ways: Fitted  # with the estimate from them
    coarse: tuple[Measurement, ...] = ()  # all pairs on runs of values
    chosen: tuple[Measurement, ...] = ()  # the cliques that were chosen from noisy answers
    everything: tuple[Measurement, ...] = ()  # all marginals once

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All of it, in order."""
        return (*self.one_ways.measurements, *self.coarse, *self.chosen, *self.everything)


def _one_ways(start: Fitted, budget: Budget, ask: Ask) -> tuple[Fitted, Fraction]:
    """The estimate from one-way marginals, and the share they got, which depends on the noisy number of rows."""
    domain = start.base.domain
    asked = OneWays().strategy(domain)
    first = LEAST_FOR_ONE_WAYS if len(domain) > 1 else Fraction(1)
    fitted = start.with_measured(ask("one-way marginals", asked, budget.part(first)))
    share = share_of_one_ways(domain, budget, fitted.model.total)
    if share <= first:
        return fitted, first
    again = ask("one-way marginals again", asked, budget.part(share - first))
    return fitted.with_measured(again), share


def _alike(queries: Sequence[Query]) -> dict[Query, Number]:
    return dict.fromkeys(queries, 1)


def _is_left_to_aim(domain: Domain, budget: Budget) -> bool:
    return budget.is_pure or math.comb(len(domain), 2) > MOST_PAIRS
