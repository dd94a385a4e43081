"""Weighing: buy a first model, draw rows from it, and weigh them by every pair, all measured once."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
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

# Weighing rows by all pairs takes minutes on tables of more columns: these get another mechanism by default.
MOST_COLUMNS = 24
# With more pairs of attributes than this all of them drown: marginals are chosen privately instead.
MOST_PAIRS = 1_000
# With more rows times pairs weighting takes minutes, and on tables of so many records a graphical model is as good.
MOST_PLACES = 80_000_000
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
# Whether something else explains coarse pairs already, by one-way marginals and the noisy answers about those.
Explained = Callable[[Fitted, Sequence[Measurement]], bool]
# What part of what is left after one-way marginals asks that, and is still of use where it does not.
TESTED = Fraction(1, 20)
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
        device: see `Dense`.
    """

    rows: int = 400_000
    model_cells: int = 2_000_000
    fewest_runs: float = 8
    fewest_for_a_tree: float = 3
    seed: int = 0
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
        first = self.begun(curator, budget)
        if self.takes_long(first):
            return AIM(model_cells=self.model_cells).continued(curator, budget, first, LEAST_FOR_ONE_WAYS)
        answered = self.answered(curator, budget, first)
        release = Release(curator.domain, answered.measurements, curator.statement("weighing"))
        return release.with_model(self.model(answered))

    def begun(self, curator: Curator, budget: Budget) -> Fitted:
        """The first one-way marginals, for `LEAST_FOR_ONE_WAYS` of the budget."""
        ask, asked = _asking(curator, itertools.count(1)), _one_way_strategy(curator.domain)
        start = Fitted.start(curator, Uniform(curator.domain))
        curator.check(budget)
        return start.with_measured(ask("one-way marginals", asked, budget.part(LEAST_FOR_ONE_WAYS)))

    def answered(
        self, curator: Curator, budget: Budget, first: Fitted, is_explained: Explained | None = None
    ) -> "Answered":
        """Spend the rest of `budget` after the first one-way marginals.

        Where all triples will be measured and pairs are explained already, no clique is chosen.
        """
        numbers = itertools.count(2)

        def join(one_ways: Fitted, share: Budget) -> Sequence[Query]:
            curator.report_progress(next(numbers), note="choosing a tree")
            pairs = _merged_pairs(one_ways)
            return spanning_tree(curator, pairs, one_ways.model, share) if pairs else ()

        answered = self._answered(first, budget, _asking(curator, numbers), join, is_explained)
        curator.report_progress(next(numbers), note="weighing rows")
        return answered

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early: the same steps, as far as they were answered."""
        if _is_left_to_aim(release.domain, budget):
            return refitted(release, None)
        first = self.begun_before(release, transcript)
        if self.takes_long(first):
            return refitted(release, None)
        return release.with_model(self.model(self.answered_before(transcript, budget, first)))

    def begun_before(self, release: Release, transcript: Transcript) -> Fitted:
        """What `begun` made of the answers in `transcript`."""
        base = uniform(release.domain, release.schema)
        public = tuple(m for m in release.measurements if m.is_public)
        start = Fitted(base, public, Model(base, {}, max(1.0, float(transcript.public_total or 1))))
        return start.with_measured(next(_batches(transcript), ()))

    def answered_before(
        self, transcript: Transcript, budget: Budget, first: Fitted, is_explained: Explained | None = None
    ) -> "Answered":
        """What `answered` made of the answers in `transcript`, as far as there are some."""
        batches, domain = _batches(transcript), first.base.domain
        next(batches, ())
        # What was answered has its queries with it: any will do in place of those that were chosen.
        queries = [Query.marginal(domain, name) for name in domain]
        return self._answered(
            first,
            budget,
            lambda *_: next(batches, ()),
            lambda one_ways, _: queries if _merged_pairs(one_ways) else (),
            is_explained,
        )

    def is_left_to_aim(self, domain: Domain, budget: Budget, total: float) -> bool:
        """Whether `AIM` does the work for a table of about so many records."""
        return _is_left_to_aim(domain, budget) or self._are_many(domain, total)

    def places(self, domain: Domain, budget: Budget, total: float) -> int:
        """Rows times the marginals that they are weighted by, for a table of about so many records."""
        left = budget.part(1 - share_of_one_ways(domain, budget, total))
        triples = math.comb(len(domain), 3) if self._resolution(domain, left, total).last == "triples" else 0
        marginals = triples or math.comb(len(domain), 2)
        return min(self._dense.wanted(total, triples), domain.size) * marginals

    def _resolution(self, domain: Domain, left: Budget, total: float) -> Resolution:
        limits = {"fewest_runs": self.fewest_runs, "fewest_for_a_tree": self.fewest_for_a_tree}
        return Resolution.of(domain, left, total, **limits)

    def takes_long(self, first: Fitted) -> bool:
        """Whether a graphical model does better in the time, by noisy answers."""
        return self._are_many(first.base.domain, first.model.total)

    def _are_many(self, domain: Domain, total: float) -> bool:
        """Whether rows and pairs are too many to weigh rows by."""
        return self._dense.wanted(total) * math.comb(len(domain), 2) > MOST_PLACES

    def _answered(
        self, first: Fitted, budget: Budget, ask: Ask, join: Join, is_explained: Explained | None
    ) -> "Answered":
        """One-way marginals, coarse pairs, chosen cliques, everything: each depends on what was answered before."""
        domain = first.base.domain
        one_ways, share = _one_ways(first, budget, ask)
        if len(domain) < 2:
            return Answered(one_ways)
        left = budget.part(1 - share)
        resolution = self._resolution(domain, left, one_ways.model.total)
        if resolution.choosing:
            return self._few_runs(one_ways, resolution, ask, join)
        counts = _counts(one_ways)
        tested: Sequence[Measurement] = ()
        if resolution.last == "triples" and is_explained is not None:
            tested = ask("coarse pairs, as a test", _alike(resolution.coarse_pairs(domain, counts)), left.part(TESTED))
            left = left.part(1 - TESTED)
            if is_explained(one_ways, tested):
                every = resolution.every_marginal(domain, counts, strengths(tested, one_ways.model))
                everything = ask("everything once", _alike(every), left)
                return Answered(one_ways, coarse=tuple(tested), everything=tuple(everything))
            resolution = self._resolution(domain, left, one_ways.model.total)
        coarse = ask("coarse pairs", _alike(resolution.coarse_pairs(domain, counts)), resolution.coarse)
        strength = strengths(coarse, one_ways.model)
        queries: Sequence[Query] = ()
        if resolution.chosen:
            queries = [Query.marginal(domain, clique) for clique in self._chosen(one_ways, coarse, strength)]
        resolution = resolution if queries else resolution.without_choice()
        chosen = ask("chosen cliques", _alike(queries), resolution.chosen) if queries and resolution.chosen else ()
        if resolution.last == "pairs" and _tied(chosen, one_ways.model) >= TIED:
            again = ask("chosen cliques again", _alike(queries), resolution.everything) if resolution.everything else ()
            return Answered(one_ways, tuple(coarse), (*chosen, *again))
        every = resolution.every_marginal(domain, counts, strength)
        everything = ask("everything once", _alike(every), resolution.everything) if resolution.everything else ()
        return Answered(one_ways, tuple(coarse), tuple(chosen), tuple(everything), tested=tuple(tested))

    def _few_runs(self, one_ways: Fitted, resolution: Resolution, ask: Ask, join: Join) -> "Answered":
        """A tree that is chosen privately, and coarse pairs where it leaves something to be told."""
        queries = join(one_ways, resolution.choosing) if resolution.choosing else ()
        chosen = ask("chosen cliques", _alike(queries), resolution.chosen) if queries and resolution.chosen else ()
        tied = _tied(chosen, one_ways.model)
        if tied >= TIED:
            again = ask("chosen cliques again", _alike(queries), resolution.coarse)
            return Answered(one_ways, (), (*chosen, *again))
        if chosen and tied < UNTIED:
            again = ask("one-way marginals once more", _one_way_strategy(one_ways.base.domain), resolution.coarse)
            return Answered(one_ways, (), tuple(chosen), again=tuple(again))
        coarse_pairs = resolution.coarse_pairs(one_ways.base.domain, _counts(one_ways))
        coarse = ask("coarse pairs", _alike(coarse_pairs), resolution.coarse)
        return Answered(one_ways, tuple(coarse), tuple(chosen), has_tree=True)

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
        return Dense(rows=self.rows, model_cells=self.model_cells, seed=self.seed, device=self.device)

    def model(self, answered: "Answered") -> Model:
        """The model of what was answered."""
        # Where nothing is above the noise the graphical model is the more careful one: it takes what there is.
        dense = self._dense if answered.chosen else replace(self._dense, telling=0.0)
        begin = (*answered.one_ways.measurements, *answered.again, *answered.chosen)
        everything = (*answered.tested, *answered.everything)
        return dense.model(begin, answered.coarse, everything, answered.one_ways.base)

    def as_rows(self, model: Model) -> Model:
        """Such a model as weighted rows, drawn from it where it is not one already."""
        return self._dense.as_rows(model)


@dataclass(frozen=True, eq=False)
class Answered:
    """What was answered in each step."""

    one_ways: Fitted  # with the estimate from them
    coarse: tuple[Measurement, ...] = ()  # all pairs on runs of values
    chosen: tuple[Measurement, ...] = ()  # the cliques that were chosen from noisy answers
    everything: tuple[Measurement, ...] = ()  # all marginals once
    tested: tuple[Measurement, ...] = ()  # coarse pairs that were a test, before all others; rows are weighted by them
    again: tuple[Measurement, ...] = ()  # single attributes once more, after all others
    has_tree: bool = False  # whether the chosen ones are a tree that was measured before coarse pairs

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All of it, in order."""
        pairs = (*self.chosen, *self.coarse) if self.has_tree else (*self.coarse, *self.chosen)
        return (*self.one_ways.measurements, *self.tested, *pairs, *self.everything, *self.again)

    @property
    def has_triples(self) -> bool:
        """Whether all triples were measured."""
        return any(len(m.query.clique) > 2 for m in self.everything)


def _one_ways(first: Fitted, budget: Budget, ask: Ask) -> tuple[Fitted, Fraction]:
    """The estimate from one-way marginals, and the share they got, which depends on the noisy number of rows."""
    domain = first.base.domain
    share = share_of_one_ways(domain, budget, first.model.total) if len(domain) > 1 else Fraction(1)
    if share <= LEAST_FOR_ONE_WAYS:
        return first, LEAST_FOR_ONE_WAYS
    again = ask("one-way marginals again", _one_way_strategy(domain), budget.part(share - LEAST_FOR_ONE_WAYS))
    return first.with_measured(again), share


@lru_cache(maxsize=8)
def _one_way_strategy(domain: Domain) -> Mapping[Query, Number]:
    """What is asked of single attributes, each time the same."""
    return OneWays().strategy(domain)


def _asking(curator: Curator, numbers: Iterator[int]) -> Ask:
    """Has a curator answer, each time as the step of the next number."""

    def ask(note: str, weights: Mapping[Query, Number], share: Budget) -> Sequence[Measurement]:
        curator.report_progress(next(numbers), note=note)
        return measure(curator, list(weights), share, shares=list(weights.values()))

    return ask


def _batches(transcript: Transcript) -> Iterator[Sequence[Measurement]]:
    return (batch.measurements for batch in transcript.answers)


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
