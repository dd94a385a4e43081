"""Accountant: our conversions against those of opendp and dp-accounting."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from priory.audit.findings import Effort, Finding
from priory.privacy.accounting import epsilon_at, rho_within

RHOS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
DELTAS = (1e-3, 1e-6, 1e-9, 1e-12)
MOST_APART = 1e-3


def accountant(effort: Effort) -> Iterator[Finding]:  # noqa: ARG001
    """Within 10⁻³ of both, and never below the exact ε of the Gaussian mechanism."""
    pairs = [(rho, delta) for rho in RHOS for delta in DELTAS]
    ours = {(rho, delta): float(epsilon_at(Fraction(rho), Fraction(delta))) for rho, delta in pairs}
    apart = max(abs(ours[pair] / _opendp_epsilon(*pair) - 1) for pair in pairs)
    yield _agreement("opendp", len(pairs), apart)
    there_and_back = max(
        float(abs(rho_within(epsilon_at(Fraction(rho), Fraction(delta)), Fraction(delta)) / Fraction(rho) - 1))
        for rho, delta in pairs
    )
    yield _agreement("its own inverse", len(pairs), there_and_back)
    try:
        import dp_accounting  # noqa: F401 - only whether it is here
    except ImportError:
        yield Finding("accountant: dp-accounting is not installed", "-", "-", passed=True)
        return
    apart = max(abs(ours[pair] / _dp_accounting_epsilon(*pair) - 1) for pair in pairs)
    yield _agreement("dp-accounting", len(pairs), apart)
    exact = [(rho, delta) for rho, delta in pairs if rho in (0.1, 1.0) and delta >= 1e-9]
    least = min(ours[pair] / _exact_epsilon(*pair) for pair in exact)
    yield Finding(
        f"accountant: at or above the exact ε, {len(exact)} values", f"ratio ≥ {least:.4f}", "≥ 1", least >= 1
    )


def _agreement(other: str, count: int, apart: float) -> Finding:
    return Finding(f"accountant: {other}, {count} values", f"{apart:.1e} apart", f"≤ {MOST_APART}", apart <= MOST_APART)


def _opendp_epsilon(rho: float, delta: float) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    gaussian = dp.m.make_gaussian(dp.atom_domain(T="i64"), dp.absolute_distance(T="f64"), scale=1.0)
    converted: Any = dp.c.make_zCDP_to_approxDP(gaussian)
    return float(converted.map((2 * rho) ** 0.5).epsilon(delta))


def _dp_accounting_epsilon(rho: float, delta: float) -> float:
    from dp_accounting import rdp

    orders = [1 + 1.005**i for i in range(-1500, 2500)]
    return float(rdp.compute_epsilon(orders, [rho * order for order in orders], delta)[0])


def _exact_epsilon(rho: float, delta: float) -> float:
    from dp_accounting import GaussianDpEvent, pld

    return float(pld.PLDAccountant().compose(GaussianDpEvent((1 / (2 * rho)) ** 0.5)).get_epsilon(delta))
