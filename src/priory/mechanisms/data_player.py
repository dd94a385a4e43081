"""Data player: the record that is worth most, where queries that it satisfies have a reward or a price."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.domain import Clique, Domain
from priory.errors import SizeError
from priory.factor import Array, Factor
from priory.model.engine.maxsum import MOST_CELLS, best_row
from priory.queries.query import Query

# Where elimination is too wide, branch and bound stops within 1 % or after so many nodes: a limit of time could not be
# replayed.
NODES, GAP = 2000, 0.01


@dataclass(frozen=True)
class Term:
    """A query with one answer, of zeros and ones.

    Attributes:
        query: the query.
        reward: what a record that satisfies it is worth; negative for one to be avoided.
    """

    query: Query
    reward: float


def best_record(
    domain: Domain, terms: Sequence[Term], rng: np.random.Generator, *, most_cells: int = MOST_CELLS
) -> NDArray[np.int64]:
    """A record with the largest sum of rewards.

    Values of an attribute that no term tells apart are one class, so that tables are small however many values there
    are; within a class the value is drawn by `rng`, which protects nobody. The search is exact by elimination, or by
    branch and bound where a table would have more than `most_cells`.
    """
    classes = [_Classes.of(name, domain[name], terms) for name in domain]
    small = Domain(domain.attributes, tuple(found.count for found in classes))
    held = [[classes[domain.axis[name]].holds(i) for name in term.query.clique] for i, term in enumerate(terms)]
    try:
        row, _ = best_row(small, _summed(small, terms, held), most_cells=most_cells)
    except SizeError:
        # A query of no attributes is worth the same for every record.
        row = _branched(small, [t for t in terms if t.query.clique], [along for along in held if along])
    return np.array([found.member(int(k), rng) for found, k in zip(classes, row, strict=True)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Classes:
    """The values of an attribute, in classes by the terms they satisfy.

    Attributes:
        of_value: the class of each value.
        patterns: for each class (rows) whether it satisfies each term that reads the attribute (columns).
        column: the column of each such term, by its place in the list of terms.
    """

    of_value: NDArray[np.int64]
    patterns: NDArray[np.bool_]
    column: dict[int, int]

    @classmethod
    def of(cls, name: str, size: int, terms: Sequence[Term]) -> "_Classes":
        reading = [i for i, term in enumerate(terms) if name in term.query.domain]
        if not reading:
            return cls(np.zeros(size, dtype=np.int64), np.zeros((1, 0), dtype=np.bool_), {})
        queries = [terms[i].query for i in reading]
        rows = [query.parts[query.domain.axis[name]].matrix(size)[0] > 0 for query in queries]
        # Most values of a large attribute satisfy no term at all: they are class 0, and only the others are sorted.
        touched = np.flatnonzero(np.logical_or.reduce(rows))
        patterns, places = np.unique(np.stack([row[touched] for row in rows], axis=1), axis=0, return_inverse=True)
        of_value = np.zeros(size, dtype=np.int64)
        of_value[touched] = places.reshape(-1) + 1
        patterns = np.concatenate([np.zeros((1, len(rows)), dtype=np.bool_), patterns])
        if len(touched) == size:
            patterns, of_value = patterns[1:], of_value - 1
        return cls(of_value, patterns, {i: column for column, i in enumerate(reading)})

    @property
    def count(self) -> int:
        return len(self.patterns)

    def holds(self, term: int) -> NDArray[np.bool_]:
        return np.asarray(self.patterns[:, self.column[term]])

    def member(self, place: int, rng: np.random.Generator) -> int:
        return int(rng.choice(np.flatnonzero(self.of_value == place)))


Held = Sequence[Sequence[NDArray[np.bool_]]]


def _summed(domain: Domain, terms: Sequence[Term], held: Held) -> dict[Clique, Factor]:
    """The rewards of all terms on each clique, as one table."""
    tables: dict[Clique, Array] = {}
    for term, along in zip(terms, held, strict=True):
        own = np.array(term.reward)
        for inside in along:
            own = np.multiply.outer(own, inside)
        clique = term.query.clique
        tables[clique] = tables[clique] + own if clique in tables else own
    return {clique: Factor(domain.project(clique), table) for clique, table in tables.items()}


def _branched(domain: Domain, terms: Sequence[Term], held: Held) -> NDArray[np.int64]:
    """By integer programming: x_ak says that attribute a has class k, z_i that term i is satisfied.

    z_i ≤ Σ_{k held} x_ak for each a binds where satisfying is rewarded, z_i ≥ Σ_a Σ_{k held} x_ak − (|C| − 1) where it
    has a price; the other side is left to the objective.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_array

    starts = np.concatenate([[0], np.cumsum(domain.shape)])
    choices, size = int(starts[-1]), int(starts[-1]) + len(terms)
    limits: list[tuple[dict[int, float], float, float]] = [
        (dict.fromkeys(range(starts[a], starts[a + 1]), 1.0), 1.0, 1.0) for a in range(len(domain))
    ]
    for i, (term, along) in enumerate(zip(terms, held, strict=True)):
        places = [
            starts[domain.axis[name]] + np.flatnonzero(inside)
            for name, inside in zip(term.query.clique, along, strict=True)
        ]
        if term.reward > 0:
            limits += [({choices + i: 1.0, **dict.fromkeys(p.tolist(), -1.0)}, -np.inf, 0.0) for p in places]
        else:
            entries = {choices + i: 1.0, **dict.fromkeys(np.concatenate(places).tolist(), -1.0)}
            limits.append((entries, 1.0 - len(places), np.inf))
    matrix = lil_array((len(limits), size))
    for row, (entries, _, _) in enumerate(limits):
        for column, value in entries.items():
            matrix[row, column] = value
    found = milp(
        -np.concatenate([np.zeros(choices), [term.reward for term in terms]]),
        constraints=LinearConstraint(matrix.tocsr(), [low for _, low, _ in limits], [high for _, _, high in limits]),
        integrality=np.concatenate([np.ones(choices), np.zeros(len(terms))]),
        bounds=Bounds(0, 1),
        options={"node_limit": NODES, "mip_rel_gap": GAP},
    )
    if found.x is None:
        return np.zeros(len(domain), dtype=np.int64)
    return np.array([np.argmax(found.x[starts[a] : starts[a + 1]]) for a in range(len(domain))], dtype=np.int64)
