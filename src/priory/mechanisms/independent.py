"""Independent: every one-way marginal, and nothing else."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from priory.measure import measure
from priory.privacy.budget import Budget
from priory.privacy.session import Session
from priory.queries.query import Query
from priory.release import Release


@dataclass(frozen=True, kw_only=True)
class Independent:
    """All one-way marginals at equal shares of the budget; a model of them treats attributes as independent."""

    choice_share: ClassVar[Fraction] = Fraction(0)

    def run(self, session: Session, budget: Budget) -> Release:
        """Measure each attribute by itself."""
        queries = [Query.marginal(session.domain, name) for name in session.domain]
        measurements = measure(session, queries, budget)
        return Release(session.domain, tuple(measurements), session.statement("independent"))
