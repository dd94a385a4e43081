"""Plan: an elimination order, the tree of bags that follows from it, and what the oracle will cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from priory.data.table import html_facts
from priory.errors import OptionError, SizeError
from priory.model.engine.elimination import Bucket, Scope, Sizer, best_order
from priory.model.engine.split import Split, best_split
from priory.queries.domain import Clique, Domain

MEMORY_IN_BYTES = 8 * 2**30

# What one call costs, fitted to measurements: a step, a cell passed over, a product inside a matrix product.
SECONDS_A_STEP = 1.7e-6
SECONDS_A_CELL = 0.9e-9
SECONDS_A_PRODUCT = 0.06e-9
# A bag with k factors is multiplied out, summed, and read back: about 4 + 2k steps.
_STEPS_A_BAG = 4
_STEPS_A_FACTOR = 2


@dataclass(frozen=True, slots=True)
class Bag:
    """A clique of the triangulated structure: one table, or three small ones where that is cheaper."""

    members: tuple[int, ...]  # its attributes, as numbers into the domain, in the order of the table's axes
    separator: tuple[int, ...]  # those it shares with its parent, in the same order
    parent: int  # the parent's index in the list of bags (after this one), or −1 for a root
    leaves: tuple[int, ...]  # the maximal cliques multiplied into it, as indices into `Plan.maximal`
    children: tuple[int, ...]  # the bags that send it a message
    split: Split | None  # how it is cut into three tables, or None where one table is cheaper


@dataclass(frozen=True, eq=False)
class Plan:
    """How the marginals of a set of cliques will be computed, described before anything is allocated."""

    domain: Domain  # all attributes
    cliques: tuple[Clique, ...]  # the cliques asked for
    # the elimination order: each attribute, as a number into the domain, with its neighbours at that time
    buckets: tuple[Bucket, ...]
    maximal: tuple[Clique, ...]  # the cliques that are not inside another one
    home: tuple[int, ...]  # for each clique, the index of its maximal clique in `maximal` (−1 for the empty clique)
    bags: tuple[Bag, ...]  # children before parents

    def attributes_of(self, bag: Bag) -> Clique:
        """The names of a bag's members, in the order of its axes."""
        return tuple(self.domain.attributes[i] for i in bag.members)

    def cells_of(self, bag: Bag) -> int:
        """How many cells a table over all of a bag's members has."""
        return math.prod(self.domain.shape[i] for i in bag.members)

    @property
    def order(self) -> tuple[int, ...]:
        """The elimination order."""
        return tuple(v for v, _ in self.buckets)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The attributes in no clique: independent of everything, and never materialised."""
        used = set(self.order)
        return tuple(i for i in range(len(self.domain)) if i not in used)

    @cached_property
    def width(self) -> int:
        """The treewidth of the order: members of the largest bag, less one."""
        return max((len(bag.members) for bag in self.bags), default=0) - 1

    @cached_property
    def size_in_cells(self) -> int:
        """The cells of all bags together: the size of the junction tree."""
        return sum(self.cells_of(bag) for bag in self.bags)

    @cached_property
    def largest_table(self) -> int:
        """The cells of the largest table that is really formed."""
        return max((max(self._tables(bag)) for bag in self.bags), default=1)

    @cached_property
    def operations(self) -> int:
        """Multiplications and additions of one call, forward and back."""
        tables = [sum(self._tables(bag)) * (2 + len(bag.leaves) + len(bag.children)) for bag in self.bags]
        return sum(tables) + sum(3 * self.cells_of(bag) for bag in self.bags if bag.split)

    @cached_property
    def memory_in_bytes(self) -> int:
        """What the oracle holds while it runs: potentials, tables and messages."""
        given = sum(self.domain.size_of(clique) for clique in self.cliques)
        return 8 * (3 * given + sum(self._scratch(bag) for bag in self.bags))

    @cached_property
    def seconds(self) -> float:
        """A forecast of one call on one core of an ordinary machine."""
        steps = sum(_STEPS_A_BAG + _STEPS_A_FACTOR * (len(bag.leaves) + len(bag.children)) for bag in self.bags)
        cells = sum(sum(self._tables(bag)) * (4 + len(bag.children)) for bag in self.bags)
        products = sum(3 * self.cells_of(bag) for bag in self.bags if bag.split)
        if max(cells, products) >= 10**300:
            return math.inf
        return SECONDS_A_STEP * steps + SECONDS_A_CELL * cells + SECONDS_A_PRODUCT * products

    def _tables(self, bag: Bag) -> list[int]:
        if bag.split is None:
            return [self.cells_of(bag)]
        return [math.prod(self.domain.shape[i] for i in table) for table in bag.split.tables]

    def _scratch(self, bag: Bag) -> int:
        tables = self._tables(bag)
        separator = math.prod(self.domain.shape[i] for i in bag.separator)
        covered = bag.split is None and any(len(self.maximal[i]) == len(bag.members) for i in bag.leaves)
        factors = len(bag.leaves) + len(bag.children)
        own = 0 if covered and factors <= 2 else (1 if bag.split is None else 2) * sum(tables)
        return 4 * separator + own + (sum(tables) // 2 if factors > 2 else 0)

    def __str__(self) -> str:
        return (
            f"{len(self.cliques)} cliques over {len(self.domain)} attributes: {len(self.bags)} bags, "
            f"width {self.width}, largest table {_number(self.largest_table)} cells, "
            f"{_number(self.size_in_cells)} cells in all; a call takes {_number(self.operations)} operations, "
            f"{_bytes(self.memory_in_bytes)}, about {self.seconds * 1e3:.3g} ms"
        )

    def _repr_html_(self) -> str:
        facts = {
            "cliques": f"{len(self.cliques):,} over {len(self.domain):,} attributes",
            "width": f"{self.width}",
            "largest table": f"{_number(self.largest_table)} cells",
            "all tables": f"{_number(self.size_in_cells)} cells",
            "memory": _bytes(self.memory_in_bytes),
            "a call": f"{_number(self.operations)} operations, about {self.seconds * 1e3:.3g} ms",
        }
        return html_facts("Plan", facts)

    def check(self, memory_in_bytes: int) -> "Plan":
        """The plan, or before anything is allocated a `SizeError` that names the cliques to blame."""
        if self.memory_in_bytes <= memory_in_bytes:
            return self
        blamed = self._blamed()
        need = f"the model would need {_bytes(self.memory_in_bytes)}, {_bytes(memory_in_bytes)} are allowed"
        cells, cliques = _number(self.largest_table), [list(clique) for clique in blamed]
        why = f"its largest table has {cells} cells, because of the cliques {cliques}"
        hint = "measure fewer or smaller cliques, recode attributes to fewer values, or allow more memory"
        limit = memory_in_bytes // 8
        raise SizeError(f"{need}; {why}; {hint}", cells=self.memory_in_bytes // 8, limit=limit, cliques=blamed)

    def _blamed(self, most: int = 8) -> list[Clique]:
        largest = max(self.bags, key=self.cells_of, default=None)
        if largest is None:
            return list(self.cliques[:most])
        inside = set(self.attributes_of(largest))
        return sorted((c for c in self.maximal if len(inside.intersection(c)) > 1 or inside == set(c)), key=len)[-most:]

    @cached_property
    def sizer(self) -> Sizer:
        """Says what further cliques, which are numbers into the domain, add to the size."""
        return Sizer(self.order, [rest for _, rest in self.buckets], self.domain.shape)

    def size_with(self, clique: Iterable[str]) -> int:
        """The cells of all bags if `clique` were added and the elimination order stayed."""
        return self.sizer.size_with(self.domain.axis[name] for name in self.domain.checked(clique))


def plan(domain: Domain, cliques: Iterable[Iterable[str]], *, memory_in_bytes: int = MEMORY_IN_BYTES) -> Plan:
    """Plan the oracle for `cliques`: the cheapest of several elimination orders. Plans are cached.

    >>> print(plan(Domain.of({"a": 2, "b": 3, "c": 4}), [("a", "b"), ("b", "c")]))
    2 cliques over 3 attributes: 2 bags, width 1, largest table 12 cells, 18 cells in all; a call takes 66 operations,
    560 bytes, about 0.0239 ms

    Raises:
        DomainError: a clique names an attribute twice or one the domain does not have.
        SizeError: the plan does not fit `memory_in_bytes`.
    """
    if memory_in_bytes < 1:
        raise OptionError("memory_in_bytes", f"needs to be at least 1; got {memory_in_bytes}")
    return _planned(domain, tuple(domain.checked(clique) for clique in cliques)).check(memory_in_bytes)


@lru_cache(maxsize=256)
def _planned(domain: Domain, cliques: tuple[Clique, ...]) -> Plan:
    axis = domain.axis
    scopes = [frozenset(axis[name] for name in clique) for clique in cliques]
    maximal, home = _maximal(scopes)
    buckets = best_order([scopes[i] for i in maximal], domain.shape)
    named = tuple(cliques[i] for i in maximal)
    bags = _bags(domain, [scopes[i] for i in maximal], named, buckets)
    return Plan(domain, cliques, tuple(buckets), named, home, bags)


def _maximal(scopes: Sequence[Scope]) -> tuple[list[int], tuple[int, ...]]:
    """The scopes inside no other, and for each scope the maximal one it is in."""
    holders: dict[int, list[int]] = {}
    maximal: list[int] = []
    home = [-1] * len(scopes)
    for i in sorted(range(len(scopes)), key=lambda i: -len(scopes[i])):
        scope = scopes[i]
        if not scope:
            continue
        # Any holder of the scope is a holder of its rarest attribute, so looking there keeps stars linear.
        candidates = min((holders.get(v, ()) for v in scope), key=len)
        index = next((j for j in candidates if scope <= scopes[maximal[j]]), -1)
        if index < 0:
            index = len(maximal)
            maximal.append(i)
            for v in scope:
                holders.setdefault(v, []).append(index)
        home[i] = index
    return maximal, tuple(home)


@dataclass(eq=False, slots=True)
class _Draft:
    """A bag while the tree is built."""

    members: list[int]
    separator: Scope
    parent: int
    leaves: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)


def _bags(
    domain: Domain, scopes: Sequence[Scope], cliques: Sequence[Clique], buckets: Sequence[Bucket]
) -> tuple[Bag, ...]:
    """The maximal buckets as a tree, children first."""
    index = {v: i for i, (v, _) in enumerate(buckets)}
    drafts, bag_of = _tree(buckets, index)
    for i, scope in enumerate(scopes):
        drafts[bag_of[min(scope, key=index.__getitem__)]].leaves.append(i)
    for i, draft in enumerate(drafts):
        if draft.parent >= 0:
            drafts[draft.parent].children.append(i)
    last = len(drafts) - 1
    bags = []
    for draft in reversed(drafts):
        cover = next((cliques[j] for j in draft.leaves if len(scopes[j]) == len(draft.members)), None)
        # The table takes the axes of a clique that covers it, so that its potentials need no copy.
        axes = [domain.axis[name] for name in cover] if cover else sorted(draft.members, key=lambda v: -index[v])
        factors = [] if cover else [scopes[j] for j in draft.leaves] + [drafts[j].separator for j in draft.children]
        split = None if cover else best_split(axes, [domain.shape[v] for v in axes], factors, draft.separator)
        separator = tuple([v for v in axes if v in draft.separator])
        parent, children = last - draft.parent if draft.parent >= 0 else -1, tuple([last - j for j in draft.children])
        bags.append(Bag(tuple(axes), separator, parent, tuple(draft.leaves), children, split))
    return tuple(bags)


def _tree(buckets: Sequence[Bucket], index: Mapping[int, int]) -> tuple[list[_Draft], dict[int, int]]:
    """Bags, parents first, and the bag of each attribute: it joins its parent's where that is all its neighbours."""
    drafts: list[_Draft] = []
    bag_of: dict[int, int] = {}
    for v, rest in reversed(buckets):
        parent = bag_of[min(rest, key=index.__getitem__)] if rest else -1
        if rest and len(drafts[parent].members) == len(rest):
            drafts[parent].members.append(v)
            bag_of[v] = parent
        else:
            bag_of[v] = len(drafts)
            drafts.append(_Draft([*rest, v], rest, parent))
    return drafts, bag_of


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= size:
            return f"{_number(count // (size // 1000), 1000)} {unit}"
    return f"{count} bytes"


def _number(count: int, over: int = 1) -> str:
    """A count, which may be too large for a float, for people."""
    if count >= 10**300:
        return f"10^{math.log10(count) - math.log10(over):.0f}"
    return f"{count / over:.3g}"
