"""Settings: mechanisms and requests as people may set them rather than as they are by default, replayed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from priory.app.registry import MECHANISMS, Mechanism
from priory.audit.findings import Effort, Finding
from priory.audit.replay import Setting, replayed, strange
from priory.audit.tables import PUBLIC_KINDS, SCHEMA
from priory.measure import measure, on_lattice
from priory.mechanisms.best_mixture import BestMixture
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.mechanisms.hdmm.hdmm import HDMM
from priory.mechanisms.ide.prior_update import PriorUpdate
from priory.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from priory.mechanisms.mwem.mwem import MWEM
from priory.mechanisms.pmw_pub.pmw_pub import PMWPub
from priory.mechanisms.privbayes import PrivBayes
from priory.mechanisms.steps.plan import Settings
from priory.mechanisms.weighing import Weighing
from priory.privacy.budget import Budget
from priory.privacy.choice import ChoiceKind
from priory.privacy.noise import NoiseKind
from priory.privacy.scores import AbsoluteError, Dependence, L1Error, Payoff, Score
from priory.privacy.session import Session
from priory.queries.parts import Identity, Matrix, Mean, Moments, Prefix, Range
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release

DOMAIN = SCHEMA.domain
COLOUR, AGE, SMOKER = DOMAIN.attributes
TABLES = Workload.marginals(DOMAIN, 2)
_CONTRAST = Matrix([[1, -1, 0, 0], [2, 0, -3, 1]])
_SHARE = Matrix([[0.25, -0.5, 0.125, 1.0], [1 / 3, 0.0, -2 / 3, 0.1]])
# Queries with entries below 0 and above 1.
# Pairs are asked about however noisy they are.
ALWAYS = Settings(fewest_runs=0)
SIGNED = (
    Query.product(DOMAIN, {COLOUR: _CONTRAST}),
    Query.product(DOMAIN, {COLOUR: _CONTRAST, SMOKER: Matrix([[1, -1, 0]])}),
    Query.product(DOMAIN, {SMOKER: Matrix([[-1, 1, 0]])}),
)
# Queries with fractions, of either sign.
REAL = (
    Query.product(DOMAIN, {COLOUR: _SHARE}),
    Query.product(DOMAIN, {COLOUR: _SHARE, AGE: Prefix()}),
    Query.product(DOMAIN, {AGE: Mean([9.0, 41.5, 82.0, 0.0])}),
    Query.product(DOMAIN, {AGE: Moments([0.5, 2.25, 4.0, 0.0], 2)}),
)
RANGES = (Query.product(DOMAIN, {AGE: Prefix(), COLOUR: Identity()}), Query.product(DOMAIN, {AGE: Range(0, 1)}))


@dataclass(frozen=True)
class Measuring:
    """Answers queries, and nothing else."""

    queries: tuple[Query, ...]  # what is asked; those with real entries go on a lattice
    noise: NoiseKind | None = None  # which noise; by default the currency's own

    def run(self, session: Session, budget: Budget) -> Release:
        """Equal shares for all of them."""
        kind = None if budget.is_pure else self.noise
        measured = measure(session, self.queries, budget, noise=kind)
        return Release(session.domain, tuple(measured), session.statement("measuring"))


@dataclass(frozen=True)
class Choosing:
    """Picks candidates by a score twice, and nothing else."""

    queries: tuple[Query, ...]  # what the candidates ask
    score: Score  # what they are compared by
    draws: int = 1  # how many are picked at once
    kind: ChoiceKind | None = None  # how; by default the currency's own way
    has_estimates: bool = True  # whether the score compares with model answers; they are small and public
    is_restricted: bool = False  # whether only every second candidate may be picked

    def run(self, session: Session, budget: Budget) -> Release:
        """Half of the budget each time."""
        answers = [np.full(query.shape, 0.3) for query in self.queries] if self.has_estimates else []
        candidates = self.score.candidates(self.queries)
        allowed = np.arange(candidates) % 2 == 0 if self.is_restricted else None
        for share in budget.split([1, 1]):
            session.choose(self.queries, answers, self.score, share, allowed=allowed, draws=self.draws, kind=self.kind)
        return Release(session.domain, (), session.statement("choosing"))


def replayed_mechanism(name: str, effort: Effort) -> Iterator[Finding]:
    """Replay a registered mechanism on random and worst neighbours, and on strangers."""
    pairs = f"{effort.neighbours} pairs of neighbours, {strange(effort.neighbours)} of strangers"
    yield replayed(f"{name}, {pairs}", default_setting(name), effort.neighbours)


def replayed_from_public(name: str, effort: Effort) -> Iterator[Finding]:
    """Replay a registered mechanism that starts from public rows, from every kind of them."""
    build = MECHANISMS[name].with_public
    if build is not None:
        for kind in PUBLIC_KINDS:
            yield replayed(f"{name}, public data {kind}", Setting(build, kind), effort.public)


def replayed_setting(name: str, effort: Effort) -> Iterator[Finding]:
    """Replay one of the settings."""
    yield replayed(f"{name}, {effort.settings} pairs", SETTINGS[name], effort.settings)


def default_setting(name: str) -> Setting:
    """A registered mechanism as it is by default."""
    return Setting(lambda _: MECHANISMS[name].build(DOMAIN))


def always(mechanism: Mechanism) -> Setting:
    """A mechanism that uses no public rows."""
    return Setting(lambda _: mechanism)


def _settings() -> Iterator[tuple[str, Setting]]:
    """Every setting by its name."""
    real = tuple(on_lattice(query, 8) for query in REAL)
    below = (Query.product(DOMAIN, {COLOUR: Matrix([[-1, -2, -2, -1]])}),)
    measuring = {"negative entries": SIGNED, "fractions on a lattice": REAL, "prefixes and ranges": RANGES}
    for name, queries in measuring.items():
        yield f"answers, {name}", always(Measuring(queries))
        yield f"answers, {name}, Laplace noise", always(Measuring(queries, "laplace"))
    scores: dict[str, tuple[tuple[Query, ...], Score]] = {
        "absolute error": (TABLES.queries, AbsoluteError()),
        "absolute error, negative entries": (SIGNED, AbsoluteError()),
        "absolute error, fractions on a lattice": (real, AbsoluteError()),
        "L1 error, weights and noise": (TABLES.queries, L1Error((1.0, 0.3, 7.0), (0.0, 5.5, 2.0))),
        "L1 error, negative entries": (SIGNED, L1Error()),
        "payoff": (TABLES.queries, Payoff(3, 20.0)),
        "payoff, negative entries": (SIGNED, Payoff(3, 20.0)),
        "payoff, all entries below 0": (below, Payoff(2, 20.0)),
    }
    for name, (queries, score) in scores.items():
        for kind in ("noisy-max", "permute-and-flip"):
            yield f"choice by {name}, {kind}", always(Choosing(queries, score, kind=kind))
    dependence = Dependence((COLOUR, COLOUR, AGE))
    yield "choice by dependence", always(Choosing(TABLES.queries, dependence, has_estimates=False))
    several = partial(Choosing, TABLES.queries, AbsoluteError(), draws=5)
    yield "choice of five at once, permute-and-flip", always(several(kind="permute-and-flip"))
    yield "choice of five at once among half the candidates", always(several(is_restricted=True))
    yield from _mechanisms().items()


def _mechanisms() -> dict[str, Setting]:
    return {
        "pmw-pub, permute-and-flip": Setting(lambda rows: PMWPub(public=rows, choice="permute-and-flip", rounds=3)),
        "pmw-pub, average and unsupported": Setting(
            lambda rows: PMWPub(public=rows, iterate="average", unsupported=True, rounds=2, reuse=False)
        ),
        "best mixture, floor": Setting(lambda rows: BestMixture(public=rows), public="disjoint"),
        "best mixture, exact": Setting(lambda rows: BestMixture(public=rows, kind="exact"), needs_total=True),
        "weighing, public rows": Setting(lambda rows: Weighing(public=rows, settings=ALWAYS)),
        "weighing, public rows and a workload": Setting(lambda rows: Weighing(public=rows, workload=TABLES)),
        "prior-update, raking by groups": Setting(
            lambda rows: PriorUpdate(public=rows, by=((), (SMOKER,)), way="raking")
        ),
        "prior-update, three levels of groups": Setting(
            lambda rows: PriorUpdate(public=rows, by=((), (SMOKER,), (COLOUR,)))
        ),
        "prior-update, given groups": Setting(
            lambda rows: PriorUpdate(public=rows, by=((SMOKER,),), groups=((0,), (2,)), workloads=(((COLOUR, AGE),),))
        ),
        "hdmm, union": always(HDMM(TABLES, kind="union")),
        "hdmm, equal": always(HDMM(TABLES, kind="equal")),
        "hdmm, marginals": always(HDMM(TABLES, kind="marginals")),
        "hdmm, ranges": always(HDMM(Workload.of(RANGES[:1]))),
        "mwem, negative entries": always(MWEM(Workload.of([*TABLES, *SIGNED]), MultiplicativeWeights(), rounds=4)),
        "privbayes, families of any size": always(PrivBayes(usefulness=0.001)),
        "weighing, all pairs": always(Weighing(settings=ALWAYS)),
        "weighing, all triples": always(Weighing(settings=replace(ALWAYS, triple_runs=0))),
        "weighing, single attributes": always(Weighing(settings=Settings(fewest_runs=math.inf))),
        "dualquery, three rounds of two": always(DualQuery(TABLES, rounds=4, samples=2)),
    }


SETTINGS: dict[str, Setting] = dict(_settings())
