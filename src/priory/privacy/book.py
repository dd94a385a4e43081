"""Book: what a ledger says, as data: its terms, its lines, and what each paid for."""

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from priory.errors import OptionError
from priory.privacy.budget import Budget, Currency
from priory.queries.sensitivity import Sensitivity

NOTHING = Fraction(0)


@dataclass(frozen=True)
class Terms:
    """What a ledger was made for; fixed for good."""

    dataset: str  # the declared name of the data set. A new version of the table with the same persons keeps it
    schema: str  # the schema, as YAML text; empty where it is still to be bound, which is done once
    total: Budget  # what may be spent in all
    person: str | None = None  # the column that names the person, or None if rows are what is protected

    @property
    def unit(self) -> str:
        """What one neighbour is, in words."""
        if self.person is None:
            return "a row"
        return f"a person (column {self.person!r}), with at most {self.total.max_rows} of their rows"


class EntryState(StrEnum):
    """How a reservation stands."""

    OPEN = "open"
    SPENT = "spent"
    INTERRUPTED = "interrupted"
    RELEASED = "released"


@dataclass(frozen=True)
class Event:
    """One payment of a run, with what its price follows from, so that it can be priced anew under a better theorem."""

    kind: str  # the noise or the choice that was paid for
    what: str  # the public description of what was asked
    cost: Fraction  # in the currency of the run
    currency: Currency | None = None  # which that is; None where version 0.1 wrote it
    sensitivity: Sensitivity | None = None  # of the answers that noise was added to, or None
    moved: Fraction | None = None  # how far one person moves a score that was chosen by, in the score's steps, or None
    scale: Fraction | None = None  # of the noise or the choice, or None
    draws: int = 1  # how many independent picks were paid for together; 1 for noise
    additive: Fraction = NOTHING  # δ′, what it adds to δ beside the cost


@dataclass(frozen=True)
class Entry:
    """One line of the book."""

    number: int  # counted from 1
    mechanism: str  # who asked
    asked: Fraction  # what was set aside, in the ledger's currency
    charged: Fraction  # what counts against the total
    state: EntryState  # how it stands. One that is still open after its process has died is charged in full
    opened: str  # when, in UTC
    closed: str | None  # when, in UTC, or None
    events: tuple[Event, ...] = ()  # what was paid for
    asked_additive: Fraction = NOTHING  # the δ′ that was set aside
    charged_additive: Fraction = NOTHING  # the δ′ that counts against the total's


def check_terms(terms: Terms) -> None:
    """Raise an `OptionError` if no ledger can be made for `terms`."""
    if not terms.dataset.strip():
        raise OptionError("dataset", "a data set needs a name")
    if any("\ud800" <= letter <= "\udfff" for letter in terms.dataset):
        # It would fail to be written into a release that is paid for.
        raise OptionError("dataset", "the name of a data set is text that can be written as UTF-8")
    if terms.person is None and terms.total.max_rows > 1:
        raise OptionError("max_rows", "more than one row a person needs a person column")


def now() -> str:
    """The time in UTC, to the second."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
