"""Question: what a form asks of a release, as a call, as a command line and as Python."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from priory.data.kinds import ModelledColumn
from priory.data.kinds.numbers import short_text
from priory.data.table import Table
from priory.errors import OptionError
from priory.release import Release
from priory.release.release import LEVEL

# What can be asked, with what a form calls it; all but the first are about a column.
VERBS = MappingProxyType(
    {
        "count": "how many rows",
        "share": "shares of",
        "mean": "the mean of",
        "median": "the median of",
        "quantile": "quantiles of",
        "sum": "the sum of",
        "cdf": "the share with at most each value of",
    }
)
# Comparisons of a condition, with what a form calls them; the last two take no value.
SIGNS = MappingProxyType(
    {
        "=": "is",
        "!=": "is not",
        "<": "is below",
        "<=": "is at most",
        ">": "is above",
        ">=": "is at least",
        "in": "is one of (with ; between)",
        "is null": "is missing",
        "is not null": "is not missing",
    }
)
_BARE = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}")
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Restriction:
    """One line of a condition: a column, a comparison and a value as they were typed."""

    column: str
    sign: str
    value: str = ""

    @property
    def text(self) -> str:
        """The test as SQL writes it.

        >>> print(Restriction("age", ">=", "30").text, "and", Restriction("sex", "in", "F; M").text)
        "age" >= 30 and "sex" in ('F', 'M')
        """
        name = '"' + self.column.replace('"', '""') + '"'
        if self.sign not in SIGNS:
            raise OptionError("where", f"a comparison such as = or <=; got {self.sign!r}")
        if self.sign.startswith("is "):
            return f"{name} {self.sign}"
        if not self.value.strip():
            raise OptionError("where", f"column {self.column!r} is compared with nothing; give a value")
        if self.sign == "in":
            values = [_literal(line.strip()) for line in self.value.split(";") if line.strip()]
            return f"{name} in ({', '.join(values)})"
        return f"{name} {self.sign} {_literal(self.value.strip())}"


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
        what: a key of `VERBS`.
        column: what it is about; nothing for a count.
        by: an answer for each combination of these columns' values.
        where: which rows count, as in SQL; nothing for all.
        at: which quantiles.
        level: how often intervals should hold the truth.
    """

    what: str = "count"
    column: str = ""
    by: tuple[str, ...] = ()
    where: str = ""
    at: tuple[float, ...] = (0.5,)
    level: float = LEVEL

    @classmethod
    def of(
        cls,
        what: str,
        *,
        column: str = "",
        by: Sequence[str] = (),
        tests: Sequence[Restriction] = (),
        condition: str = "",
        at: Sequence[float] = (),
        level: float = LEVEL,
    ) -> "Question":
        """The question of a form; tests without a column are left out, and the others must all hold."""
        if what not in VERBS:
            raise OptionError("what", f"one of {', '.join(VERBS)}; got {what!r}")
        if what != "count" and not column:
            raise OptionError("column", f"say of which column you want {VERBS[what]}")
        parts = [test.text for test in tests if test.column]
        if condition.strip():
            parts.append(f"({condition.strip()})" if parts else condition.strip())
        # Shares and curves have their own column in every answer already.
        by = tuple(dict.fromkeys(name for name in by if name and not (what in ("share", "cdf") and name == column)))
        chosen = tuple(at) or QUARTILES
        return cls(what, "" if what == "count" else column, by, " and ".join(parts), chosen, level)

    @property
    def axes(self) -> tuple[str, ...]:
        """The columns whose values the rows of the answer stand for."""
        return (*self.by, self.column) if self.what in ("share", "cdf") else self.by

    @property
    def words(self) -> str:
        """The question as a sentence would have it."""
        named = f"{VERBS[self.what]} {self.column}".strip()
        by = f" by {' and '.join(self.by)}" if self.by else ""
        where = f", where {self.where}" if self.where else ""
        return f"{named}{by}{where}"

    def answer(self, release: Release) -> Table:
        """What the release says; free."""
        where, level = self.where or None, self.level
        if self.what == "count":
            return release.marginal(self.by, where=where, level=level)
        if self.what == "share":
            return release.share(self.column, given=self.by, where=where, level=level)
        if self.what == "quantile":
            return release.quantile(self.column, self._at, by=self.by, where=where, level=level)
        verbs = {"mean": release.mean, "sum": release.sum, "median": release.median, "cdf": release.cdf}
        return verbs[self.what](self.column, by=self.by, where=where, level=level)

    def command(self, file: str) -> list[str]:
        """The command line that gives the same answer, word by word."""
        given = [] if self.what == "count" else [(f"--{self.what}", self.column)]
        given += [("--at", short_text(share)) for share in self.at] if self.what == "quantile" else []
        given += [("--where", self.where)] if self.where else []
        given += [("--level", short_text(self.level))] if self.level != LEVEL else []
        # A value that begins with a hyphen would be read as an option of its own.
        options = [
            word for name, value in given for word in ([f"{name}={value}"] if value.startswith("-") else [name, value])
        ]
        if any(name.startswith("-") for name in self.by):
            return ["priory", "query", file, *options, "--", *self.by]
        return ["priory", "query", file, *self.by, *options]

    def python(self, file: str) -> str:
        """The Python that gives the same answer.

        >>> print(Question("mean", "age", ("sex",)).python("people.priory"))
        import priory as pr
        <BLANKLINE>
        release = pr.load('people.priory')
        release.mean('age', by=['sex'])
        """
        return f"import priory as pr\n\nrelease = pr.load({file!r})\n{self.call}"

    @property
    def call(self) -> str:
        """The call of a release's method that gives the answer."""
        first = [repr(name) for name in self.by] if self.what == "count" else [repr(self.column)]
        if self.what == "quantile":
            first.append(repr(self._at))
        if self.by and self.what != "count":
            first.append(f"{'given' if self.what == 'share' else 'by'}={list(self.by)!r}")
        first += [f"where={self.where!r}"] if self.where else []
        first += [f"level={short_text(self.level)}"] if self.level != LEVEL else []
        return f"release.{'marginal' if self.what == 'count' else self.what}({', '.join(first)})"

    @property
    def _at(self) -> float | list[float]:
        return list(self.at) if len(self.at) > 1 else self.at[0]


def can_ask(what: str, column: ModelledColumn) -> bool:
    """Whether a question makes sense for a column."""
    if what in ("mean", "sum"):
        return column.is_numeric and (what == "mean" or column.is_additive)
    return column.is_ascending if what in ("median", "quantile", "cdf") else True


def _literal(value: str) -> str:
    return value if _BARE.fullmatch(value) else "'" + value.replace("'", "''") + "'"
