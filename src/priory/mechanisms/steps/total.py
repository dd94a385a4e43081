"""Total: the number of rows a mechanism reckons with, public or paid for."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from priory.measure import measure
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.session import Session
from priory.queries.query import Query

# The part of the budget that measures the number of rows where it is secret; whatever has an n in it uses this noisy n.
SHARE = Fraction(1, 20)


@dataclass(frozen=True, eq=False)
class Counted:
    """A number of rows and what is left after it."""

    measurement: Measurement  # where the number comes from; without noise where it is public
    rest: Budget  # what may still be spent

    @property
    def paid(self) -> list[Measurement]:
        """The measurement, where it was paid for."""
        return [] if self.measurement.is_public else [self.measurement]

    @property
    def total(self) -> float:
        """The number of rows, at least 1."""
        return max(1.0, float(self.measurement.values))


def counted(session: Session, budget: Budget, share: Fraction = SHARE) -> Counted:
    """The number of rows: as it is under replace-one with a row a person, else for `share` of the budget."""
    for measurement in session.public_count:
        return Counted(measurement, budget.worth(budget.amount))
    [measurement] = measure(session, [Query.marginal(session.domain, ())], budget.part(share))
    return Counted(measurement, budget.part(1 - share))


def released_total(measurements: Sequence[Measurement]) -> float:
    """The number of rows that a release made with `counted` says there are, at least 1."""
    return max(1.0, float(next(m.values for m in measurements if not m.query.clique)))
