"""Weighing: buy a first model, draw rows from it, and weigh them by every pair, all measured once."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from priory.measure import measure
from priory.mechanisms.aim import AIM
from priory.mechanisms.steps.answered import (
    TIED,
    Answered,
    Ask,
    alike,
    alone,
    counts_of,
    one_way_strategy,
    tied,
    until,
)
from priory.mechanisms.steps.few_runs import Join, forest, mergeable_pairs, tree
from priory.mechanisms.steps.fitted import Fitted, refitted
from priory.mechanisms.steps.resolution import (
    FEWEST_FOR_A_FOREST,
    FEWEST_FOR_A_TREE,
    FEWEST_RUNS,
    LEAST_FOR_ONE_WAYS,
    MOST_MARGINALS,
    TREE_SHARES,
    Everything,
    Forest,
    Resolution,
    Tree,
    resolution_for,
    share_of_one_ways,
)
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget, Number
from priory.privacy.journal import Transcript
from priory.privacy.measurement import Measurement
from priory.privacy.session import Session
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.release import Release
from priory.release.dense import LEAST_A_RECORD, MOST_PLACES, Dense
from priory.release.estimated import estimated, of_single_attributes, uniform
from priory.select.coarsened import Coarsened
from priory.select.noisy_pairs import joining_pairs, strengths, strong_cliques
from priory.select.spanning_tree import spanning_tree

# Of more pairs of attributes some are chosen by another mechanism, and of more than the second nothing is chosen here.
MOST_PAIRS, MOST_CANDIDATES = 1_200, 6_000
# Rows drawn from a model of fewer for each record are farther from it than another mechanism's model is from the truth.
FEWEST_A_RECORD = 3
# With more rows times coarse pairs weighting takes minutes.
MOST_COARSE_PLACES = 200_000_000
# Where the strongest pair is closer to independence than this, as total variation, no clique is worth more than others:
# all that is left goes to everything once. Pairs of the parities, which only chance ties, err by a fifth less then.
FAINT = 0.02
# A pair's distance from what a noisy tree implies has about so many times the noise of its own answers.
NOISE_OF_A_TREE = 1.8


@dataclass(frozen=True, eq=False)
class Explained:
    """Something else that may explain coarse pairs already, so that no clique need be chosen by them."""

    # What is asked once then, by one-way marginals and noisy answers about coarse pairs; nothing where these are not
    # explained, or by what counts for less than a part of itself.
    queries: Callable[[Fitted, Sequence[Measurement], float], Sequence[Query]]
    records: float  # how many records it rests on


# These parts where few runs of values are above the noise, and where all triples are measured, which find what was
# missed: with the first one a third of the runs of the reduced ACS at ε = 1 fail by chance, and err by 12 % more.
MOSTLY, PARTLY = 0.9, 0.25
# With fewer records than this part of the private ones nothing explains triples as well as they tell themselves: asking
# for it costs 4 to 6 % on half as many rows of the town at ε = 10.
ENOUGH = 0.75
# What part of what is left after one-way marginals asks that, and is still of use where it does not.
TESTED = Fraction(1, 20)


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighing:
    """Buy a first model with a part of the budget, and leave it as far as noisy marginals of everything say.

    One-way marginals are measured, then all pairs on runs of values. From these noisy answers the strongest cliques
    are chosen, which is free, and measured finely: together they give a first model. Rows drawn from it are weighted
    by all pairs, measured once with the rest of the budget. All of it is noise on counts, but where pairs can hardly be
    heard: there a tree of pairs, or some of one, is chosen privately.

    A pure budget, with which so many marginals are too noisy, and a table of very many attributes are left to `AIM`; so
    is the rest after the first one-way marginals where these say that there are very many records.

    Attributes:
        rows: see `Dense`.
        model_cells: see `Dense`.
        fewest_runs: into how many runs of values pairs must be cut, above the noise, for cliques to be chosen by them.
        fewest_for_a_tree: the same for a tree of pairs to be chosen privately, where they cannot be cut into so many.
        fewest_for_a_forest: the same for some pairs to be chosen privately, and no others to be measured.
        seed: see `Dense`.
        device: see `Dense`.
    """

    rows: int = 400_000
    model_cells: int = 2_000_000
    fewest_runs: float = FEWEST_RUNS
    fewest_for_a_tree: float = FEWEST_FOR_A_TREE
    fewest_for_a_forest: float = FEWEST_FOR_A_FOREST
    seed: int = 0
    device: str | None = None
    # At most this is spent on private choices.
    choice_share: ClassVar[Fraction] = Fraction(TREE_SHARES[1], sum(TREE_SHARES))

    def with_effort(self, factor: float) -> "Weighing":
        """The mechanism with a first model of so many times more cells, and as many more rows."""
        return replace(self, model_cells=int(factor * self.model_cells), rows=int(factor * self.rows))

    def run(self, curator: Session, budget: Budget) -> Release:
        """Measure step by step, then estimate."""
        if budget.is_pure:
            return self._aim.run(curator, budget)
        first = self.begun(curator, budget)
        if self.takes_long(first, budget):
            return self._aim.continued(curator, budget, first, LEAST_FOR_ONE_WAYS)
        answered = self.answered(curator, budget, first)
        release = Release(curator.domain, answered.measurements, curator.statement("weighing"))
        return release.with_model(self.model(answered))

    @property
    def _aim(self) -> AIM:
        """What does the work where this takes long."""
        return AIM(model_cells=self.model_cells)

    def begun(self, curator: Session, budget: Budget) -> Fitted:
        """The first one-way marginals, for `LEAST_FOR_ONE_WAYS` of the budget."""
        ask, asked = _asking(curator, itertools.count(1)), one_way_strategy(curator.domain)
        start = Fitted.start(curator, Uniform(curator.domain))
        curator.check(budget)
        return start.with_measured(ask("one-way marginals", asked, budget.part(LEAST_FOR_ONE_WAYS)))

    def answered(self, curator: Session, budget: Budget, first: Fitted, explained: Explained | None = None) -> Answered:
        """Spend the rest of `budget` after the first one-way marginals.

        Where pairs are explained already, no clique is chosen if all triples or few runs of values would be measured.
        """
        numbers = itertools.count(2)

        def join(one_ways: Fitted, share: Budget, before: Sequence[Query], most: int | None) -> Sequence[Query]:
            curator.report_progress(next(numbers), note="choosing pairs")
            joined = [query.clique for query in before]
            return spanning_tree(curator, mergeable_pairs(one_ways), one_ways.model, share, joined=joined, most=most)

        answered = self._answered(first, budget, _asking(curator, numbers), join, explained)
        curator.report_progress(next(numbers), note="weighing rows")
        return answered

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early: the same steps, as far as they were answered."""
        if budget.is_pure:
            return refitted(release, None)
        first = self.begun_before(release, transcript)
        if self.takes_long(first, budget):
            return refitted(release, None)
        return release.with_model(self.model(self.answered_before(transcript, budget, first)))

    def begun_before(self, release: Release, transcript: Transcript) -> Fitted:
        """What `begun` made of the answers in `transcript`."""
        base = uniform(release.domain, release.schema)
        public = tuple(m for m in release.measurements if m.is_public)
        start = Fitted(base, public, Model(base, {}, max(1.0, float(transcript.public_total or 1))))
        return start.with_measured(next(_batches(transcript), ()))

    def answered_before(
        self, transcript: Transcript, budget: Budget, first: Fitted, explained: Explained | None = None
    ) -> Answered:
        """What `answered` made of the answers in `transcript`, as far as there are some."""
        batches, domain = _batches(transcript), first.base.domain
        next(batches, ())
        # What was answered has its queries with it: any will do in place of those that were chosen.
        queries = [Query.marginal(domain, name) for name in domain]
        return self._answered(
            first,
            budget,
            lambda *_: next(batches, ()),
            lambda one_ways, *_: queries if mergeable_pairs(one_ways) else (),
            explained,
        )

    def is_left_to_aim(self, domain: Domain, budget: Budget, total: float) -> bool:
        """Whether `AIM` does the work for a table of about so many records."""
        if budget.is_pure:
            return True
        plan, pairs = self._plan(domain, budget, total), math.comb(len(domain), 2)
        if plan is None:
            return False
        if isinstance(plan, Forest):
            return pairs > MOST_CANDIDATES
        if pairs > MOST_PAIRS:
            return True
        if isinstance(plan, Tree):
            return LEAST_A_RECORD * total * pairs > MOST_COARSE_PLACES
        return not plan.has_triples and FEWEST_A_RECORD * total * min(pairs, MOST_MARGINALS) > MOST_PLACES

    def places(self, domain: Domain, budget: Budget, total: float) -> int:
        """Rows times the marginals that they are weighted by, for a table of about so many records."""
        has_triples = getattr(self._plan(domain, budget, total), "has_triples", False)
        marginals = math.comb(len(domain), 3) if has_triples else min(math.comb(len(domain), 2), MOST_MARGINALS)
        return min(self._dense(domain).wanted(total, marginals, are_triples=has_triples), domain.size) * marginals

    def _plan(self, domain: Domain, budget: Budget, total: float) -> Resolution:
        """What is asked after one-way marginals."""
        if len(domain) < 2:
            return None
        return resolution_for(
            domain,
            budget.part(1 - share_of_one_ways(domain, budget, total)),
            total,
            fewest_runs=self.fewest_runs,
            fewest_for_a_tree=self.fewest_for_a_tree,
            fewest_for_a_forest=self.fewest_for_a_forest,
        )

    def takes_long(self, first: Fitted, budget: Budget) -> bool:
        """Whether a graphical model does better in the time, by noisy answers."""
        return self.is_left_to_aim(first.base.domain, budget, first.model.total)

    def _answered(self, first: Fitted, budget: Budget, ask: Ask, join: Join, explained: Explained | None) -> Answered:
        """One-way marginals, coarse pairs, chosen cliques, everything: each depends on what was answered before."""
        domain, total = first.base.domain, first.model.total
        share = share_of_one_ways(domain, budget, total)
        resolution = self._plan(domain, budget, total)
        if resolution is None:
            return Answered(alone(first, budget, ask))
        one_ways = first if isinstance(resolution, Tree) else until(first, budget, share, ask)
        if isinstance(resolution, Forest):
            return forest(one_ways, resolution, ask=ask, join=join)
        tested: tuple[Measurement, ...] = ()
        if explained is not None and _is_tested(resolution, explained.records / max(total, 1.0)):
            counts, test = counts_of(one_ways), budget.part(TESTED * (1 - share))
            tested = tuple(ask("coarse pairs, as a test", alike(resolution.coarse_pairs(domain, counts)), test))
            if every := explained.queries(one_ways, tested, MOSTLY if isinstance(resolution, Tree) else PARTLY):
                paid = LEAST_FOR_ONE_WAYS if isinstance(resolution, Tree) else share
                rest = budget.part(1 - paid - TESTED * (1 - share))
                if isinstance(resolution, Everything):
                    every = resolution.every_marginal(domain, counts, {})
                return Answered(one_ways, coarse=tested, everything=tuple(ask("everything once", alike(every), rest)))
            resolution = resolution.within(1 - TESTED)
        if isinstance(resolution, Tree):
            return replace(tree(first, budget, share, resolution, ask=ask, join=join), tested=tested)
        return replace(self._by_coarse_pairs(one_ways, counts_of(one_ways), resolution, ask), tested=tested)

    def _by_coarse_pairs(
        self, one_ways: Fitted, counts: Mapping[str, Array], resolution: Everything, ask: Ask
    ) -> Answered:
        """Coarse pairs, what is chosen by them, and everything once."""
        domain = one_ways.base.domain
        coarse = tuple(ask("coarse pairs", alike(resolution.coarse_pairs(domain, counts)), resolution.coarse))
        strength = strengths(coarse, one_ways.model)
        is_faint = max(strength.values(), default=0.0) < 2 * FAINT * one_ways.model.total
        cliques = [] if is_faint else self._chosen(one_ways, coarse, strength)
        queries = [Query.marginal(domain, clique) for clique in cliques]
        resolution = resolution if queries else resolution.without_choice()
        chosen = tuple(ask("chosen cliques", alike(queries), resolution.chosen)) if resolution.chosen else ()
        if not resolution.has_triples and tied(chosen, one_ways.model) >= TIED:
            again = ask("chosen cliques again", alike(queries), resolution.everything)
            return Answered(one_ways, coarse, (*chosen, *again))
        every = resolution.every_marginal(domain, counts, strength)
        return Answered(one_ways, coarse, chosen, tuple(ask("everything once", alike(every), resolution.everything)))

    def _chosen(
        self, one_ways: Fitted, coarse: Sequence[Measurement], strength: Mapping[Clique, float]
    ) -> list[Clique]:
        """A tree of the strongest pairs, and cliques of what it does not imply, all by noisy answers: this is free."""
        domain = one_ways.base.domain
        if not coarse:
            return []
        most_cells = self._aim.most_cells(domain) / 2
        pairs = joining_pairs(domain, strength, most_cells)
        in_tree = set(pairs)
        table = Coarsened.of(coarse, one_ways.measurements)
        tree = table.pairs(m for m in coarse if m.query.clique in in_tree)
        implied = estimated([*table.summed(one_ways.measurements), *tree], Uniform(table.domain))
        others = table.pairs(m for m in coarse if m.query.clique not in in_tree)
        together = {pair: strength[pair] for pair in pairs} | strengths(others, implied, noise=NOISE_OF_A_TREE)
        ordered = {pair: together[pair] for pair in sorted(together, key=lambda pair: -together[pair])}
        return strong_cliques(domain, pairs, ordered, most_cells)

    def _dense(self, domain: Domain) -> Dense:
        cells = int(self._aim.most_cells(domain))
        return Dense(rows=self.rows, model_cells=cells, seed=self.seed, device=self.device)

    def model(self, answered: Answered) -> Model:
        """The model of what was answered."""
        one_ways = answered.one_ways
        if len(answered.measurements) == len(one_ways.measurements):
            return of_single_attributes(one_ways.measurements, one_ways.base)
        begin = (*one_ways.measurements, *answered.again, *answered.chosen)
        everything = (*answered.tested, *answered.everything)
        return self._dense(one_ways.base.domain).model(begin, answered.coarse, everything, one_ways.base)

    def as_rows(self, model: Model) -> Model:
        """Such a model as weighted rows, drawn from it where it is not one already."""
        return self._dense(model.domain).as_rows(model)


def _is_tested(resolution: Tree | Everything, part: float) -> bool:
    """Whether it is asked first if coarse pairs are explained by what rests on this part of the private records."""
    return isinstance(resolution, Tree) or (resolution.has_triples and part >= ENOUGH)


def _asking(curator: Session, numbers: Iterator[int]) -> Ask:
    """Has a curator answer, each time as the step of the next number."""

    def ask(note: str, weights: Mapping[Query, Number], share: Budget) -> Sequence[Measurement]:
        curator.report_progress(next(numbers), note=note)
        return measure(curator, list(weights), share, shares=list(weights.values()))

    return ask


def _batches(transcript: Transcript) -> Iterator[Sequence[Measurement]]:
    return (batch.measurements for batch in transcript.answers)
