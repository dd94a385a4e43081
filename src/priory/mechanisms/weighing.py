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
from priory.mechanisms.steps.resolution import FEW_RUNS_SHARES, LEAST_FOR_ONE_WAYS, Resolution, share_of_one_ways
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget, Number
from priory.privacy.curator import Curator
from priory.privacy.journal import Transcript
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.release import Release
from priory.release.dense import Dense
from priory.release.estimated import estimated, uniform
from priory.select.merging import merged_parts, merged_query
from priory.select.noisy_pairs import joining_pairs, strengths, strong_cliques
from priory.select.one_ways import OneWays
from priory.select.spanning_tree import spanning_tree

# With more pairs of attributes than this all of them drown: marginals are chosen privately instead.
MOST_PAIRS = 1_000
# With more rows times pairs weighting takes minutes, and on tables of so many records a graphical model is as good.
MOST_PLACES = 40_000_000
# Pairs of more cells are in no tree that is chosen privately: they would have to be counted.
MOST_TREE_CELLS = 1_000_000
# A pair's distance from what a noisy tree implies has about so many times the noise of its own answers.
NOISE_OF_A_TREE = 1.8

# The mean total variation distance of chosen cliques from independence from which on other pairs can tell little beyond
# them: what an attribute has in common with another is then mostly what it has with its neighbours in the tree, and
# noise on one of these is noise on all that hangs on it.
TIED = 0.3
# The distance below which the closest pairs tell nothing, and others less.
UNTIED = 0.01

# Has queries answered for a share of the budget, in proportion to their weights, by a curator or from what one answered
# before; nothing where nothing was answered. The note is for people.
Ask = Callable[[str, Mapping[Query, Number], Budget], Sequence[Measurement]]
# Chooses pairs that join all attributes, on which the model of one-way marginals errs most, for a share of the budget.
Join = Callable[[Fitted, Budget], Sequence[Query]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighing:
    """Buy a first model with a part of the budget, and leave it as far as noisy marginals of everything say.

    One-way marginals are measured, then all pairs on runs of values. From these noisy answers the strongest cliques
    are chosen, which is free, and measured finely: together they give a first model. Rows drawn from it are weighted
    by all pairs, measured once with the rest of the budget. All of it is noise on counts, but where pairs can hardly be
    heard: there a tree of pairs is chosen privately.

    A pure budget, with which so many marginals are too noisy, and a table of very many attributes are left to `AIM`; so
    is the rest after the first one-way marginals where these say that there are very many records.

    Attributes:
        rows: see `Dense`.
        model_cells: see `Dense`.
        fewest_runs: into how many runs of values pairs must be cut, above the noise, for cliques to be chosen by them.
        fewest_for_a_tree: the same for a tree of pairs to be chosen privately, where they cannot be cut into so many.
        seed: see `Dense`.
        thinned: see `Dense`.
        device: see `Dense`.
    """

    rows: int = 400_000
    model_cells: int = 2_000_000
    fewest_runs: float = 8
    fewest_for_a_tree: float = 3
    seed: int = 0
    thinned: int = 1
    device: str | None = None
    # At most this is spent on private choices.
    choice_share: ClassVar[Fraction] = Fraction(FEW_RUNS_SHARES[1], sum(FEW_RUNS_SHARES))

    def with_effort(self, factor: float) -> "Weighing":
        """The mechanism with a first model of so many times more cells, and as many more rows."""
        return replace(self, model_cells=int(factor * self.model_cells), rows=int(factor * self.rows))

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Measure step by step, then estimate."""
        if _is_left_to_aim(curator.domain, budget):
            return AIM(model_cells=self.model_cells).run(curator, budget)
        asked = OneWays().strategy(curator.domain)
        start = Fitted.start(curator, Uniform(curator.domain))
        curator.check(budget)
        numbers = itertools.count(1)

        def ask(note: str, weights: Mapping[Query, Number], share: Budget) -> Sequence[Measurement]:
            curator.report_progress(next(numbers), note=note)
            return measure(curator, list(weights), share, shares=list(weights.values()))

        def join(one_ways: Fitted, share: Budget) -> Sequence[Query]:
            curator.report_progress(next(numbers), note="choosing a tree")
            pairs = _merged_pairs(one_ways)
            return spanning_tree(curator, pairs, one_ways.model, share) if pairs else ()

        first = start.with_measured(ask("one-way marginals", asked, budget.part(LEAST_FOR_ONE_WAYS)))
        if self._takes_long(first):
            return AIM(model_cells=self.model_cells).continued(curator, budget, first, LEAST_FOR_ONE_WAYS)
        answered = self._answered(asked, first, budget, ask, join)
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
        # What was answered has its queries with it: any will do in place of those that were chosen.
        queries = [Query.marginal(release.domain, name) for name in release.domain]
        first = start.with_measured(next(batches, ()))
        if self._takes_long(first):
            return refitted(release, None)
        asked = OneWays().strategy(release.domain)
        answered = self._answered(
            asked,
            first,
            budget,
            lambda *_: next(batches, ()),
            lambda one_ways, _: queries if _merged_pairs(one_ways) else (),
        )
        return release.with_model(self._model(answered))

    def is_left_to_aim(self, domain: Domain, budget: Budget, total: float) -> bool:
        """Whether `AIM` does the work for a table of about so many records."""
        return _is_left_to_aim(domain, budget) or self._are_many(domain, total)

    def places(self, domain: Domain, budget: Budget, total: float) -> int:
        """Rows times the marginals that they are weighted by, for a table of about so many records."""
        left = budget.part(1 - share_of_one_ways(domain, budget, total))
        ways = 3 if self._resolution(domain, left, total).last == "triples" else 2
        return min(self._dense.wanted(total), domain.size) * math.comb(len(domain), ways)

    def _resolution(self, domain: Domain, left: Budget, total: float) -> Resolution:
        limits = {"fewest_runs": self.fewest_runs, "fewest_for_a_tree": self.fewest_for_a_tree}
        return Resolution.of(domain, left, total, **limits)

    def _takes_long(self, first: Fitted) -> bool:
        """Whether a graphical model does better in the time, by noisy answers."""
        return self._are_many(first.base.domain, first.model.total)

    def _are_many(self, domain: Domain, total: float) -> bool:
        """Whether rows and pairs are too many to weigh rows by."""
        return self._dense.wanted(total) * math.comb(len(domain), 2) > MOST_PLACES

    def _answered(
        self, asked: Mapping[Query, Number], first: Fitted, budget: Budget, ask: Ask, join: Join
    ) -> "_Answered":
        """One-way marginals, coarse pairs, chosen cliques, everything: each depends on what was answered before."""
        domain = first.base.domain
        one_ways, share = _one_ways(asked, first, budget, ask)
        if len(domain) < 2:
            return _Answered(one_ways)
        resolution = self._resolution(domain, budget.part(1 - share), one_ways.model.total)
        if resolution.choosing:
            return self._few_runs(one_ways, resolution, ask, join)
        counts = _counts(one_ways)
        coarse = ask("coarse pairs", _alike(resolution.coarse_pairs(domain, counts)), resolution.coarse)
        strength = strengths(coarse, one_ways.model)
        queries: Sequence[Query] = ()
        if resolution.chosen:
            queries = [Query.marginal(domain, clique) for clique in self._chosen(one_ways, coarse, strength)]
        resolution = resolution if queries else resolution.without_choice()
        chosen = ask("chosen cliques", _alike(queries), resolution.chosen) if queries and resolution.chosen else ()
        if resolution.last == "pairs" and _tied(chosen, one_ways.model) >= TIED:
            again = ask("chosen cliques again", _alike(queries), resolution.everything) if resolution.everything else ()
            return _Answered(one_ways, tuple(coarse), (*chosen, *again))
        every = resolution.every_marginal(domain, counts, strength)
        everything = ask("everything once", _alike(every), resolution.everything) if resolution.everything else ()
        return _Answered(one_ways, tuple(coarse), tuple(chosen), tuple(everything))

    def _few_runs(self, one_ways: Fitted, resolution: Resolution, ask: Ask, join: Join) -> "_Answered":
        """A tree that is chosen privately, and coarse pairs where it leaves something to be told."""
        queries = join(one_ways, resolution.choosing) if resolution.choosing else ()
        chosen = ask("chosen cliques", _alike(queries), resolution.chosen) if queries and resolution.chosen else ()
        tied = _tied(chosen, one_ways.model)
        if tied >= TIED:
            again = ask("chosen cliques again", _alike(queries), resolution.coarse)
            return _Answered(one_ways, (), (*chosen, *again))
        if chosen and tied < UNTIED:
            again = ask("one-way marginals once more", OneWays().strategy(one_ways.base.domain), resolution.coarse)
            return _Answered(one_ways.with_measured(again), (), tuple(chosen))
        coarse_pairs = resolution.coarse_pairs(one_ways.base.domain, _counts(one_ways))
        return _Answered(one_ways, tuple(ask("coarse pairs", _alike(coarse_pairs), resolution.coarse)), tuple(chosen))

    def _chosen(
        self, one_ways: Fitted, coarse: Sequence[Measurement], strength: Mapping[Clique, float]
    ) -> list[Clique]:
        """A tree of the strongest pairs, and cliques of what it does not imply, all by noisy answers: this is free."""
        domain, most_cells = one_ways.base.domain, self.model_cells / 2
        tree = joining_pairs(domain, strength, most_cells)
        in_tree = set(tree)
        implied = estimated([*one_ways.measurements, *(m for m in coarse if m.query.clique in in_tree)], one_ways.base)
        others = [m for m in coarse if m.query.clique not in in_tree]
        together = {pair: strength[pair] for pair in tree} | strengths(others, implied, noise=NOISE_OF_A_TREE)
        ordered = {pair: together[pair] for pair in sorted(together, key=lambda pair: -together[pair])}
        return strong_cliques(domain, tree, ordered, most_cells)

    @property
    def _dense(self) -> Dense:
        return Dense(
            rows=self.rows, model_cells=self.model_cells, seed=self.seed, thinned=self.thinned, device=self.device
        )

    def _model(self, answered: "_Answered") -> Model:
        # Where nothing is above the noise the graphical model is the more careful one: it takes what there is.
        dense = self._dense if answered.chosen else replace(self._dense, telling=0.0)
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


def _one_ways(asked: Mapping[Query, Number], first: Fitted, budget: Budget, ask: Ask) -> tuple[Fitted, Fraction]:
    """The estimate from one-way marginals, and the share they got, which depends on the noisy number of rows."""
    domain = first.base.domain
    share = share_of_one_ways(domain, budget, first.model.total) if len(domain) > 1 else Fraction(1)
    if share <= LEAST_FOR_ONE_WAYS:
        return first, LEAST_FOR_ONE_WAYS
    again = ask("one-way marginals again", asked, budget.part(share - LEAST_FOR_ONE_WAYS))
    return first.with_measured(again), share


def _merged_pairs(one_ways: Fitted) -> list[Query]:
    """All pairs that a tree may have, with values merged that noise drowns."""
    domain = one_ways.base.domain
    parts = merged_parts(domain, one_ways.measurements)
    pairs = (pair for pair in itertools.combinations(domain, 2) if domain.size_of(pair) <= MOST_TREE_CELLS)
    return [merged_query(domain, pair, parts) for pair in pairs]


def _counts(one_ways: Fitted) -> dict[str, Array]:
    return {name: one_ways.model.project((name,)).values for name in one_ways.base.domain}


def _tied(chosen: Sequence[Measurement], one_ways: Model) -> float:
    """How closely chosen cliques tie attributes: their mean total variation distance from independence."""
    return sum(strengths(chosen, one_ways).values()) / (2 * max(1, len(chosen)) * one_ways.total)


def _alike(queries: Sequence[Query]) -> dict[Query, Number]:
    return dict.fromkeys(queries, 1)


def _is_left_to_aim(domain: Domain, budget: Budget) -> bool:
    return budget.is_pure or math.comb(len(domain), 2) > MOST_PAIRS
