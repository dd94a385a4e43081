"""Summary: the last rehearsals of a fit at several budgets, for people."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from priory.app.forecast.planner import RUNS, SECONDS, Planner, check_budgets
from priory.app.forecast.rehearsal import Rehearsal
from priory.app.registry import Mechanism
from priory.data.schema import Schema
from priory.data.table import html_table, text_table
from priory.mechanisms.steps.effort import NORMAL
from priory.privacy.budget import Budget

_HEADER = ["budget", "CPU s", "MB", "mean error", "worst pair", "its error"]
_UNIT = "Errors are total variation distances of pairs of columns: 0 is exact, 1 is all wrong."


@dataclass(frozen=True)
class Forecast:
    """Rehearsals of a fit at several budgets.

    Attributes:
        schema: what the table's columns are.
        rows: how many rows the private table was said to have.
        mechanism: the recipe.
        rehearsed_on: in words, what the made-up tables were like.
        columns: how many columns there are.
        rehearsals: one for each budget.
        accuracy: in words, how near such forecasts were to fits of real tables.
    """

    schema: str
    rows: int
    mechanism: str
    rehearsed_on: str
    columns: int
    rehearsals: tuple[Rehearsal, ...]
    accuracy: str = ""

    @classmethod
    def of(cls, planner: Planner, rehearsals: Sequence[Rehearsal]) -> "Forecast":
        """What a planner found."""
        made_of = "made-up rows with typical dependences" if planner.known is None else "public rows, drawn anew"
        columns = len(planner.schema.domain)
        name, accuracy = planner.mechanism.name, planner.accuracy([each.budget for each in rehearsals])
        return cls(planner.schema.name, planner.rows, name, made_of, columns, tuple(rehearsals), accuracy)

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        names = ("schema", "rows", "mechanism", "rehearsed_on", "columns", "accuracy")
        facts = {name: getattr(self, name) for name in names}
        return {**facts, "rehearsals": [each.to_dict() for each in self.rehearsals]}

    def __str__(self) -> str:
        lines = text_table(_HEADER, self._lines, right=[False, True, True, True, False, True])
        return "\n".join([self._about, _UNIT, lines, *self._caveats])

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._about)} {_UNIT}</p>{html_table(_HEADER, self._lines)}" + "".join(
            f"<p>{html.escape(each)}</p>" for each in self._caveats
        )

    @property
    def _about(self) -> str:
        return f"{self.mechanism} on {self.rows:,} rows of {self.schema!r}, rehearsed on {self.rehearsed_on}."

    @property
    def _caveats(self) -> list[str]:
        """How far rehearsals went, how far off forecasts of rehearsals were, and how far off those of real fits."""
        return [*(line for each in self.rehearsals for line in _caveats(each)), self.accuracy]

    @property
    def _lines(self) -> list[list[str]]:
        return [_line(each) for each in self.rehearsals]


def forecast(
    schema: Schema,
    rows: int,
    budgets: Sequence[Budget],
    *,
    mechanism: str | Mechanism | None = None,
    public: object | None = None,
    runs: int = RUNS,
    seed: int = 0,
    effort: str = NORMAL,
    seconds: float = SECONDS,
) -> Forecast:
    """Rehearse a fit on made-up tables: what it takes, and the error to expect of each column and pair.

    The private table is not an argument. With public data rows drawn anew from theirs play the private table: errors
    are those of a table that differs from the public one by chance alone. Without, tables are drawn from random
    networks whose columns are as uneven and as dependent as is typical: a table that is not typical has other errors.
    `Planner` gives the same results as they come.

    Args:
        schema: what the columns are.
        rows: how many rows the private table has, as far as one may say.
        budgets: what may be spent, one after the other.
        mechanism: which recipe; by default `fit`'s own choice.
        public: a public table with the same columns.
        runs: how many rehearsals of each budget are averaged, if there is time.
        seed: of the made-up tables; the noise is fresh each time.
        effort: that of the fit.
        seconds: about how much work the rehearsals may be, in processor seconds; with more columns than can be
            rehearsed in it, the time and the errors of all are reckoned from those of some.

    Raises:
        OptionError: there are no rows, runs or budgets, or the mechanism has no use for public data.
        DataError: the public table does not fit the schema, or has no rows.
    """
    check_budgets(budgets)
    planner = Planner.of(schema, rows, mechanism=mechanism, public=public, effort=effort, seed=seed)
    found = planner.forecasts(budgets, seconds=seconds, runs=runs)
    return Forecast.of(planner, [each for each in found if each.is_final])


def _caveats(rehearsal: Rehearsal) -> list[str]:
    if rehearsal.is_interpolated:
        return [f"{rehearsal.budget}: reckoned from rehearsals with other budgets; its own would take too long."]
    lines = []
    if rehearsal.rehearsed < rehearsal.of:
        lines.append(
            f"rehearsed with {rehearsal.rehearsed} of {rehearsal.of} columns; the rest is reckoned from these."
        )
    if rehearsal.of_rows and rehearsal.rehearsed_rows and rehearsal.rehearsed_rows < rehearsal.of_rows:
        some = f"{rehearsal.rehearsed_rows:,} of {rehearsal.of_rows:,} rows"
        lines.append(f"rehearsed with {some}; the time of all is reckoned from these.")
    off = [(rehearsal.time_off, "time"), (rehearsal.error_off, "errors")]
    parts = [f"{ratio:.2f} times the {what}" for ratio, what in off if ratio is not None]
    if parts:
        lines.append(f"of the largest rehearsal, {' and '.join(parts)} had been forecast.")
    return [f"{rehearsal.budget}: {line}" for line in lines]


def _line(rehearsal: Rehearsal) -> list[str]:
    pair, error = rehearsal.worst[0] if rehearsal.pairs else (("", ""), rehearsal.mean)
    return [
        str(rehearsal.budget),
        f"{rehearsal.seconds:.2f}",
        f"{rehearsal.memory_in_bytes / 1e6:.1f}",
        f"{rehearsal.mean:.4f}",
        " × ".join(pair),
        f"{error:.4f}",
    ]
