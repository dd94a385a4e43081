"""Data player: the record of the largest sum of rewards for the queries that it satisfies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.errors import SizeError
from priory.model.engine.maxsum import MOST_CELLS, best_row
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor
from priory.queries.query import Query

# Where elimination is too wide, branch and bound stops within 1 % or after so many nodes: a limit of time could not be
# replayed.
NODES, GAP = 2000, 0.01


@dataclass(frozen=True)
class Reward:
    """A query with one answer, of zeros and ones."""

    query: Query
    reward: float  # what a record gets for satisfying it; negative for one to be avoided


def best_record(
    domain: Domain, rewards: Sequence[Reward], rng: np.random.Generator, *, most_cells: int = MOST_CELLS
) -> NDArray[np.int64]:
    """A record with the largest sum of rewards.

    Values of an attribute that no reward distinguishes are one class, so that tables are small however many values
    there are; within a class the value is drawn by `rng`, which protects nobody. The search is exact by elimination, or
    by branch and bound where a table would have more than `most_cells`.
    """
    classes = [_Classes.of(name, domain[name], rewards) for name in domain]
    small = Domain(domain.attributes, tuple(each.count for each in classes))
    satisfying = [[classes[domain.axis[name]].holds(i) for name in each.query.clique] for i, each in enumerate(rewards)]
    try:
        row, _ = best_row(small, _summed(small, rewards, satisfying), most_cells=most_cells)
    except SizeError:
        # A query of no attributes gives every record the same.
        row = _branched(small, [t for t in rewards if t.query.clique], [along for along in satisfying if along])
    return np.array([each.member(int(k), rng) for each, k in zip(classes, row, strict=True)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Classes:
    """The values of an attribute, in classes by the rewards they satisfy."""

    of_value: NDArray[np.int64]  # the class of each value
    patterns: NDArray[np.bool_]  # whether each class (rows) satisfies each query that reads it (columns)
    column: dict[int, int]  # the column of each such query, by its number in the list of rewards

    @classmethod
    def of(cls, name: str, size: int, rewards: Sequence[Reward]) -> "_Classes":
        reading = [i for i, each in enumerate(rewards) if name in each.query.domain]
        if not reading:
            return cls(np.zeros(size, dtype=np.int64), np.zeros((1, 0), dtype=np.bool_), {})
        queries = [rewards[i].query for i in reading]
        rows = [query.parts[query.domain.axis[name]].matrix(size)[0] > 0 for query in queries]
        # Most values of a large attribute satisfy no query at all: they are class 0, and only the others are sorted.
        touched = np.flatnonzero(np.logical_or.reduce(rows))
        patterns, classes = np.unique(np.stack([row[touched] for row in rows], axis=1), axis=0, return_inverse=True)
        of_value = np.zeros(size, dtype=np.int64)
        of_value[touched] = classes.reshape(-1) + 1
        patterns = np.concatenate([np.zeros((1, len(rows)), dtype=np.bool_), patterns])
        if len(touched) == size:
            patterns, of_value = patterns[1:], of_value - 1
        return cls(of_value, patterns, {i: column for column, i in enumerate(reading)})

    @property
    def count(self) -> int:
        return len(self.patterns)

    def holds(self, reward: int) -> NDArray[np.bool_]:
        return np.asarray(self.patterns[:, self.column[reward]])

    def member(self, number: int, rng: np.random.Generator) -> int:
        return int(rng.choice(np.flatnonzero(self.of_value == number)))


Satisfying = Sequence[Sequence[NDArray[np.bool_]]]


def _summed(domain: Domain, rewards: Sequence[Reward], satisfying: Satisfying) -> dict[Clique, Factor]:
    """The sum of all rewards on each clique, as one table."""
    tables: dict[Clique, Array] = {}
    for each, along in zip(rewards, satisfying, strict=True):
        own = np.array(each.reward)
        for inside in along:
            own = np.multiply.outer(own, inside)
        clique = each.query.clique
        tables[clique] = tables[clique] + own if clique in tables else own
    return {clique: Factor(domain.project(clique), table) for clique, table in tables.items()}


def _branched(domain: Domain, rewards: Sequence[Reward], satisfying: Satisfying) -> NDArray[np.int64]:
    """By integer programming: x_ak says that attribute a has class k, z_i that query i is satisfied."""
    # With sums over the classes k that satisfy i, z_i ≤ Σ_k x_ak for each a binds where satisfying is rewarded, and
    # z_i ≥ Σ_a Σ_k x_ak − (|C| − 1) where it has a price; the other side is left to the objective.
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_array

    starts = np.concatenate([[0], np.cumsum(domain.shape)])
    choices, size = int(starts[-1]), int(starts[-1]) + len(rewards)
    limits: list[tuple[dict[int, float], float, float]] = [
        (dict.fromkeys(range(starts[a], starts[a + 1]), 1.0), 1.0, 1.0) for a in range(len(domain))
    ]
    for i, (each, along) in enumerate(zip(rewards, satisfying, strict=True)):
        named = zip(each.query.clique, along, strict=True)
        columns = [starts[domain.axis[name]] + np.flatnonzero(inside) for name, inside in named]
        if each.reward > 0:
            limits += [({choices + i: 1.0, **dict.fromkeys(p.tolist(), -1.0)}, -np.inf, 0.0) for p in columns]
        else:
            entries = {choices + i: 1.0, **dict.fromkeys(np.concatenate(columns).tolist(), -1.0)}
            limits.append((entries, 1.0 - len(columns), np.inf))
    matrix = lil_array((len(limits), size))
    for row, (entries, _, _) in enumerate(limits):
        for column, value in entries.items():
            matrix[row, column] = value
    solution = milp(
        -np.concatenate([np.zeros(choices), [each.reward for each in rewards]]),
        constraints=LinearConstraint(matrix.tocsr(), [low for _, low, _ in limits], [high for _, _, high in limits]),
        integrality=np.concatenate([np.ones(choices), np.zeros(len(rewards))]),
        bounds=Bounds(0, 1),
        options={"node_limit": NODES, "mip_rel_gap": GAP},
    )
    if solution.x is None:
        return np.zeros(len(domain), dtype=np.int64)
    return np.array([np.argmax(solution.x[starts[a] : starts[a + 1]]) for a in range(len(domain))], dtype=np.int64)
