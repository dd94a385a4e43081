"""Discovery: what was learnt of a table, as a schema with comments, and what that cost."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from priory.app.discover.columns import Found
from priory.data.schema import Schema
from priory.data.schema import file as schema_file
from priory.data.schema.open import OpenSchema
from priory.data.schema.schema import modelled_of
from priory.data.writing import written_whole
from priory.errors import SchemaError
from priory.privacy.budget import Budget
from priory.privacy.statement import cost_of, described_cost, sum_of


@dataclass(frozen=True)
class Discovery:
    """What was learnt of a table, and what that cost.

    Attributes:
        opened: what was known before.
        found: what was learnt of each open column.
        cost: what was spent, as a promise of its own.
        is_private: False if the randomness was a test's.
        is_whole: False while the run that learns it has not ended.
    """

    opened: OpenSchema
    found: dict[str, Found]
    cost: Budget
    is_private: bool = True
    is_whole: bool = True

    @property
    def schema(self) -> Schema:
        """The schema, which says what it cost.

        Raises:
            SchemaError: no column has anything above the noise. Its kinds must be declared by hand then.
        """
        whole = self.opened.whole({name: each.column for name, each in self.found.items()})
        return replace(whole, discovered=described_cost(self.whole_cost))

    @property
    def whole_cost(self) -> Budget:
        """What was spent, with what the columns cost that a run before this one had learnt."""
        before = cost_of(self.opened.discovered)
        return self.cost if before is None else sum_of(self.cost, before)

    @property
    def still_open(self) -> OpenSchema:
        """What is known by now, for another run to go on from: columns that were left out are as they were."""
        left_out = self.left_out
        columns = (
            self.found[column.name].column if column.name in self.found and column.name not in left_out else column
            for column in self.opened.columns
        )
        return replace(self.opened, columns=tuple(columns), discovered=described_cost(self.whole_cost))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that are not modelled, of those that were open."""
        modelled = {column.name for column in modelled_of(each.column for each in self.found.values())}
        return tuple(name for name in self.found if name not in modelled)

    @property
    def comments(self) -> dict[str, tuple[str, ...]]:
        """What stands above each column in the file, and at its head."""
        head: tuple[str, ...] = (
            f"Learnt from private rows by priory schema discover, with noise. It cost {self.whole_cost}, which every "
            "release that uses this schema states beside its own. Read it through: what you know to be public may be "
            "added, and nothing that you know from the rows alone.",
            f"Left out: {', '.join(self.left_out) or 'none'}.",
        )
        stamp = () if self.is_private else ("NOT PRIVATE: made with test randomness; do not use.",)
        if not self.is_whole:
            head = ("What a run that ended early had learnt; all that it reserved stays charged.", *head)
        return {"": (*stamp, *head), **{name: each.comments for name, each in self.found.items()}}

    def dump(self) -> str:
        """The schema with comments, as the text of its file; where nothing was learnt, the names alone."""
        if not self.is_whole and (self.left_out or not self.found):
            return self.still_open.dump(self.comments)
        try:
            return schema_file.dump(self.schema, self.comments)
        except SchemaError:
            nothing = (*self.comments[""], "No column has anything above the noise.")
            return self.still_open.dump({**self.comments, "": nothing})

    def save(self, path: str | Path) -> None:
        """Write the file."""
        _write(path, self.dump())

    def dump_counts(self) -> str:
        """The noisy counts that the columns were learnt from as JSON, by column, for whoever draws them."""
        return json.dumps({name: asdict(each.counts) for name, each in self.found.items()}, ensure_ascii=False)

    def save_counts(self, path: str | Path) -> None:
        """Write the noisy counts; see `dump_counts`."""
        _write(path, self.dump_counts())

    def __str__(self) -> str:
        return self.dump()


def _write(path: str | Path, text: str) -> None:
    with written_whole(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
