"""Errors: one root, few leaves, the facts as attributes.

    PrioryError
    ├── OptionError     an argument is wrong                         (exit code 2)
    ├── SchemaError     the schema is wrong                          (exit code 3)
    ├── DataError       a file, a frame or public data is wrong      (exit code 4)
    ├── DomainError     attributes, cliques or shapes do not fit     (exit code 5)
    ├── SizeError       it would not fit in memory                   (exit code 6)
    ├── BudgetError     it would cost more than is left              (exit code 7)
    ├── LedgerError     the book of spending cannot be used          (exit code 8)
    ├── ReleaseError    a release file cannot be used                (exit code 9)
    └── MissingExtra    an optional library is not installed         (exit code 10)

None of them is ever raised because of a value in private rows, and none carries one. Every exception that leaves `fit`,
those of Python too, has what the run cost as its attribute `spent`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar


@dataclass(frozen=True)
class Spent:
    """What a run that ended with an error has cost.

    Attributes:
        amount: what the ledger charges for the run, in its currency; 0 where nothing was spent.
        currency: the letter of that currency, such as "ε"; empty where nothing was spent.
        text: the same as a sentence for people.
        entry: the number of the run's line in the ledger, where the ledger is a file.
        ledger: the path of the ledger, where it is a file.
        partial: the path of the file with what was measured until then, from which `priory estimate` makes a release.
    """

    amount: Fraction = Fraction(0)
    currency: str = ""
    text: str = "Nothing was spent"
    entry: int | None = None
    ledger: str | None = None
    partial: str | None = None

    def __bool__(self) -> bool:
        """Whether anything was spent."""
        return self.amount > 0


NOTHING_SPENT = Spent()


class PrioryError(Exception):
    """Something a person can put right; the message says how.

    Attributes:
        exit_code: what the command line returns for it.
        spent: what the run that raised it has cost; None where there was no run.
    """

    exit_code: ClassVar[int] = 1
    spent: Spent | None = None


class OptionError(PrioryError):
    """An argument has a value it cannot have.

    Attributes:
        argument: its name.
    """

    exit_code = 2

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(f"{argument}: {message}")
        self.argument = argument


class SchemaError(PrioryError):
    """The schema contradicts itself or cannot be read.

    Attributes:
        column: the column to blame, if one is.
        line: the line of the file, counted from 1, if there is one.
        path: the file, if there is one.
    """

    exit_code = 3

    def __init__(
        self, message: str, *, column: str | None = None, line: int | None = None, path: str | None = None
    ) -> None:
        place = [path] if path is not None else []
        place += [f"line {line}"] if line is not None else []
        place += [f"column {column!r}"] if column is not None else []
        super().__init__(": ".join([", ".join(place), message] if place else [message]))
        self.reason = message
        self.column, self.line, self.path = column, line, path


class DataError(PrioryError):
    """A file, a frame or a public table cannot be used.

    For private data this speaks only of the container (missing file, missing column, not UTF-8), never of a cell.

    Attributes:
        column: the column to blame, if one is.
    """

    exit_code = 4

    def __init__(self, message: str, *, column: str | None = None) -> None:
        super().__init__(f"column {column!r}: {message}" if column is not None else message)
        self.column = column


class DomainError(PrioryError):
    """Attributes, cliques or array shapes do not fit the domain."""

    exit_code = 5


class SizeError(PrioryError):
    """Something would need more memory than is allowed. Nothing was allocated.

    Attributes:
        cells: how many cells it would need.
        limit: how many are allowed.
        cliques: the cliques to blame.
    """

    exit_code = 6

    def __init__(self, message: str, *, cells: int, limit: int, cliques: Sequence[tuple[str, ...]] = ()) -> None:
        super().__init__(message)
        self.cells, self.limit, self.cliques = cells, limit, tuple(cliques)


class BudgetError(PrioryError):
    """A release would cost more than is left. Nothing was looked at and nothing was released.

    Attributes:
        asked: what it would cost, in the ledger's currency.
        left: what remains, in the ledger's currency.
    """

    exit_code = 7

    def __init__(self, message: str, *, asked: Fraction | None = None, left: Fraction | None = None) -> None:
        super().__init__(message)
        self.asked, self.left = asked, left


class LedgerError(PrioryError):
    """The book of spending is missing, damaged, or of another data set. Nothing was spent."""

    exit_code = 8


class ReleaseError(PrioryError):
    """A release file is damaged, was changed, or is newer than this version reads."""

    exit_code = 9


class MissingExtra(PrioryError):
    """An optional library is needed and not installed.

    Attributes:
        extra: what to install.
    """

    exit_code = 10

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"this needs {library}, which is not installed; run: pip install {extra!r}")
        self.extra = extra
