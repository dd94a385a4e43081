"""Attack: whole fits of each mechanism on worst neighbours, told apart by the likelihood of the whole transcript.

A mechanism runs on one table, and its transcript (noisy answers and picks) is forced on a run with the neighbour. That
gives the truth behind each answer and each pick under both tables, and so the exact privacy loss of the transcript, the
logarithm of its likelihood ratio: what the best attacker goes by. Losses of many runs bound ε from below twice:

- by frequencies: how often the loss reaches a threshold on either side, at 99.9 % confidence [Clopper & Pearson 1934];
- by likelihoods: δ(ε) is the mean of max(0, 1 − e^(ε − loss)), a number from 0 to 1, and so at least what Hoeffding's
  inequality [Hoeffding 1963] leaves of the sample's mean at 99.9 % confidence; for δ = 0 it is the largest loss.

The second trusts that what is drawn follows the law that it should: a wrong sampler shows in the tests of samplers.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from priory.app.registry import MECHANISMS, Mechanism
from priory.audit.findings import END_PREFIX, Effort, Finding
from priory.audit.laws import Array, log_chances, log_masses
from priory.audit.primitives import CONFIDENCE, clopper_pearson
from priory.audit.replay import recorded
from priory.audit.tables import coded
from priory.data.sources.memory import MemorySource
from priory.privacy.budget import Budget, Currency
from priory.privacy.choice import Choice
from priory.privacy.noise import Integers, Noise
from priory.privacy.randomness import Asked, Replay, TranscriptEnd
from priory.queries.domain import Domain
from priory.queries.sensitivity import Relation

# Events of about this probability may be missed by an (ε, δ) promise; the attack allows for it.
DELTA = Fraction(1, 100)
AMOUNTS = {Currency.PURE: Fraction(1), Currency.ZCDP: Fraction(1, 2), Currency.GAUSSIAN: Fraction(1)}
DOMAIN = Domain.of({"a": 2, "b": 2})
# One fit in so many is spent on each pair of neighbours, to find the worst of them.
PILOT = 100
# Values of ε that are tried, in parts of the claim, and up to which multiple of it.
GRID, REACH = 40, 1.5
# Losses are sums of floats.
ROUNDING = 1e-6


Tables = tuple[MemorySource, MemorySource]


@dataclass(frozen=True, eq=False)
class Loss:
    """The exact privacy loss of one run."""

    value: float  # log P(transcript | the table it was run on) − log P(transcript | the neighbour)
    picks: int  # how many of its answers were picks


def attacked(name: str, effort: Effort) -> Iterator[Finding]:
    """Attack whole fits of a mechanism in every currency that it can spend."""
    entry = MECHANISMS[name]
    for currency in Currency:
        if currency is not Currency.PURE or entry.is_pure:
            yield _attacked(name, entry.build(DOMAIN), currency, effort)


def _attacked(name: str, mechanism: Mechanism, currency: Currency, effort: Effort) -> Finding:
    budget, sources = worst_pair(mechanism, currency, max(1, effort.fits // PILOT))
    ways = (sources, sources[::-1])
    both = [[loss_of(mechanism, budget, here, there) for _ in range(effort.fits)] for here, there in ways]
    one, other = (np.array([loss.value for loss in losses]) for losses in both)
    delta = Fraction(0) if budget.is_pure else DELTA
    claim = float(budget.epsilon_at(delta))
    by_frequency = max(frequency_bound(one, -other, float(delta)), frequency_bound(other, -one, float(delta)))
    by_likelihood = max(likelihood_bound(losses, float(delta), claim) for losses in (one, other))
    least = 0.0 if any(loss.picks for losses in both for loss in losses) else effort.least_loss * claim
    bound = max(by_frequency, by_likelihood)
    return Finding(
        f"{END_PREFIX}{name}, {currency.value}, {effort.fits:,} fits a side",
        f"ε ≥ {by_likelihood:.3f} by likelihoods, ≥ {by_frequency:.3f} by frequencies, "
        f"largest loss {max(one.max(), other.max()):.3f}",
        f"{least:.3f} … {claim:.3f}",
        least <= bound <= claim + ROUNDING,
    )


def worst_pair(mechanism: Mechanism, currency: Currency, fits: int) -> tuple[Budget, Tables]:
    """The pair of neighbours on which a few fits lose most, of tables so small that one row is much."""

    def mean_loss(pair: tuple[Budget, Tables]) -> float:
        budget, (one, other) = pair
        return sum(loss_of(mechanism, budget, one, other).value for _ in range(fits))

    return max(_pairs(currency), key=mean_loss)


def _pairs(currency: Currency) -> Iterator[tuple[Budget, Tables]]:
    add, replace = (Budget(currency, AMOUNTS[currency], relation) for relation in Relation)
    for base in ([], [[0, 0]], [[0, 0]] * 5, [[0, 0]] * 30, [[0, 0], [1, 1]] * 8):
        table, usual, unlike = (coded(DOMAIN, base + more) for more in ([], [[0, 0]], [[1, 1]]))
        yield from ((add, (unlike, table)), (add, (usual, table)), (replace, (unlike, usual)))


def loss_of(mechanism: Mechanism, budget: Budget, one: MemorySource, other: MemorySource) -> Loss:
    """Run on `one` and work out how much likelier the transcript is there than on `other`."""
    asked = recorded(mechanism, budget, one, Replay()).asked
    forced = Replay([each.result for each in asked], ends=True)
    # What a mechanism makes of the last answer is not needed.
    with contextlib.suppress(TranscriptEnd):
        recorded(mechanism, budget, other, forced)
    if [_question(each) for each in forced.asked] != [_question(each) for each in asked]:
        raise AssertionError("the run on the neighbour took another path")
    value = sum(_log_ratio(here, there.truth) for here, there in zip(asked, forced.asked, strict=True))
    return Loss(value, sum(isinstance(each.request, Choice) for each in asked))


def _question(asked: Asked) -> tuple[Noise | Choice, tuple[int, ...]]:
    return asked.request, asked.truth.shape


def _log_ratio(asked: Asked, other: Integers) -> float:
    """log P(result | this table) − log P(result | the other one)."""
    request, result = asked.request, asked.result
    if np.array_equal(asked.truth, other):
        return 0.0
    if isinstance(request, Choice):
        here, there = (_chances(request, scores.tobytes())[result] for scores in (asked.truth, other))
        return float(here - there)
    here, there = (log_masses(request, result - request.on_lattice(truth)) for truth in (asked.truth, other))
    return float((here - there).sum())


# The same scores are often picked from many times.
@lru_cache(maxsize=16)
def _chances(choice: Choice, scores: bytes) -> Array:
    return log_chances(choice, np.frombuffer(scores, dtype=np.int64))


def likelihood_bound(losses: Array, delta: float, claim: float) -> float:
    """A lower bound on ε at `delta`, from losses of runs on one of the tables."""
    if delta == 0:
        return float(max(losses.max(), 0.0))
    grid = np.linspace(0, REACH * claim, round(GRID * REACH) + 1)
    means = [np.maximum(0.0, -np.expm1(epsilon - losses)).mean() for epsilon in grid]
    # One bound for each value that is tried, so each may fail so much more rarely.
    level = math.log(len(grid) / (1 - CONFIDENCE))
    proven = [epsilon for epsilon, mean in zip(grid, means, strict=True) if _least(mean, level / len(losses)) > delta]
    return float(max(proven, default=0.0))


def _least(mean: float, level: float) -> float:
    """The smallest m with KL(mean, m) ≤ level: the mean of numbers in [0, 1] is at least this, but for e^(−n·level)."""
    # This is Hoeffding's inequality as it stands before the relative entropy is bounded by a square.
    from scipy.special import rel_entr

    low, high = 0.0, mean
    for _ in range(60):
        middle = (low + high) / 2
        divergence = rel_entr(mean, middle) + rel_entr(1 - mean, 1 - middle)
        low, high = (middle, high) if divergence > level else (low, middle)
    return low


def frequency_bound(high: Array, low: Array, delta: float) -> float:
    """The same from how often the loss reaches a threshold, which is found on a quarter of the runs."""
    quarter = len(high) // 4
    thresholds = np.quantile(np.concatenate([high[:quarter], low[:quarter]]), np.linspace(0.05, 0.95, 37)) - ROUNDING
    best = max(thresholds, key=lambda t: _bound(high[:quarter] >= t, low[:quarter] >= t, delta))
    return max(0.0, _bound(high[quarter:] >= best, low[quarter:] >= best, delta))


def _bound(high: NDArray[np.bool_], low: NDArray[np.bool_], delta: float) -> float:
    p, q = clopper_pearson(high, low)
    return math.log((p - delta) / q) if p > delta and q > 0 else -math.inf
