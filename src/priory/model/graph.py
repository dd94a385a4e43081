"""Graph: a uniform base tilted by potentials, as a calibrated tree of bags."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from priory.model.carried import NO_MASS, Carrier
from priory.model.engine.contract import Calibrated, Contraction
from priory.model.engine.factored import LabelledTable, check_bytes, summed_product
from priory.model.engine.plan import Bag
from priory.model.engine.program import Ref
from priory.model.engine.split import Split
from priory.model.sampling import Chance, Codes, Columns, Ints
from priory.model.tilted import Potentials, Tilted, inner, row_cells
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Total
from priory.queries.query import Query

# Marginals up to this size are formed once for all queries on one clique; larger ones only as far as a query needs.
_SHARED_CELLS = 1 << 16
# Tables up to this size are divided by their separator's marginal once and kept; larger ones as they are asked for.
_DIVIDED_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class GraphTilted(Tilted):
    """The tree of bags with all its marginals; what is not in one bag is found by eliminating along the tree."""

    domain: Domain
    potentials: Potentials
    calibrated: Calibrated
    _conditionals: dict[int, list[LabelledTable]] = field(default_factory=dict)  # what was divided already

    @classmethod
    def of(cls, contraction: Contraction, potentials: Potentials) -> "GraphTilted":
        """Calibrate the tree at `potentials`, which are on the cliques of `contraction`."""
        calibrated = contraction.calibrate(contraction.layout.pack(potentials))
        return cls(calibrated.log_z, contraction.layout.domain, potentials, calibrated)

    def project(self, clique: Clique) -> Array:
        axes = tuple(self.domain.axis[name] for name in clique)
        return summed_product(self._tables(axes), axes)

    def answers(self, queries: Sequence[Query]) -> list[Array]:
        marginals: dict[Clique, Array] = {}
        carrier = self._carrier()
        answers = []
        for query in queries:
            if query.domain.size > _SHARED_CELLS and not (query.is_marginal and len(query.clique) == 2):
                answers.append(self._factored(query))
                continue
            if query.clique not in marginals:
                marginals[query.clique] = self._marginal(query.clique, carrier)
            answers.append(np.asarray(query(marginals[query.clique]), dtype=np.float64))
        return answers

    def _carrier(self) -> Carrier:
        program = self.calibrated.program
        return Carrier(program.plan.bags, self.domain.shape, lambda i: self._bag_tables(i, is_top=True))

    def _marginal(self, clique: Clique, carrier: Carrier) -> Array:
        carried = carrier.marginal(tuple(self.domain.axis[name] for name in clique))
        return self.project(clique) if carried is None else carried

    def _factored(self, query: Query) -> Array:
        """Parts that shrink their attribute are eliminated with it; the others are applied to what is left."""
        axes = [self.domain.axis[name] for name in query.clique]
        asked = list(zip(axes, query.parts, strict=True))
        tables = self._tables([v for v, part in asked if not isinstance(part, Total)])
        keep: list[int] = []
        for v, part in asked:
            rows = part.rows(self.domain.shape[v])
            if rows >= self.domain.shape[v] and not isinstance(part, Total):
                keep.append(v)
            elif not isinstance(part, Total):
                matrix = part.matrix(self.domain.shape[v]).astype(np.float64)
                tables.append(((v,), matrix[0]) if rows == 1 else ((~v, v), matrix))
                # The answers' own axis stands beside the attribute's, which is summed.
                keep += [~v] if rows > 1 else []
        answers = summed_product(tables, tuple(keep))
        left = [self.domain.shape[v] if v in keep else part.rows(self.domain.shape[v]) for v, part in asked]
        answers = answers.reshape(left)
        for axis, (v, part) in enumerate(asked):
            answers = part.apply(answers, axis) if v in keep and not isinstance(part, Identity) else answers
        return answers

    @cached_property
    def _home(self) -> dict[int, int]:
        """The bag in which each attribute is eliminated: the highest that has it."""
        bags = self.calibrated.program.plan.bags
        return {v: i for i, bag in enumerate(bags) for v in bag.members if v not in bag.separator}

    def _tables(self, axes: Iterable[int]) -> list[LabelledTable]:
        """Tables whose product, summed, is the marginal of `axes`: the smallest part of the tree that has them all."""
        asked = frozenset(axes)
        tables: list[LabelledTable] = []
        paths = self._subtrees(asked)
        # Tables below the top ones are copied when they are divided; those that were are kept.
        divided = (i for path in paths for i in path[1:] if i not in self._conditionals)
        refs = [self.calibrated.program.tables[i].refs[-1] for i in divided]
        check_bytes(8 * sum(math.prod(self.domain.shape[v] for v in ref.axes) for ref in refs))
        for path in paths:
            tables += self._bag_tables(path[0], is_top=True)
            for i in path[1:]:
                tables += self._bag_tables(i, is_top=False)
        for v in asked.difference(self._home):
            tables.append(((v,), np.full(self.domain.shape[v], 1 / self.domain.shape[v])))
        return tables

    def _subtrees(self, asked: frozenset[int]) -> list[list[int]]:
        """For each tree with attributes asked for, the bags that join them, the top one first."""
        bags = self.calibrated.program.plan.bags
        below: dict[int, list[int]] = {}
        roots: list[int] = []
        for v in asked:
            i = self._home.get(v, -1)
            while i >= 0 and i not in below:
                below[i] = []
                if bags[i].parent < 0:
                    roots.append(i)
                i = bags[i].parent
        for i in below:
            if bags[i].parent >= 0:
                below[bags[i].parent].append(i)
        return [_from_top(root, below, bags, asked) for root in roots]

    def _bag_tables(self, index: int, *, is_top: bool) -> list[LabelledTable]:
        """A bag's marginal as tables, or its conditional distribution given its separator."""
        program = self.calibrated.program
        if is_top or program.beliefs[index] is None:
            return [(ref.axes, self._array(ref)) for ref in program.tables[index].refs]
        if index in self._conditionals:
            return self._conditionals[index]
        tables = self._conditional(index)
        if tables[-1][1].size <= _DIVIDED_CELLS:
            self._conditionals[index] = tables
        return tables

    def _conditional(self, index: int) -> list[LabelledTable]:
        program = self.calibrated.program
        belief = program.beliefs[index]
        assert belief is not None  # noqa: S101  the caller looked
        *others, last = ((ref.axes, self._array(ref)) for ref in program.tables[index].refs)
        separator = program.plan.bags[index].separator
        mass = self._array(belief).transpose([belief.axes.index(v) for v in separator])
        inverse = np.divide(1.0, mass, out=np.zeros(mass.shape), where=mass > NO_MASS)
        # The last table of a bag, cut or not, has all of its separator. It is divided at once: the inverses of two bags
        # with one separator could overflow when they meet.
        axes, table = last
        order = sorted(range(len(separator)), key=lambda i: axes.index(separator[i]))
        shape = [self.domain.shape[v] if v in separator else 1 for v in axes]
        return [*others, (axes, table * inverse.transpose(order).reshape(shape))]

    def _array(self, ref: Ref) -> Array:
        return self.calibrated.table(ref.start, [self.domain.shape[v] for v in ref.axes], ref.strides)

    def sample(self, n: int, chance: Chance) -> Codes:
        columns = Columns.empty(n, self.domain.shape)
        program = self.calibrated.program
        for index in range(len(program.plan.bags) - 1, -1, -1):
            self._sample_bag(index, columns, chance)
        for v in program.plan.free:
            columns.draw((v,), (), lambda _, size=self.domain.shape[v]: np.ones((1, size)), chance)  # type: ignore[misc]
        return columns.codes

    def _sample_bag(self, index: int, columns: Columns, chance: Chance) -> None:
        program = self.calibrated.program
        bag, top = program.plan.bags[index], program.tables[index].top
        new = tuple(v for v in top.axes if v not in bag.separator)
        table = self._array(top).transpose([top.axes.index(v) for v in bag.separator + new])
        weights = table.reshape(self._cells(bag.separator), -1)
        columns.draw(new, bag.separator, lambda groups: weights[groups], chance)
        if bag.split is not None:
            self._sample_summed(index, bag.split, columns, chance)

    def _sample_summed(self, index: int, split: Split, columns: Columns, chance: Chance) -> None:
        """The attributes that a product of matrices sums: their weights are F times G, a row for each cell of H."""
        batch, left, right = (self._cells(axes) for axes in (split.batch, split.left, split.right))
        refs = self.calibrated.program.tables[index].refs
        f = self._array(refs[0]).reshape(batch, left, -1)
        g = self._array(refs[1]).reshape(batch, -1, right)

        def weights(groups: Ints) -> Array:
            at, row, column = np.unravel_index(groups, (batch, left, right))
            return np.asarray(f[at, row, :] * g[at, :, column])

        columns.draw(split.summed, split.batch + split.left + split.right, weights, chance)

    def _cells(self, axes: Iterable[int]) -> int:
        return math.prod(self.domain.shape[v] for v in axes)

    def log_mass(self, codes: Codes) -> Array:
        logs = np.full(len(codes), -self.calibrated.log_z - sum(math.log(size) for size in self.domain.shape))
        for clique, factor in self.potentials.items():
            logs += factor.values.reshape(-1)[row_cells(codes, self.domain, clique)]
        return logs

    def entropy(self) -> float:
        marginals = self.calibrated.buffer[: self.calibrated.program.layout.size]
        theta = self.calibrated.program.layout.pack(self.potentials)
        return self.calibrated.log_z + sum(math.log(size) for size in self.domain.shape) - inner(theta, marginals)


def _from_top(root: int, below: dict[int, list[int]], bags: Sequence[Bag], asked: frozenset[int]) -> list[int]:
    """The bags under the lowest one that still has everything asked for on its side."""
    top = root
    while len(below[top]) == 1 and asked.intersection(bags[top].members) <= set(bags[below[top][0]].separator):
        top = below[top][0]
    path = [top]
    for i in path:
        path.extend(below[i])
    return path
