"""Weighing: buy a prior, draw rows from it, and weigh them by every pair, all measured once."""

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from priory.estimate.estimator import estimate
from priory.estimate.measured import evidence, public_total
from priory.estimate.prior_strength import weighed
from priory.measure import measure
from priory.mechanisms.prior import reweighed
from priory.mechanisms.steps.fitted import Fitted
from priory.model.bases import PublicRows, Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Part
from priory.queries.query import Query
from priory.release import Release
from priory.select.candidates import structure
from priory.select.noise_size import expected_noise
from priory.select.noisy_pairs import excess, fitting, queries_on, runs, triangles
from priory.select.one_ways import OneWays

FIRST = Fraction(1, 10)
MOST_FOR_ONE_WAYS = Fraction(7, 10)
# What is left after one-way marginals: coarse pairs, chosen cliques, and everything once.
SHARES = (Fraction(3, 10), Fraction(3, 10), Fraction(4, 10))
DROWNED = 8
FINEST = 16
TRIPLES = 5.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighing:
    """Buy a prior with a part of the budget, and leave it as far as noisy marginals of everything say."""

    rows: int = 400_000
    model_cells: int = 2_000_000
    seed: int = 0

    @property
    def choice_share(self) -> Fraction:
        return Fraction(0)

    def run(self, curator: Curator, budget: Budget) -> Release:
        domain = curator.domain
        start = Fitted.start(curator, Uniform(domain))
        curator.check(budget)
        fitted, left = self._one_ways(curator, budget, start)
        plan = _Shares.of(domain, left, fitted.model.total)
        print("B", plan.runs, "B3", plan.triple_runs, "s1", float(1 - left.amount / budget.amount), flush=True)
        parts = {name: runs(fitted.model.project((name,)).values, plan.runs) for name in domain}
        pairs = list(itertools.combinations(domain, 2))
        coarse = measure(curator, queries_on(domain, pairs, parts), plan.coarse)
        fitted, rest = self._first_model(curator, plan, fitted, coarse)
        asked = self._everything(domain, plan, parts)
        measured = measure(curator, asked, plan.everything)
        base = PublicRows(self._drawn(fitted.model), domain)
        together = (*rest, *measured)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            total = fitted.model.total
            model = weighed(evidence(together), base, total, [total * 10 ** (-i / 4) for i in range(1, 12)])
        release = Release(domain, (*fitted.measurements, *together), curator.statement("weighing"))
        return release.with_model(replace(Model.of(reweighed(model), {}, total), diagnostics=model.diagnostics))

    def _one_ways(self, curator: Curator, budget: Budget, start: Fitted) -> tuple[Fitted, Budget]:
        domain = curator.domain
        asked = OneWays().strategy(domain)
        fitted = start.with_measured(measure(curator, list(asked), budget.part(FIRST), shares=list(asked.values())))
        noise = sum(expected_noise(Query.marginal(domain, name), budget.part(Fraction(1, len(domain)))) for name in domain)
        noise /= 2 * len(domain) * max(fitted.model.total, 1.0)
        share = Fraction(min(0.03 + 1.4 * math.sqrt(noise), float(MOST_FOR_ONE_WAYS))).limit_denominator(1000)
        if share > FIRST:
            again = measure(curator, list(asked), budget.part(share - FIRST), shares=list(asked.values()))
            fitted = fitted.with_measured(again)
        return fitted, budget.part(1 - max(share, FIRST))

    def _first_model(
        self, curator: Curator, plan: "_Shares", fitted: Fitted, coarse: Sequence[Measurement]
    ) -> tuple[Fitted, list[Measurement]]:
        domain = curator.domain
        answers = fitted.model.answers([m.query for m in coarse])
        strength = {m.query.clique: excess(m, a) for m, a in zip(coarse, answers, strict=True)}
        strongest = sorted((pair for pair in strength if strength[pair] > 0), key=lambda pair: -strength[pair])
        tree = structure(domain, [(name,) for name in domain])
        if plan.chosen is not None and strongest:
            triples = fitting(tree, triangles(strength, domain, 20_000), most=len(domain), most_cells=self.model_cells / 2, new_pairs=True)
            tree = structure(domain, [*tree.cliques, *triples])
            covered = {pair for triple in triples for pair in itertools.combinations(triple, 2)}
            others = fitting(tree, [p for p in strongest if p not in covered], most=2 * len(domain) - len(triples), most_cells=self.model_cells / 2, new_pairs=False)
            chosen = [Query.marginal(domain, clique) for clique in (*triples, *others)]
            fitted = fitted.with_measured(measure(curator, chosen, plan.chosen))
            tree = structure(domain, [*tree.cliques, *others])
        rest = list(coarse)
        for part in (0.75, 1.0):
            answers = fitted.model.answers([m.query for m in rest])
            strength = {m.query.clique: excess(m, a) for m, a in zip(rest, answers, strict=True)}
            strongest = sorted((pair for pair in strength if strength[pair] > 0), key=lambda pair: -strength[pair])
            most = len(domain) if part < 1 else len(strongest)
            taken = set(fitting(tree, strongest, most=most, most_cells=part * self.model_cells, new_pairs=False))
            if taken:
                tree = structure(domain, [*tree.cliques, *taken])
                fitted = fitted.with_measured([m for m in rest if m.query.clique in taken])
                rest = [m for m in rest if m.query.clique not in taken]
        # An estimate that continues an earlier one has more of its noise.
        model = estimate(evidence(fitted.measurements), domain, base=fitted.base, total=public_total(fitted.measurements))
        return replace(fitted, model=model), rest

    def _everything(self, domain: Domain, plan: "_Shares", parts: dict[str, Part]) -> list[Query]:
        worth = (len(domain) - 2) / 3 / sum(1 / size for size in domain.shape)
        if plan.triple_runs >= 4 * worth and 3 <= len(domain) <= 30:
            return [Query.marginal(domain, clique) for clique in itertools.combinations(domain, 3)]
        pairs = list(itertools.combinations(domain, 2))
        return queries_on(domain, pairs, parts if plan.chosen is None else dict.fromkeys(domain, Identity()))

    def _drawn(self, model: Model) -> np.ndarray:
        count = int(min(self.rows, max(100_000, 6 * model.total)))
        return model.sample(count, seed=self.seed)


@dataclass(frozen=True, eq=False)
class _Shares:
    coarse: Budget
    chosen: Budget | None
    everything: Budget
    runs: int
    triple_runs: float

    @classmethod
    def of(cls, domain: Domain, left: Budget, total: float) -> "_Shares":
        pairs = math.comb(len(domain), 2)
        total = max(total, 1.0)
        first, second, third = left.split(SHARES)
        count = _runs(total, _noise(domain, first, pairs), 2)
        triples = _runs(total, _noise(domain, third, math.comb(len(domain), 3)), 3)
        if count >= DROWNED:
            return cls(first, second, third, int(min(count, FINEST)), triples)
        most, rest = left.split((9, 1))
        count = _runs(total, _noise(domain, most, pairs), 2)
        return cls(most, None, rest, int(max(2, min(count, FINEST))), triples)


def _noise(domain: Domain, share: Budget, count: int) -> float:
    one = Query.marginal(domain, domain.attributes[:1])
    return expected_noise(one, share.part(Fraction(1, count))) / one.rows


def _runs(total: float, noise: float, ways: int) -> float:
    return (total / noise) ** (1 / ways)
