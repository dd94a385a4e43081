"""Questions: what the command line asks of a release, whatever its answers rest on."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from priory.answer import quantiles, tables
from priory.answer.basis import Basis
from priory.answer.where import Where
from priory.data.schema import Schema
from priory.data.table import Table
from priory.queries.domain import Clique


@dataclass(frozen=True)
class Question:
    """One question."""

    what: str = "marginal"  # or "mean", "sum", "median", "quantile", "share", "cdf"
    column: str = ""  # what it is about; nothing for a marginal
    by: tuple[str, ...] = ()  # the columns whose values make the groups
    where: str | None = None  # which rows count
    level: float | None = 0.9  # the share of answers whose interval should hold the truth; None for no intervals
    at: tuple[float, ...] = (0.5,)  # which quantiles

    def asked(self, basis: Basis) -> Table:
        """The answers."""
        if self.what == "marginal":
            return tables.marginal(basis, self.by, self.where)
        if self.what == "quantile" and len(self.at) > 1:
            return quantiles.quantiles(basis, self.column, self.at, self.by, self.where)
        if self.what in ("median", "quantile"):
            at = self.at[0] if self.what == "quantile" else 0.5
            return quantiles.quantile(basis, self.column, at, self.by, self.where)
        return _VERBS[self.what](basis, self.column, self.by, self.where)

    def may_name(self, name: str) -> bool:
        """Whether it may be about this column: a condition that has the letters of its name may mean it."""
        written = name.replace('"', '""')
        return name in self.by or name == self.column or (self.where is not None and written in self.where)

    def cliques(self, schema: Schema) -> list[Clique]:
        """The columns that it is about, for each case of its condition."""
        named = {*self.by, *([self.column] if self.column else [])}
        boxes = Where.of(self.where, schema).boxes
        return list(dict.fromkeys(schema.domain.clique({*named, *box}) for box in boxes))


def finished(table: Table, level: float | None, stamp: str | None) -> Table:
    """A table of answers, without the ends of intervals where no level was asked for, with the stamp of tests."""
    ends = table.names[-3:-1] if level is None else ()
    columns = {name: cells for name, cells in table.columns.items() if name not in ends}
    return replace(table, columns=columns, notes=table.notes if stamp is None else (*table.notes, stamp))


_VERBS: dict[str, Callable[..., Table]] = {
    "mean": tables.mean,
    "sum": tables.total,
    "share": tables.share,
    "cdf": tables.cdf,
}
