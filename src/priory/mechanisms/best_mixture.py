"""Best mixture: whether public rows, however they are reweighed, can answer a workload about the private table."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from priory.errors import DomainError, OptionError
from priory.factor import Array
from priory.mechanisms.pmw_pub.row_weights import RowWeights
from priory.mechanisms.steps.total import counted, released_total
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.functionals import LargestCell, MixtureError
from priory.privacy.journal import Transcript
from priory.privacy.mixture import Bounds, best_mixture
from priory.queries.workload import Workload
from priory.release import Release
from priory.release.archive import json_bytes


@dataclass(frozen=True)
class PublicCheck:
    """What a look at the private table says of public rows.

    Attributes:
        error: the largest error over the workload that reweighing cannot repair, as a share of all rows.
        stddev: of its noise.
        kind: "exact", or "floor" for a bound from below that is usually close.
    """

    error: float
    stddev: float
    kind: Literal["exact", "floor"]

    def __str__(self) -> str:
        least = "at least " if self.kind == "floor" else ""
        return f"error that reweighing public rows cannot repair: {least}{max(self.error, 0):.4f} ± {self.stddev:.4f}"


@dataclass(frozen=True, kw_only=True, eq=False)
class BestMixture:
    """One number with noise: the error of the best reweighing of public rows, or its floor [Liu et al. 2021, §4.2].

    The floor is the largest count in a cell that no public row is in: cheap, and released under either relation. The
    exact value is a linear programme, needs a public number of rows, and takes minutes for large workloads.

    Attributes:
        public: the rows.
        workload: marginals; all of three attributes unless told, or of all where there are fewer.
        kind: which of the two is released.
    """

    public: PublicRows
    workload: Workload | None = None
    kind: Literal["exact", "floor"] = "floor"

    def look(self, curator: Curator, budget: Budget) -> PublicCheck:
        """Spend `budget` on the number alone: which cell attains it would need a charge of its own."""
        weights = self._weights(curator)
        curator.check(budget)
        if self.kind == "exact" and curator.public_total is None:
            raise OptionError("kind", "the exact value needs a public number of rows: ask for the floor")
        count = counted(curator, budget)
        floor = LargestCell(weights.queries, ~weights.supported)
        exact = MixtureError(weights.queries, weights.cells, weights.weights)
        found = curator.number(floor if self.kind == "floor" else exact, count.rest)
        return PublicCheck(found.value / count.total, found.stddev / count.total, self.kind)

    def run(self, curator: Curator, budget: Budget) -> Release:
        """The number as a release of its own."""
        found = self.look(curator, budget)
        return _released(Release(curator.domain, (), curator.statement("best-mixture")), found)

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early, with the number where it was answered."""
        if not transcript.numbers:
            return release
        total = released_total(release.measurements)
        number = transcript.numbers[0].number
        return _released(release, PublicCheck(number.value / total, number.stddev / total, self.kind))

    def _weights(self, curator: Curator) -> RowWeights:
        domain = curator.domain
        if self.public.domain != domain:
            raise DomainError(f"the public rows have {self.public.domain}, the private table {domain}")
        workload = Workload.marginals(domain, min(3, len(domain))) if self.workload is None else self.workload
        return RowWeights.of(workload.checked(domain).queries, self.public)


def _released(release: Release, found: PublicCheck) -> Release:
    """The release with what was found, as a section of its own."""
    told = {"error": found.error, "stddev": found.stddev, "kind": found.kind}
    return release.with_section("public_check", {"public_check.json": json_bytes(told)})


def mixture_bounds(rows: PublicRows, workload: Workload, truths: list[Array], tolerance: float) -> Bounds:
    """The same without privacy, from true answers: for experiments on data that is public anyway."""
    weights = RowWeights.of(workload.queries, rows)
    shares = [np.ravel(truth) / max(truth.sum(), 1) for truth in truths]
    return best_mixture(weights.cells, shares, weights.weights, tolerance)
