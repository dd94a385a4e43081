"""Journal: what a run was answered, kept as it comes, so that nothing paid is lost when the run ends early.

Every entry is an output of the curator: noisy answers, private picks, noisy numbers, and what was paid. None of it
needs protection any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

from priory.privacy.functionals import NoisyNumber
from priory.privacy.measurement import Measurement
from priory.privacy.scores import Pick
from priory.queries.domain import Domain
from priory.queries.query import Query


@dataclass(frozen=True)
class PublicTotal:
    """The number of rows, where it is public."""

    total: int


@dataclass(frozen=True)
class Paid:
    """A payment, written before the look that it pays for."""

    spent: Fraction  # all that the run has paid by now, in its budget's currency


@dataclass(frozen=True, eq=False)
class Answered:
    """A batch of noisy answers."""

    measurements: tuple[Measurement, ...]  # the answers, in the order of the queries


@dataclass(frozen=True)
class Picked:
    """Candidates that were picked privately."""

    picks: tuple[Pick, ...]  # the candidates
    share: Fraction  # what all of them cost together
    queries: tuple[str, ...] = ()  # the digest of the query of each


@dataclass(frozen=True)
class Numbered:
    """A noisy number about the whole table."""

    number: NoisyNumber


Entry = PublicTotal | Paid | Answered | Picked | Numbered
_Kind = TypeVar("_Kind", PublicTotal, Paid, Answered, Picked, Numbered)


class Journal(Protocol):
    """Where the curator writes what it hands out, before it hands it out."""

    def make_room(self, queries: Sequence[Query], draws: int = 0) -> None:
        """Make sure, before they are paid, that answers to `queries`, or `draws` picks, can be written."""

    def write(self, entry: Entry) -> None:
        """Keep `entry`; it is safe when this returns."""


@dataclass(frozen=True, eq=False)
class Transcript:
    """What a run was answered, in order."""

    entries: tuple[Entry, ...] = ()

    @property
    def answers(self) -> tuple[Answered, ...]:
        """The batches of noisy answers."""
        return self._of(Answered)

    @property
    def picks(self) -> tuple[Picked, ...]:
        """The private picks."""
        return self._of(Picked)

    @property
    def numbers(self) -> tuple[Numbered, ...]:
        """The noisy numbers."""
        return self._of(Numbered)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Every noisy answer; the number of rows first, where it is public."""
        measured = tuple(m for batch in self.answers for m in batch.measurements)
        if self.public_total is None:
            return measured
        return (Measurement.of(Query(Domain((), ()), ()), self.public_total, 0.0), *measured)

    @property
    def spent(self) -> Fraction:
        """All that was paid, also for a batch whose answers were lost."""
        paid = self._of(Paid)
        return paid[-1].spent if paid else Fraction(0)

    @property
    def holds_results(self) -> bool:
        """Whether anything was answered for what was paid."""
        return bool(self.answers or self.picks or self.numbers)

    @property
    def public_total(self) -> int | None:
        """The number of rows, where it is public and was asked for."""
        totals = self._of(PublicTotal)
        return totals[0].total if totals else None

    def _of(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(entry for entry in self.entries if isinstance(entry, kind))


class Forgetful:
    """A journal that keeps nothing, for runs whose caller keeps the release itself."""

    def make_room(self, queries: Sequence[Query], draws: int = 0) -> None:
        """Needs none."""

    def write(self, entry: Entry) -> None:
        """Forgets it."""
