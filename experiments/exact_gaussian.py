"""Exact Gaussian accounting: how much less noise mechanisms that only measure add at the same (ε, δ), on Adult."""

from collections.abc import Sequence

import numpy as np

from experiments.results import shown
from experiments.tables import Coded, table
from priory.app.registry import Mechanism
from priory.data.sources.source import ROW_LIMIT
from priory.mechanisms.hdmm.hdmm import HDMM
from priory.mechanisms.independent import Independent
from priory.mechanisms.weighing import Weighing
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget, Currency
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique
from priory.queries.factor import Factor
from priory.queries.workload import Workload

SETTINGS = (("1", "1e-9"), ("1", "1e-6"))
REPEATS = 1


class _Source:
    """A table of codes that can be counted."""

    def __init__(self, coded: Coded) -> None:
        self.domain, self._coded = coded.domain, coded
        self.row_limit = ROW_LIMIT

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        return [Factor(self.domain.project(clique), self._coded.counts(clique)) for clique in cliques]


def run() -> None:
    """Print the noise under both accountings, and the root mean square error of the noisy answers themselves."""
    coded = table("adult")
    order = np.random.default_rng(0).permutation(coded.records)
    half = coded.records // 2
    private = Coded("adult", coded.domain, coded.codes[order[:half]])
    public = PublicRows(coded.codes[order[half:]].astype(np.int32), coded.domain)
    mechanisms: dict[str, Mechanism] = {
        "independent": Independent(),
        "hdmm": HDMM(Workload.marginals(coded.domain, 2)),
        "prior": Weighing(public=public),
    }
    lines: list[dict[str, object]] = []
    for name, mechanism in mechanisms.items():
        for epsilon, delta in SETTINGS:
            in_rho, in_mu = (Budget.approximate(epsilon, delta, c) for c in (Currency.ZCDP, Currency.GAUSSIAN))
            (noise, error), (less, seen) = (_noise(mechanism, private, budget) for budget in (in_rho, in_mu))
            lines.append(
                {
                    "mechanism": name,
                    "ε": float(epsilon),
                    "δ": float(delta),
                    "σ in ρ": noise,
                    "σ in μ²": less,
                    "variance, ratio": (less / noise) ** 2,
                    "predicted": float(2 * in_rho.amount / in_mu.amount),
                    "of errors": (seen / error) ** 2,
                }
            )
    shown(lines)


def _noise(mechanism: Mechanism, coded: Coded, budget: Budget) -> tuple[float, float]:
    """The standard deviation that the measurements say, and the error that they have, in root mean squares."""
    said, seen = [], []
    for _ in range(REPEATS):
        with Ledger.in_memory(budget).reserve(budget, "experiment") as reservation:
            release = mechanism.run(Curator(reservation, _Source(coded)), budget)
        for measurement in release.measurements:
            said.append(np.full(measurement.values.size, float(np.mean(measurement.stddev))))
            seen.append(_errors(measurement, coded))
    return float(np.sqrt(np.mean(np.concatenate(said) ** 2))), float(np.sqrt(np.mean(np.concatenate(seen) ** 2)))


def _errors(measurement: Measurement, coded: Coded) -> np.ndarray:
    return np.asarray(measurement.values - measurement.query(coded.counts(measurement.query.clique))).ravel()
