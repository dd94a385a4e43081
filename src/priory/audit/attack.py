"""Attack: whole fits of each mechanism on a worst case, and how well they can be told apart."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from priory.app.registry import MECHANISMS, Mechanism, Registered
from priory.audit.findings import Effort, Finding
from priory.audit.primitives import clopper_pearson
from priory.data.source import ROW_LIMIT
from priory.domain import Clique, Domain
from priory.factor import Factor
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.mechanisms.dualquery.game import answers, rounds_of
from priory.mechanisms.steps.total import released_total
from priory.privacy.accounting import epsilon_at
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Integers, Laplace
from priory.queries.workload import Workload
from priory.release import Release

# Events of about this probability may be missed by an (ε, δ) promise; the attack allows for it.
DELTA = Fraction(1, 100)


def end_to_end(effort: Effort) -> Iterator[Finding]:
    """Attack whole fits of each mechanism on a two-column worst case: a lone row that is there or not."""
    for entry in MECHANISMS.values():
        budgets = [Budget.zcdp(Fraction(1, 2)), *([Budget.pure(1)] if entry.is_pure else [])]
        for budget in budgets:
            found, claim = attacked(entry, budget, effort.fits)
            letter = "pure" if budget.is_pure else "zCDP"
            yield Finding(
                f"end to end: {entry.name}, {letter}, {effort.fits:,} fits a side",
                f"ε ≥ {found:.3f}",
                f"≤ {claim:.3f}",
                found <= claim,
            )


@dataclass(frozen=True, eq=False)
class Codes:
    """A source of coded rows."""

    domain: Domain
    rows: Integers
    row_limit: int = ROW_LIMIT

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        """Counts of the rows."""
        return [self._counted(clique) for clique in cliques]

    def _counted(self, clique: Clique) -> Factor:
        domain = self.domain.project(clique)
        cells = np.zeros(len(self.rows), dtype=np.int64)
        for name in clique:
            cells = cells * self.domain[name] + self.rows[:, self.domain.axis[name]]
        return Factor(domain, np.bincount(cells, minlength=domain.size).reshape(domain.shape))


def attacked(entry: Registered, budget: Budget, fits: int) -> tuple[float, float]:
    """A lower bound on what a mechanism really spends, as ε at δ, and what it claims."""
    domain = Domain.of({"a": 2, "b": 2})
    without = np.array([[0, 0]] * 5, dtype=np.int64)
    with_row = np.concatenate([without, [[1, 1]]])
    sources = [Codes(domain, rows) for rows in (with_row, without)]
    recipe = entry.build(domain)
    evidence = [
        np.array([_evidence(recipe, _fitted(recipe, budget, source), sources) for _ in range(fits)])
        for source in sources
    ]
    delta = Fraction(0) if budget.is_pure else DELTA
    claim = float(budget.amount if budget.is_pure else epsilon_at(budget.amount, delta))
    return _best_bound(evidence[0], evidence[1], float(delta)), claim


def _fitted(recipe: Mechanism, budget: Budget, source: Codes) -> Release:
    with Ledger.in_memory(budget).reserve(budget, "audit") as reservation:
        return recipe.run(Curator(reservation, source), budget)


def _evidence(recipe: Mechanism, release: Release, sources: Sequence[Codes]) -> float:
    """The log-likelihood ratio of the two tables, given the measurements and what DualQuery sampled."""
    measured = sum(
        _likelihood(m, *(m.query(s.count([m.query.clique])[0].values) for s in sources)) for m in release.measurements
    )
    if not isinstance(recipe, DualQuery):
        return measured
    one, other = (_sampled(recipe.workload, release, source) for source in sources)
    return measured + one - other


def _sampled(workload: Workload, release: Release, source: Codes) -> float:
    """The log-likelihood of DualQuery's samples: chances are as exp(sharpness·payoff), complements after the others."""
    total = released_total(release.measurements)
    truth = np.concatenate([query(source.count([query.clique])[0].values).ravel() for query in workload])
    starts = np.cumsum([0, *(query.rows for query in workload)])
    first, *game = rounds_of(release)
    played, row, found = np.zeros(workload.rows), first.row, 0.0
    for t, held in enumerate(game, start=1):
        played += np.concatenate([np.ravel(answers(query, row, source.domain)) for query in workload])
        plain = total * played - t * truth
        payoffs = held.sharpness * np.concatenate([plain, -plain - t * (len(source.rows) - total)])
        places = [starts[p.query] + (p.cell or 0) + p.is_complement * workload.rows for p in held.picks]
        found += float(payoffs[places].sum()) - len(places) * float(np.logaddexp.reduce(payoffs))
        row = held.row
    return found


def _likelihood(measurement: Measurement, one: Integers, other: Integers) -> float:
    y, noise = measurement.values, measurement.noise
    scale = 1.0 if noise is None else float(noise.scale)
    if isinstance(noise, Laplace):
        return float((np.abs(y - other) - np.abs(y - one)).sum()) / scale
    return float(((y - other) ** 2 - (y - one) ** 2).sum()) / (2 * scale**2)


def _best_bound(high: NDArray[np.float64], low: NDArray[np.float64], delta: float) -> float:
    """The threshold is found on one half of the fits and judged on the other."""
    half = len(high) // 2
    thresholds = np.quantile(np.concatenate([high[:half], low[:half]]), np.linspace(0.05, 0.95, 19))
    best = max(thresholds, key=lambda t: _log_ratio((high[:half] >= t).mean(), (low[:half] >= t).mean(), delta))
    p, q = clopper_pearson(high[half:] >= best, low[half:] >= best)
    return max(0.0, _log_ratio(p, q, delta))


def _log_ratio(p: float, q: float, delta: float) -> float:
    return math.log((p - delta) / q) if p > delta and q > 0 else -math.inf
