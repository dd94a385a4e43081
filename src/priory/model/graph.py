"""Graph: a uniform base tilted by potentials, as a calibrated tree of bags."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.model.carried import Carrier
from priory.model.engine.contract import Calibrated, Contraction
from priory.model.engine.factored import LabelledTable, summed_product
from priory.model.engine.plan import Bag
from priory.model.engine.program import Ref
from priory.model.engine.split import Split
from priory.model.sampling import Chance, Codes, Columns, Ints
from priory.model.subtree import Subtrees
from priory.model.tilted import Potentials, Tilted, inner, row_cells
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Total
from priory.queries.query import Query

# Marginals up to this size are formed once for all queries on one clique; larger ones only as far as a query needs.
_SHARED_CELLS = 1 << 16


@dataclass(frozen=True, eq=False)
class GraphTilted(Tilted):
    """The tree of bags with all its marginals; what is not in one bag is found by eliminating along the tree."""

    domain: Domain
    potentials: Potentials
    calibrated: Calibrated

    @classmethod
    def of(cls, contraction: Contraction, potentials: Potentials) -> "GraphTilted":
        """Calibrate the tree at `potentials`, which are on the cliques of `contraction`."""
        calibrated = contraction.calibrate(contraction.layout.pack(potentials))
        return cls(calibrated.log_z, contraction.layout.domain, potentials, calibrated)

    def project(self, clique: Clique) -> Array:
        axes = tuple(self.domain.axis[name] for name in clique)
        return self._subtrees.project(axes)

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

    @property
    def bags(self) -> tuple[Bag, ...]:
        """The tree, children before parents."""
        return self.calibrated.program.plan.bags

    def tables_of(self, bag: int) -> list[LabelledTable]:
        """Tables whose product is the marginal of the bag with this number."""
        return [(ref.axes, self._array(ref)) for ref in self.calibrated.program.tables[bag].refs]

    def _carrier(self) -> Carrier:
        return Carrier(self.bags, self.domain.shape, self.tables_of)

    def _marginal(self, clique: Clique, carrier: Carrier) -> Array:
        carried = carrier.marginal(tuple(self.domain.axis[name] for name in clique))
        return self.project(clique) if carried is None else carried

    def _factored(self, query: Query) -> Array:
        """Parts that shrink their attribute are eliminated with it; the others are applied to what is left."""
        axes = [self.domain.axis[name] for name in query.clique]
        asked = list(zip(axes, query.parts, strict=True))
        tables = self._subtrees.tables([v for v, part in asked if not isinstance(part, Total)])
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
    def _subtrees(self) -> Subtrees:
        return Subtrees(self.bags, self.domain.shape, self.tables_of, self._separator)

    def _separator(self, index: int) -> Array:
        """The marginal of a bag's separator."""
        belief = self.calibrated.program.beliefs[index]
        assert belief is not None  # noqa: S101  only roots have none
        return self._array(belief).transpose([belief.axes.index(v) for v in self.bags[index].separator])

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
