"""Prior: start at public data, measure the marginals that gain most over their noise, then the cells that are worst."""

import itertools
import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from priory.domain import Clique, Domain
from priory.errors import DomainError, OptionError
from priory.estimate.estimator import estimate
from priory.measure import measure
from priory.mechanisms.neighbourhood import neighbourhood
from priory.mechanisms.noiseless import weighable
from priory.mechanisms.pmw_pub import PMWPub, paid_total
from priory.mechanisms.row_weights import cell_query, every_cell
from priory.model.bases import Base, Product, PublicRows
from priory.model.model import Model
from priory.model.rows import RowsTilted
from priory.privacy.budget import Budget, exact
from priory.privacy.curator import Curator
from priory.privacy.measurement import Measurement
from priory.privacy.noise import noise_within
from priory.privacy.scores import L1Error
from priory.queries.query import Query
from priory.queries.sensitivity import sensitivity
from priory.queries.workload import Workload
from priory.release import Release

# The mean of |noise| over its standard deviation, for Gaussian noise.
MEAN_OVER_STDDEV = math.sqrt(2 / math.pi)
# A cell whose noise is more than this share of all rows tells nothing of a prior worth starting from.
MOST_NOISE = 0.02


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a run has come to.

    Attributes:
        base: what the model starts from.
        model: the estimate so far.
        measurements: what it rests on.
    """

    base: Base
    model: Model
    measurements: tuple[Measurement, ...]

    def with_measured(self, measurements: list[Measurement]) -> "Progress":
        """Measured further and estimated anew, stopping at the noise."""
        together = (*self.measurements, *measurements)
        # Whether the solver ran to its end is in the model's diagnostics; adaptive runs go on from what there is.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = estimate(weighable(together), self.base.domain, base=self.base, total=self.model.total)
        return replace(self, model=model, measurements=together)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prior:
    """Leave the public prior only as far as noisy evidence says, and where it says most.

    A first part of the budget chooses whole marginals by how much farther off the model is than their noise would be;
    where one turns out no farther off than its noise, later ones get four times the budget, and after each the model is
    estimated anew, stopping at the noise. The rest goes to the workload's worst single cells, as in PMW^Pub.

    Attributes:
        public: the rows to start from; without any, every cell of the domain alike.
        workload: marginals; all of three attributes unless told, or of all where there are fewer.
        outside: the share of the prior that lies on rows one value away from the public ones.
        part: of the budget, what whole marginals get; 1 for all of it.
        rounds: over how many marginals that part would be spread if each were worth it.
        cells: how many single cells are measured, at most.
        least: how many standard deviations of its noise a cell must be off to move the model.
        choosing: what part of a marginal's budget chooses it.
        most_cells: marginals with more are no candidates.
        seed: of the rows outside.
    """

    public: PublicRows | None = None
    workload: Workload | None = None
    outside: float = 0.01
    part: Fraction = Fraction(4, 5)
    rounds: int = 30
    cells: int = 20
    least: float = 2.0
    choosing: Fraction = Fraction(1, 10)
    most_cells: int = 20_000
    seed: int = 0

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Spend `budget`."""
        workload, base = self._checked(curator.domain)
        curator.check(budget)
        total, measured, rest = paid_total(curator, budget)
        marginals, cells = self._parts(rest, total, workload, base)
        found = Progress(base, Model.of(base, {}, total), measured)
        found = self._with_marginals(curator, marginals, found, workload)
        rows = reweighed(found.model)
        if rows is not None and cells is not None:
            rounds = min(self.cells, workload.rows)
            refining = PMWPub(public=rows, workload=workload, rounds=rounds, least=self.least)
            found = _with_cells(curator, cells, found, refining)
        release = Release(curator.domain, found.measurements, curator.statement("prior"))
        return release.with_model(found.model)

    def _parts(self, budget: Budget, total: float, workload: Workload, base: Base) -> tuple[Budget, Budget | None]:
        """What marginals get and what cells get: nothing where one cell's noise would be more than errors ever are."""
        if self.part == 1 or self.cells == 0 or not isinstance(base, PublicRows):
            return budget, None
        marginals, cells = budget.split((self.part, 1 - self.part))
        share = cells.part(Fraction(1, 2 * self.cells))
        stddev = expected_noise(cell_query(workload.queries[0], 0), share) / MEAN_OVER_STDDEV
        return (marginals, cells) if stddev <= MOST_NOISE * total else (budget, None)

    def _checked(self, domain: Domain) -> tuple[Workload, Base]:
        if self.public is not None and self.public.domain != domain:
            raise DomainError(f"the public rows have {self.public.domain}, the private table {domain}")
        if not 0 <= self.outside < 1:
            raise OptionError("outside", f"a share below 1; got {self.outside}")
        if not (0 < exact("part", self.part) <= 1 and 0 < exact("choosing", self.choosing) < 1 <= self.rounds):
            raise OptionError(
                "part", "it is above 0 and at most 1, choosing lies between, and there is at least one round"
            )
        workload = Workload.marginals(domain, min(3, len(domain))) if self.workload is None else self.workload
        workload = workload.checked(domain)
        if not all(query.is_marginal for query in workload):
            raise OptionError("workload", "the prior is improved for marginals")
        if self.public is None:
            return workload, every_cell(domain, 1) if domain.size <= self.most_cells else Product([], domain=domain)
        return workload, neighbourhood(self.public, self.outside, np.random.default_rng(self.seed))

    def _with_marginals(self, curator: Curator, budget: Budget, found: Progress, workload: Workload) -> Progress:
        candidates = weighted_closure(workload)
        left, share = budget.amount, budget.amount / min(self.rounds, len(candidates))
        while left > 0:
            share = share if left >= 2 * share else left
            left -= share
            found, gained = self._with_marginal(curator, budget.worth(share), found, candidates)
            share *= 1 if gained else 4
        return found

    def _with_marginal(
        self, curator: Curator, share: Budget, found: Progress, candidates: dict[Query, float]
    ) -> tuple[Progress, bool]:
        """One more marginal, and whether the model moved on it by more than its noise."""
        choosing, measuring = share.split((self.choosing, 1 - self.choosing))
        noise = {query: expected_noise(query, measuring) for query in candidates}
        queries = [query for query in candidates if query.rows <= self.most_cells] or [
            min(noise, key=noise.__getitem__)
        ]
        answers = [found.model.project(query.clique).values for query in queries]
        score = L1Error(tuple(candidates[q] for q in queries), tuple(min(noise[q], 2.0**31) for q in queries))
        [pick] = curator.choose(queries, answers, score, choosing)
        query = queries[pick.query]
        after = found.with_measured(measure(curator, [query], measuring))
        moved = np.abs(after.model.project(query.clique).values - answers[pick.query]).sum()
        return after, bool(moved > noise[query])


def _with_cells(curator: Curator, budget: Budget, found: Progress, cells: PMWPub) -> Progress:
    after = cells.iterates(curator, budget, cells.start(curator.domain), found.model.total)
    base = after.last.public_rows(curator.domain)
    return Progress(base, Model.of(base, {}, found.model.total), (*found.measurements, *after.measurements))


def reweighed(model: Model) -> PublicRows | None:
    """The rows of a model's base with the weights that the model gives them; None where its base is not rows."""
    tilted = model.base.tilt(model.potentials)
    return PublicRows(tilted.codes, model.domain, tilted.shares) if isinstance(tilted, RowsTilted) else None


def expected_noise(query: Query, share: Budget) -> float:
    """The L1 norm of the noise that `share` buys for `query`."""
    stddev = noise_within(share, sensitivity(query, share.relation, share.max_rows)).stddev
    return MEAN_OVER_STDDEV * stddev * query.rows


def weighted_closure(workload: Workload) -> dict[Query, float]:
    """Every marginal of the workload's marginals, with how much of the workload it is about [AIM]."""
    domain = {query.clique: weight for query, weight in zip(workload.queries, workload.weights, strict=True)}
    found: dict[Clique, Query] = {}
    for query in workload:
        for k in range(1, len(query.clique) + 1):
            for clique in itertools.combinations(query.clique, k):
                found.setdefault(clique, Query.marginal(query.domain, clique))
    return {
        query: sum(weight * len(set(clique) & set(other)) for other, weight in domain.items())
        for clique, query in found.items()
    }
