"""Best mixture: whether public rows, however they are reweighed, can answer a workload about the private table."""

from dataclasses import dataclass
from typing import Literal

from priory.errors import OptionError
from priory.mechanisms.pmw_pub.row_weights import RowWeights
from priory.mechanisms.steps.public_rows import check_public_rows
from priory.mechanisms.steps.total import counted
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.functionals import LargestCell, MixtureError
from priory.privacy.session import Session
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

    def look(self, session: Session, budget: Budget) -> PublicCheck:
        """Spend `budget` on the number alone: which cell attains it would need a charge of its own."""
        weights = self._weights(session)
        session.check(budget)
        if self.kind == "exact" and session.public_total is None:
            raise OptionError("kind", "the exact value needs a public number of rows: ask for the floor")
        count = counted(session, budget)
        floor = LargestCell(weights.queries, ~weights.supported)
        exact = MixtureError(weights.queries, weights.cells, weights.weights)
        number = session.number(floor if self.kind == "floor" else exact, count.rest)
        return PublicCheck(number.value / count.total, number.stddev / count.total, self.kind)

    def run(self, session: Session, budget: Budget) -> Release:
        """Spend `budget` on the number, and release it."""
        check = self.look(session, budget)
        return Release(session.domain, (), session.statement("best-mixture"), public_check=check)

    def _weights(self, session: Session) -> RowWeights:
        domain = session.domain
        check_public_rows(self.public, domain)
        workload = default_workload(domain) if self.workload is None else self.workload
        return RowWeights.of(workload.checked(domain).queries, self.public)
