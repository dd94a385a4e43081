"""Laws: the exact probabilities of noisy answers and picks, and what they say about prices.

Nothing here uses the prices of `priory.privacy`: a price that is wrong there must come out as wrong here.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.privacy.budget import Budget, Currency
from priory.privacy.choice import Choice
from priory.privacy.noise import Integers, Noise

Array = NDArray[np.float64]

# Orders α at which Rényi divergences are compared with α·ρ; near 1 they tell the most about choices.
ORDERS = 1 + np.geomspace(1e-3, 200.0, 60)
# A polynomial of degree 2k − 1 is integrated exactly from k values.
MOST_NODES = 500


def log_masses(noise: Noise, k: Integers) -> Array:
    """log P(noise = k), up to a constant; k is in steps of the noise's lattice."""
    size = np.abs(k).astype(np.float64)
    scale = float(noise.scale)
    if noise.kind == "laplace":
        return np.asarray(-size / scale)
    if noise.kind == "gaussian":
        return np.asarray(-((size / scale) ** 2) / 2)
    if noise.kind == "rounded-gaussian":
        return _rounded_masses(size, scale / float(noise.step))
    raise ValueError(f"the audit has no law for {noise.kind} noise")


def _rounded_masses(size: Array, scale: float) -> Array:
    """log(Φ(−(|k| − ½)/s) − Φ(−(|k| + ½)/s)): both in logarithms, for far out their difference is no double."""
    from scipy.special import log_ndtr

    near, far = log_ndtr((0.5 - size) / scale), log_ndtr((-0.5 - size) / scale)
    return np.asarray(near + np.log(-np.expm1(far - near)))


def log_chances(choice: Choice, scores: Integers) -> Array:
    """log P(i is picked), for each candidate."""
    behind = (scores.max() - scores).astype(np.float64)
    if choice.scale == 0:
        return np.where(np.arange(len(scores)) == scores.argmax(), 0.0, -np.inf)
    logs = -behind / float(choice.scale)
    if choice.kind == "noisy-max":
        return np.asarray(logs - np.logaddexp.reduce(logs))
    if choice.kind == "permute-and-flip":
        return np.asarray(logs + _mean_share(np.exp(logs)))
    raise ValueError(f"the audit has no law for {choice.kind}")


def _mean_share(coins: Array) -> Array:
    """log E[1/(1 + S)] for each i, with S the number of other coins that come up."""
    # E[1/(1 + S)] = ∫₀¹ E[t^S] dt, and E[t^S] is the product of 1 − c + c·t over the other coins: a polynomial.
    nodes, weights = np.polynomial.legendre.leggauss(min(len(coins) // 2 + 1, MOST_NODES))
    points = (1 + nodes) / 2
    logs = np.log1p(-np.outer(coins, 1 - points))
    others = logs.sum(axis=0) - logs
    return np.asarray(np.logaddexp.reduce(others + np.log(weights / 2), axis=1))


@dataclass(frozen=True, eq=False)
class Pair:
    """Two laws over the same outcomes, as logarithms of probabilities."""

    one: Array  # of the outcomes under one table
    other: Array  # under its neighbour

    @classmethod
    def of_choice(cls, choice: Choice, one: Integers, other: Integers) -> "Pair":
        """The picks among two neighbours' scores."""
        return cls(log_chances(choice, one), log_chances(choice, other))

    @classmethod
    def of_noise(cls, noise: Noise, gap: int) -> "Pair":
        """One answer of two neighbours that differ by `gap`, over all outcomes that matter."""
        steps = round(gap / noise.step)
        reach = math.ceil(40 * float(noise.scale / noise.step)) + 40 + abs(steps)
        k = np.arange(-reach, reach + 1)
        logs = log_masses(noise, k), log_masses(noise, k - steps)
        return cls(*(law - np.logaddexp.reduce(law) for law in logs))

    def epsilon(self) -> float:
        """The largest |log ratio|."""
        return float(np.abs(self.one - self.other).max())

    def rho(self) -> float:
        """The largest Rényi divergence over its order, in either direction."""
        return max(_rho(self.one, self.other), _rho(self.other, self.one))

    def mu_squared(self) -> float:
        """μ² of the Gaussian trade-off curve that touches this pair's from below."""
        # The curve of two discrete laws is straight between tests that accept outcomes in the order of their ratio, and
        # the Gaussian one is convex: it is below everywhere if it is below at those tests.
        return max(_mu(self.one, self.other), _mu(self.other, self.one)) ** 2

    def amount(self, currency: Currency) -> float:
        """The least that a charge for this pair can be, in `currency`."""
        return {Currency.PURE: self.epsilon, Currency.ZCDP: self.rho, Currency.GAUSSIAN: self.mu_squared}[currency]()


def _rho(one: Array, other: Array) -> float:
    exponents = np.outer(ORDERS, one) + np.outer(1 - ORDERS, other)
    divergences = np.logaddexp.reduce(exponents, axis=1) / (ORDERS - 1)
    # At order 1 + 10⁻³ a rounding of 10⁻¹⁶ is one of 10⁻¹³.
    return float((divergences / ORDERS).max())


def _mu(one: Array, other: Array) -> float:
    from scipy.special import ndtri

    order = np.argsort(other - one, kind="stable")
    hits, false = np.exp(one[order]).cumsum(), np.exp(other[order]).cumsum()
    # Tests with a chance below 10⁻⁹ on either side are left out: there, sums in floats say nothing.
    is_informative = (false > 1e-9) & (hits < 1 - 1e-9)
    return float((ndtri(hits[is_informative]) - ndtri(false[is_informative])).max(initial=0.0))


def price(request: Noise | Choice, gap: Array, budget: Budget) -> float:
    """What telling two true answers, or two lists of scores, `gap` apart costs at most, by the published theorems."""
    if not gap.any():
        return 0.0
    scale = float(request.scale)
    if scale == 0:
        return math.inf
    if isinstance(request, Choice):
        return choice_price(request.kind, 2 * float(gap.max()) / scale, budget.currency)
    if request.kind == "laplace":
        return _laplace_price(gap / scale, budget.currency)
    squares = float((gap**2).sum()) / scale**2
    return _gaussian_price(request.kind, squares, budget.currency)


def choice_price(kind: str, epsilon: float, currency: Currency) -> float:
    """What one ε-DP pick costs; only the exponential mechanism has a bounded range, and so the lower price."""
    if currency is Currency.PURE:
        return epsilon
    if kind == "noisy-max":
        return _mu_squared(epsilon / 2) if currency is Currency.GAUSSIAN else epsilon**2 / 8
    return _mu_squared(epsilon) if currency is Currency.GAUSSIAN else epsilon**2 / 2


def _laplace_price(epsilons: Array, currency: Currency) -> float:
    """One cell after the other: each is ε-DP for its own ε."""
    if currency is Currency.PURE:
        return float(epsilons.sum())
    if currency is Currency.GAUSSIAN:
        return sum(_mu_squared(float(epsilon)) for epsilon in epsilons.ravel())
    return float((epsilons**2).sum()) / 2


def _gaussian_price(kind: str, squares: float, currency: Currency) -> float:
    if currency is Currency.PURE or (currency is Currency.GAUSSIAN and kind == "gaussian"):
        return math.inf
    return squares if currency is Currency.GAUSSIAN else squares / 2


def _mu_squared(epsilon: float) -> float:
    """(2Φ⁻¹(e^ε/(1 + e^ε)))²: the Gaussian curve below every ε-DP one, or every one of a range of 2ε."""
    from scipy.special import expit, ndtri

    return float(2 * ndtri(expit(epsilon))) ** 2 if epsilon < 30 else math.inf
