"""Candidates: the marginals that an adaptive mechanism may measure, what each matters, which still fit the model."""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from priory.errors import OptionError
from priory.model.engine.plan import Plan
from priory.privacy.budget import Budget
from priory.queries.domain import Clique, Domain
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.select.one_ways import expected_noise
from priory.select.workloads import default_workload


@dataclass(frozen=True)
class Candidates:
    """Every marginal of the workload's marginals.

    Attributes:
        cliques: what could be measured.
        weights: how much of the workload each is about: Σ weight(W)·|r ∩ W| over its cliques W [AIM].
    """

    cliques: tuple[Clique, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, domain: Domain, workload: Workload | None, most_cells: int) -> "Candidates":
        """Those with at most `most_cells`, and every single attribute; of the usual workload where none is given.

        Raises:
            OptionError: the workload asks for something else than marginals, or nothing of it is small enough.
        """
        workload = default_workload(domain) if workload is None else workload.checked(domain)
        if not all(query.is_marginal for query in workload):
            raise OptionError("workload", "this mechanism aims at marginals; give a workload of marginals")
        importance: dict[str, float] = {}
        for query, weight in zip(workload.queries, workload.weights, strict=True):
            for name in query.clique:
                importance[name] = importance.get(name, 0.0) + weight
        closure = dict.fromkeys(
            clique
            for query in workload
            for k in range(1, len(query.clique) + 1)
            for clique in itertools.combinations(query.clique, k)
        )
        cliques = tuple(clique for clique in closure if domain.size_of(clique) <= most_cells or len(clique) == 1)
        # |r ∩ W| counts the attributes of r that W has, so the sum over W is one over the attributes of r.
        return cls(cliques, tuple(sum(importance[name] for name in clique) for clique in cliques))

    def some(self, most: int, number: int) -> "Candidates":
        """At most so many of them, in an order of chance that depends on a public number alone."""
        order = np.random.default_rng(number).permutation(len(self.cliques))[:most]
        return Candidates(tuple(self.cliques[i] for i in order), tuple(self.weights[i] for i in order))

    def above_the_noise(self, measured: Plan, most_cells: float, share: Budget, total: float) -> "Worth":
        """The queries worth asking, with their weights and the L1 norm of the noise that `share` buys for each.

        With them the model has at most `most_cells`, or no more than without them. No marginal is farther off than
        2·`total`: one whose noise is more is left out, which is known before anyone looks. The least noisy one stays.
        """
        limit = max(most_cells, measured.size_in_cells)
        # All marginals of two cells or more have the same noise in each.
        domain = measured.domain
        widest = Query.marginal(domain, domain.attributes[domain.shape.index(max(domain.shape))])
        noise_a_cell = expected_noise(widest, share) / widest.rows
        noise = [noise_a_cell * domain.size_of(clique) for clique in self.cliques]
        quiet = max(2 * total, min(noise))
        asked = [
            i
            for i, clique in enumerate(self.cliques)
            if noise[i] <= quiet and measured.sizer.fits([domain.axis[name] for name in clique], limit)
        ]
        queries = tuple(Query.marginal(domain, self.cliques[i]) for i in asked)
        return Worth(queries, tuple(self.weights[i] for i in asked), tuple(noise[i] for i in asked))


class Worth(NamedTuple):
    """Queries worth asking."""

    queries: tuple[Query, ...]  # marginals
    weights: tuple[float, ...]  # how much of the workload each is about
    noise: tuple[float, ...]  # the L1 norm of the noise that each would have
