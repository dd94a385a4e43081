"""Coverage: intervals of whole fits on a small table hold the truth about as often as they say, and are no wider."""

import itertools
from functools import cache

import numpy as np
import pytest

from priory.app.fit import fit
from priory.data.schema import Schema
from priory.privacy.randomness import Replay
from priory.queries.domain import Clique
from priory.queries.query import Query
from priory.release import Release

SIZES = {"a": 3, "b": 4, "c": 5, "d": 4, "e": 6, "f": 3}
RECORDS, FITS = 1_500, 8


def columns() -> dict[str, np.ndarray]:
    """Attributes that depend on each other through two that are not in the table."""
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, RECORDS))
    mixed = (0.8 * one, 0.8 * one + 0.3 * two, 0.7 * two, 0.5 * one + 0.5 * two, 0.9 * two, 0.0 * one)
    found = {}
    for (name, size), mean in zip(SIZES.items(), mixed, strict=True):
        value = mean + 0.6 * rng.normal(size=RECORDS)
        # Uneven on purpose: the last values are rare.
        edges = np.quantile(value, 1 - 0.55 ** np.arange(1, size))
        found[name] = np.searchsorted(edges, value)
    return found


COLUMNS = columns()


def counts(clique: Clique) -> np.ndarray:
    table = np.zeros([SIZES[name] for name in clique])
    np.add.at(table, tuple(COLUMNS[name] for name in clique), 1)
    return table


@cache
def releases(mechanism: str, epsilon: str) -> tuple[Release, ...]:
    schema = Schema.coded(SIZES)
    return tuple(
        fit(COLUMNS, schema, epsilon=epsilon, delta="1e-9", mechanism=mechanism, randomness=Replay(seed=seed))
        for seed in range(FITS)
    )


def tallied(release: Release, cliques: list[Clique]) -> np.ndarray:
    """Answers held, all answers, mean variance by their intervals, squared errors: of answers of a record or more."""
    tally = np.zeros(4)
    for clique in cliques:
        query = Query.marginal(release.domain, clique)
        [found] = release.basis().ground.drawn([query], 0.9)
        ends, truth = found.interval(0.9), counts(clique)
        some = (found.estimate >= 1) & np.isfinite(ends.low)
        held = (ends.low <= truth) & (truth <= ends.high)
        deviation = (ends.high - ends.low) / (2 * 1.645)
        tally += [
            np.sum(each[some]) for each in (held, np.ones(held.shape), deviation**2, (found.estimate - truth) ** 2)
        ]
    return tally


@pytest.mark.statistical
# At ε = 0.3 weighing asks about single attributes alone: what it says of pairs is independent by assumption.
@pytest.mark.parametrize(
    ("mechanism", "epsilon", "attributes"),
    [
        ("weighing", "0.3", 1),
        *itertools.product(["aim"], ["0.3"], [1, 2, 3]),
        *itertools.product(["weighing", "aim"], ["3"], [1, 2, 3]),
    ],
)
def test_intervals_of_whole_fits_hold_the_truth_and_are_no_wider_than_that_takes(
    mechanism: str, epsilon: str, attributes: int
) -> None:
    cliques = list(itertools.combinations(SIZES, attributes))[:: 1 if attributes < 3 else 3]
    tally = np.sum([tallied(release, cliques) for release in releases(mechanism, epsilon)], axis=0)
    held, ratio = tally[0] / tally[1], np.sqrt(tally[2] / tally[3])
    assert 0.8 <= held <= 0.98
    # The deviation that intervals stand for, beside the true one: twice or half as wide intervals would not pass.
    assert 0.8 <= ratio <= 1.55
