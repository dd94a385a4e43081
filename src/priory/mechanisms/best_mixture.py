"""Best mixture: whether public rows, however they are reweighed, can answer a workload about the private table."""

from dataclasses import dataclass, replace
from typing import Literal

from priory.errors import OptionError
from priory.mechanisms.pmw_pub.row_weights import RowWeights
from priory.mechanisms.steps.public_rows import check_public_rows
from priory.mechanisms.steps.total import counted, released_total
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.functionals import LargestCell, MixtureError
from priory.privacy.journal import Transcript
from priory.queries.workload import Workload
from priory.release import Release
from priory.release.parts import PublicCheck
from priory.select.workloads import default_workload


@dataclass(frozen=True, kw_only=True, eq=False)
class BestMixture:
    """One number with noise: the error of the best reweighing of public rows, or its floor [Liu et al. 2021, §4.2].

    The floor is the largest count in a cell that no public row is in: cheap, and released under either relation. The
    exact value is a linear programme, needs a public number of rows, and takes minutes for large workloads.

    Attributes:
        public: the rows.
        workload: marginals; see `default_workload` for the default.
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
        number = curator.number(floor if self.kind == "floor" else exact, count.rest)
        return PublicCheck(number.value / count.total, number.stddev / count.total, self.kind)

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Spend `budget` on the number, and release it."""
        check = self.look(curator, budget)
        return Release(curator.domain, (), curator.statement("best-mixture"), public_check=check)

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early, with the number where it was answered."""
        if not transcript.numbers:
            return release
        total = released_total(release.measurements)
        number = transcript.numbers[0].number
        return replace(release, public_check=PublicCheck(number.value / total, number.stddev / total, self.kind))

    def _weights(self, curator: Curator) -> RowWeights:
        domain = curator.domain
        check_public_rows(self.public, domain)
        workload = default_workload(domain) if self.workload is None else self.workload
        return RowWeights.of(workload.checked(domain).queries, self.public)
