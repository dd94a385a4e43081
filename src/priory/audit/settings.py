"""Settings: mechanisms and requests as people may set them rather than as they are by default, replayed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from priory.app.registry import Mechanism
from priory.audit.findings import Effort, Finding
from priory.audit.public import public_rows
from priory.audit.replay import REPLAYED, pairs, replay_pair
from priory.audit.tables import SCHEMA, NeighbouringTables
from priory.measure import measure, on_lattice
from priory.mechanisms.best_mixture import BestMixture
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.mechanisms.hdmm.hdmm import HDMM
from priory.mechanisms.ide.prior_update import PriorUpdate
from priory.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from priory.mechanisms.mwem.mwem import MWEM
from priory.mechanisms.pmw_pub.pmw_pub import PMWPub
from priory.mechanisms.privbayes import PrivBayes
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.choice import ChoiceKind
from priory.privacy.curator import Curator
from priory.privacy.noise import NoiseKind
from priory.privacy.scores import AbsoluteError, Dependence, L1Error, Payoff, Score
from priory.queries.parts import Identity, Matrix, Mean, Moments, Prefix, Range
from priory.queries.query import Query
from priory.queries.sensitivity import Relation
from priory.queries.workload import Workload
from priory.release import Release

DOMAIN = SCHEMA.domain
COLOUR, AGE, SMOKER = DOMAIN.attributes


@dataclass(frozen=True)
class Measuring:
    """Answers queries, and nothing else."""

    queries: tuple[Query, ...]  # what is asked; those with real entries go on a lattice
    noise: NoiseKind | None = None  # which noise; by default the currency's own

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Equal shares for all of them."""
        kind = None if budget.is_pure else self.noise
        measured = measure(curator, self.queries, budget, noise=kind)
        return Release(curator.domain, tuple(measured), curator.statement("measuring"))


@dataclass(frozen=True)
class Choosing:
    """Picks candidates by a score twice, and nothing else."""

    queries: tuple[Query, ...]  # what the candidates ask
    score: Score  # what they are compared by
    draws: int = 1  # how many are picked at once
    kind: ChoiceKind | None = None  # how; by default the currency's own way
    has_estimates: bool = True  # whether the score compares with model answers; they are small and public
    is_restricted: bool = False  # whether only every second candidate may be picked

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Half of the budget each time."""
        estimates = [np.full(query.shape, 0.3) for query in self.queries] if self.has_estimates else []
        candidates = self.score.candidates(self.queries)
        allowed = np.arange(candidates) % 2 == 0 if self.is_restricted else None
        for share in budget.split([1, 1]):
            curator.choose(
                self.queries, estimates, self.score, share, allowed=allowed, draws=self.draws, kind=self.kind
            )
        return Release(curator.domain, (), curator.statement("choosing"))


Build = Callable[[PublicRows], Mechanism]


@dataclass(frozen=True)
class Setting:
    """A mechanism with settings other than the defaults."""

    build: Build  # the mechanism, from public rows where it uses them
    public: str = "smaller"  # which kind of public rows it is given
    needs_total: bool = False  # whether it can only be asked for where the number of rows is public

    def fits(self, budget: Budget) -> bool:
        """Whether it can be asked for with such a budget."""
        is_public = budget.relation is Relation.REPLACE_ONE and budget.max_rows == 1
        return is_public or not self.needs_total


def replayed_setting(name: str, effort: Effort) -> Iterator[Finding]:
    """Replay one of the settings."""
    complaint = next(complaints_about_setting(name, effort.settings), None)
    yield Finding(
        f"replay: {name}, {effort.settings} pairs", complaint or REPLAYED, "no complaint", passed=complaint is None
    )


def complaints_about_setting(name: str, count: int) -> Iterator[str]:
    """What is wrong with a setting, in public words."""
    setting = SETTINGS[name]
    for pair in pairs(count):
        if setting.fits(pair.budget):
            complaint = replay_pair(setting.build(_public(setting.public, pair)), pair)
            if complaint:
                yield f"{complaint} ({pair.name})"


def _public(kind: str, pair: NeighbouringTables) -> PublicRows:
    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        return PublicRows(public_rows(kind, pair, Path(folder)), DOMAIN)


def _always(mechanism: Mechanism) -> Build:
    return lambda _: mechanism


def _signed() -> tuple[Query, ...]:
    """Queries with entries below 0 and above 1."""
    contrast = Matrix([[1, -1, 0, 0], [2, 0, -3, 1]])
    return (
        Query.product(DOMAIN, {COLOUR: contrast}),
        Query.product(DOMAIN, {COLOUR: contrast, SMOKER: Matrix([[1, -1, 0]])}),
        Query.product(DOMAIN, {SMOKER: Matrix([[-1, 1, 0]])}),
    )


def _real() -> tuple[Query, ...]:
    """Queries with fractions, of either sign."""
    share = Matrix([[0.25, -0.5, 0.125, 1.0], [1 / 3, 0.0, -2 / 3, 0.1]])
    return (
        Query.product(DOMAIN, {COLOUR: share}),
        Query.product(DOMAIN, {COLOUR: share, AGE: Prefix()}),
        Query.product(DOMAIN, {AGE: Mean([9.0, 41.5, 82.0, 0.0])}),
        Query.product(DOMAIN, {AGE: Moments([0.5, 2.25, 4.0, 0.0], 2)}),
    )


def _pairs_of_attributes() -> tuple[Query, ...]:
    return Workload.marginals(DOMAIN, 2).queries


def _settings() -> Iterator[tuple[str, Setting]]:
    """Every setting by its name."""
    signed, real, tables = _signed(), tuple(on_lattice(query, 8) for query in _real()), _pairs_of_attributes()
    below = (Query.product(DOMAIN, {COLOUR: Matrix([[-1, -2, -2, -1]])}),)
    ranges = (Query.product(DOMAIN, {AGE: Prefix(), COLOUR: Identity()}), Query.product(DOMAIN, {AGE: Range(0, 1)}))
    measuring = {"negative entries": signed, "fractions on a lattice": _real(), "prefixes and ranges": ranges}
    for name, queries in measuring.items():
        yield f"answers, {name}", Setting(_always(Measuring(queries)))
        yield f"answers, {name}, Laplace noise", Setting(_always(Measuring(queries, "laplace")))
    scores: dict[str, tuple[tuple[Query, ...], Score]] = {
        "absolute error": (tables, AbsoluteError()),
        "absolute error, negative entries": (signed, AbsoluteError()),
        "absolute error, fractions on a lattice": (real, AbsoluteError()),
        "L1 error, weights and noise": (tables, L1Error((1.0, 0.3, 7.0), (0.0, 5.5, 2.0))),
        "L1 error, negative entries": (signed, L1Error()),
        "payoff": (tables, Payoff(3, 20.0)),
        "payoff, negative entries": (signed, Payoff(3, 20.0)),
        "payoff, all entries below 0": (below, Payoff(2, 20.0)),
    }
    for name, (queries, score) in scores.items():
        for kind in ("noisy-max", "permute-and-flip"):
            yield f"choice by {name}, {kind}", Setting(_always(Choosing(queries, score, kind=kind)))
    dependence = Choosing(tables, Dependence((COLOUR, COLOUR, AGE)), has_estimates=False)
    yield "choice by dependence", Setting(_always(dependence))
    several = partial(Choosing, tables, AbsoluteError(), draws=5)
    yield "choice of five at once, permute-and-flip", Setting(_always(several(kind="permute-and-flip")))
    yield "choice of five at once among half the candidates", Setting(_always(several(is_restricted=True)))
    yield from _mechanisms()


def _mechanisms() -> Iterator[tuple[str, Setting]]:
    everything = Workload.of([*_pairs_of_attributes(), *_signed()])
    ranges = Workload.of([Query.product(DOMAIN, {AGE: Prefix(), COLOUR: Identity()})])
    yield "pmw-pub, permute-and-flip", Setting(lambda rows: PMWPub(public=rows, choice="permute-and-flip", rounds=3))
    yield (
        "pmw-pub, average and unsupported",
        Setting(lambda rows: PMWPub(public=rows, iterate="average", unsupported=True, rounds=2, reuse=False)),
    )
    yield "best mixture, floor", Setting(lambda rows: BestMixture(public=rows), public="disjoint")
    yield "best mixture, exact", Setting(lambda rows: BestMixture(public=rows, kind="exact"), needs_total=True)
    yield (
        "prior-update, raking by groups",
        Setting(lambda rows: PriorUpdate(public=rows, by=((), (SMOKER,)), way="raking")),
    )
    yield (
        "prior-update, three levels of groups",
        Setting(lambda rows: PriorUpdate(public=rows, by=((), (SMOKER,), (COLOUR,)))),
    )
    yield (
        "prior-update, given groups",
        Setting(
            lambda rows: PriorUpdate(public=rows, by=((SMOKER,),), groups=((0,), (2,)), workloads=(((COLOUR, AGE),),))
        ),
    )
    for kind in ("union", "equal", "marginals"):
        yield f"hdmm, {kind}", Setting(_always(HDMM(Workload.of(_pairs_of_attributes()), kind=kind)))
    yield "hdmm, ranges", Setting(_always(HDMM(ranges)))
    yield "mwem, negative entries", Setting(_always(MWEM(everything, MultiplicativeWeights(), rounds=4)))
    yield "privbayes, families of any size", Setting(_always(PrivBayes(usefulness=0.001)))
    yield (
        "dualquery, three rounds of two",
        Setting(_always(DualQuery(Workload.of(_pairs_of_attributes()), rounds=4, samples=2))),
    )


SETTINGS: dict[str, Setting] = dict(_settings())
