"""Workload: the queries whose answers matter, with weights."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from priory.errors import DomainError, OptionError
from priory.queries.domain import Clique, Domain
from priory.queries.parts import Identity, Prefix
from priory.queries.query import Query


@dataclass(frozen=True)
class Workload:
    """A list of weighted queries.

    Attributes:
        queries: what is asked.
        weights: how much each matters, relative to the others.
    """

    queries: tuple[Query, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, queries: Iterable[Query], weights: Iterable[float] | None = None) -> "Workload":
        """Build a workload, checking it; equal weights by default."""
        queries = tuple(queries)
        given = tuple(1.0 for _ in queries) if weights is None else tuple(float(weight) for weight in weights)
        if len(given) != len(queries):
            raise OptionError("weights", f"{len(given)} weights were given for {len(queries)} queries")
        if not all(math.isfinite(weight) and weight > 0 for weight in given):
            raise OptionError("weights", f"weights must be positive numbers; got {list(given)}")
        return cls(queries, given)

    @classmethod
    def marginals(cls, domain: Domain, k: int) -> "Workload":
        """All marginals of `k` attributes.

        >>> len(Workload.marginals(Domain.of({"a": 2, "b": 3, "c": 4}), 2))
        3
        """
        if not 0 <= k <= len(domain):
            raise OptionError("k", f"marginals of {k} attributes do not exist in a domain of {len(domain)}")
        return cls.of(Query.marginal(domain, clique) for clique in itertools.combinations(domain, k))

    @classmethod
    def prefix_ranges(
        cls, domain: Domain, numeric: Collection[str], *, k: int = 3, count: int = 15, seed: int
    ) -> "Workload":
        """`count` random k-way marginals with prefix ranges on `numeric` attributes [Private-PGM, §5.1].

        The subsets are drawn without replacement from all of size `k`, from `seed` alone.
        """
        numeric = set(domain.checked(numeric))
        if count < 1 or count > math.comb(len(domain), k):
            raise OptionError("count", f"there are {math.comb(len(domain), k)} subsets of {k} attributes; got {count}")
        subsets = _random_subsets(len(domain), k, count, np.random.default_rng(seed))
        parts = {name: Prefix() if name in numeric else Identity() for name in domain}
        names = [[domain.attributes[i] for i in subset] for subset in subsets]
        return cls.of(Query.product(domain, {name: parts[name] for name in each}) for each in names)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques the queries read, each once, in order of appearance."""
        return tuple(dict.fromkeys(query.clique for query in self.queries))

    @property
    def rows(self) -> int:
        """How many answers there are in all."""
        return sum(query.rows for query in self.queries)

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[Query]:
        return iter(self.queries)

    def checked(self, domain: Domain) -> "Workload":
        """The workload itself, if it is not empty and its queries are of `domain`."""
        if not self.queries:
            raise DomainError("the workload is empty: it needs at least one query")
        for query in self.queries:
            if domain.project(domain.checked(query.clique)) != query.domain:
                raise DomainError(f"a query over {query.clique} has sizes {query.domain.shape} unlike the domain's")
        return self


def _random_subsets(n: int, k: int, count: int, rng: "np.random.Generator") -> list[tuple[int, ...]]:
    """Distinct random subsets, by rejection where there are many of them."""
    if math.comb(n, k) <= 100_000:
        every = list(itertools.combinations(range(n), k))
        return [every[i] for i in rng.choice(len(every), size=count, replace=False)]
    chosen: dict[tuple[int, ...], None] = {}
    while len(chosen) < count:
        chosen[tuple(sorted(int(i) for i in rng.choice(n, size=k, replace=False)))] = None
    return list(chosen)
