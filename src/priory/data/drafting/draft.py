"""Draft: a schema that fits a public table, with its comments. Never for private rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from priory.data.dialect import USUAL, Dialect
from priory.data.drafting import texts
from priory.data.drafting.columns import ColumnDraft, draft_column
from priory.data.drafting.sniffing import has_record_for_header, sniffed
from priory.data.kinds import ModelledColumn
from priory.data.schema import Schema, file
from priory.data.sources.containers import STDIN, plain_file
from priory.data.survey import Seen, survey_file, survey_frame
from priory.data.visible import visible
from priory.data.writing import written_whole
from priory.errors import DataError

LONGEST = 40


@dataclass(frozen=True)
class Draft:
    """A drafted schema, which the table that it was drafted from fits."""

    schema: Schema
    comments: Mapping[str, Sequence[str]]  # what stands above each column in the file, and for "" at its beginning
    called: Mapping[str, str]  # for each awkward column, what kind of awkward it is
    left_out: Mapping[str, str]  # the columns that are declared and not modelled, each with the reason
    notes: tuple[str, ...] = ()  # what else a person should know, in sentences

    def dump(self) -> str:
        """The schema as YAML text with its comments."""
        return file.dump(self.schema, self.comments)

    def save(self, path: str | Path) -> None:
        """Write the schema with its comments to a YAML file."""
        with written_whole(path) as draft:
            draft.write_text(self.dump(), encoding="utf-8", newline="\n")


def draft_schema(data: object, *, name: str, reading: Dialect = USUAL) -> Draft:
    """A schema that fits a public table: a data frame, or the path of a file.

    What is not said in `reading` of how a file spells its cells is found from it. A table without rows, or without a
    column that can be modelled, is refused.
    """
    if isinstance(data, str | Path) and str(data) == STDIN:
        # It can be read only once.
        with plain_file(STDIN) as copy:
            return draft_schema(copy.path, name=name, reading=reading)
    notes: tuple[str, ...] = ()
    if isinstance(data, str | Path):
        reading = sniffed(data, reading=reading)
        columns = survey_file(data, reading)
        if has_record_for_header(data, reading):
            notes = ("The first line holds numbers: if it is a record and names no columns, draft with --no-header.",)
    else:
        columns = survey_frame(data)
    if not columns or not columns[0].rows:
        raise DataError(f"the public table has no {'rows' if columns else 'columns'}; there is nothing to draft from")
    if reading.decimal == "." and reading.thousands != ",":
        reading = replace(reading, decimal=texts.decimal_mark(columns))
    drafted = [draft_column(seen, reading) for seen in columns]
    return _draft(columns, drafted, name, reading, notes)


def _draft(
    columns: Sequence[Seen], drafted: Sequence[ColumnDraft], name: str, reading: Dialect, notes: tuple[str, ...]
) -> Draft:
    left_out = {
        each.column.name: ", ".join(each.called) for each in drafted if not isinstance(each.column, ModelledColumn)
    }
    if len(left_out) == len(drafted):
        why = "; ".join(f"{visible(column)} ({reason})" for column, reason in left_out.items())
        raise DataError(f"every column would be left out, and nothing modelled: {why}")
    schema = Schema.of([each.column for each in drafted], name=name, reading=reading)
    comments = {seen.name: _comment(seen, each) for seen, each in zip(columns, drafted, strict=True)}
    called = {each.column.name: ", ".join(each.called) for each in drafted if each.called}
    comments[""] = _head(columns[0].rows, schema, left_out, notes)
    return Draft(schema, comments, called, left_out, notes)


def _head(rows: int, schema: Schema, left_out: Mapping[str, str], notes: Sequence[str]) -> list[str]:
    listed = "; ".join(f"{column} ({why})" for column, why in left_out.items()) or "none"
    return [
        f"Drafted from a public table of {rows:,} rows; all of its cells fit.",
        "Read it through: bounds, levels and bins must be what you know to be public of the private table, too.",
        f"{len(schema.modelled)} of {len(schema.columns)} columns are modelled. Left out: {listed}.",
        *notes,
    ]


def _comment(seen: Seen, drafted: ColumnDraft) -> list[str]:
    called = f" Called: {'; '.join(drafted.called)}." if drafted.called else ""
    return [
        f"Seen: {_described(seen, drafted)}.{called}",
        f"Decided: {drafted.decided}.",
        f"Else: {drafted.instead}.",
    ]


def _described(seen: Seen, drafted: ColumnDraft) -> str:
    is_null = np.isin(seen.texts, drafted.nulls)
    missing = seen.missing + int(seen.text_counts[is_null].sum())
    spelled = [_quoted(text) for text in seen.texts[is_null][:5]]
    how = f" (written {', '.join(spelled)})" if spelled else ""
    parts = [f"{seen.rows:,} cells", f"{missing:,} missing{how}" if missing else "none missing"]
    levels, counts = seen.texts[~is_null], seen.text_counts[~is_null]
    if len(levels):
        often = f", most often {_quoted(levels[0])} ({counts[0] / seen.rows:.1%})" if counts[0] > 1 else ""
        is_one = len(levels) == 1 and not len(seen.typed)
        parts.append(f"always {_quoted(levels[0])}" if is_one else f"{len(levels):,} distinct {drafted.said}{often}")
    if len(seen.typed) and seen.typed.dtype.kind in "iufM":
        low, high = (str(value)[:26] for value in (seen.typed.min(), seen.typed.max()))
        parts.append(f"{len(seen.typed):,} distinct values from {low} to {high}")
    return "; ".join(parts)


def _quoted(text: str) -> str:
    shown = visible(text)
    return f'"{shown}"' if len(shown) <= LONGEST else f'"{shown[: LONGEST - 1]}…"'
