"""Schema store: the schema file of a project, its comments, and what was typed of columns that is not right yet."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from priory.bounded import json_of
from priory.data import yaml_reader
from priory.data.kinds import Column
from priory.data.schema import Schema, file
from priory.data.schema.open import OpenColumn, OpenSchema
from priory.data.writing import written_whole
from priory.errors import PrioryError, SchemaError
from priory.studio.column_form import FieldProblem, column_of
from priory.studio.locking import alone

Columns = Schema | OpenSchema


def parsed(text: str, path: str) -> Columns:
    """A schema, whole or with columns that are still open.

    Raises:
        SchemaError: it is neither.
    """
    try:
        return Schema.parse(text, path=path)
    except SchemaError:
        try:
            opened = OpenSchema.parse(text, path=path)
        except PrioryError:
            opened = None
        if opened is None or not opened.open:
            raise
        return opened


def comments_of(text: str) -> dict[str, list[str]]:
    """The comments of a schema file: at its head, by "", and right above each column, by its name."""
    lines = text.split("\n")
    entries = yaml_reader.read(text).entries("a schema")
    columns = entries["columns"][1].entries("columns") if "columns" in entries else {}
    comments = {name: _above(lines, key.line) for name, (key, _) in columns.items()}
    return {"": _above(lines, entries["priory"][0].line), **comments} if "priory" in entries else comments


def _above(lines: list[str], line: int) -> list[str]:
    """The comments that end right above a line, which is counted from 1."""
    found: list[str] = []
    for each in reversed(lines[: line - 1]):
        if not each.lstrip().startswith("#"):
            break
        found.insert(0, each.strip().removeprefix("#").strip())
    return found


def with_column(schema: Columns, changed: Column | OpenColumn) -> Columns:
    """The schema with another column in the place of the one of the same name; whole, where none is open any more.

    Raises:
        SchemaError: the rest of the schema does not fit it.
    """
    columns = tuple(changed if column.name == changed.name else column for column in schema.columns)
    if isinstance(schema, OpenSchema) or isinstance(changed, OpenColumn):
        opened = schema if isinstance(schema, OpenSchema) else OpenSchema(name=schema.name, columns=schema.columns)
        opened = replace(opened, columns=columns)
        return opened if opened.open else opened.whole({})
    whole: list[Column] = [column for column in columns if not isinstance(column, OpenColumn)]
    return Schema.of(
        whole,
        name=schema.name,
        person=schema.person,
        groups=schema.groups,
        constraints=schema.constraints,
        reading=schema.reading,
        discovered=schema.discovered,
    )


def dumped(schema: Columns, comments: Mapping[str, list[str]]) -> str:
    """The text of the file."""
    if isinstance(schema, Schema):
        return file.dump(schema, comments)
    # An open schema begins with its own words.
    return schema.dump({name: lines for name, lines in comments.items() if name})


class Drafts:
    """What was typed of columns that do not fit the schema yet, so that it is not lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = path.with_suffix(".lock")

    def read(self) -> dict[str, dict[str, str]]:
        """The fields that were typed, by the name of the column."""
        try:
            found = json_of(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def keep(self, column: str, fields: Mapping[str, str] | None) -> None:
        """Keep what was typed of a column; None forgets it."""
        with alone(self._lock):
            drafts = self.read()
            drafts.pop(column, None)
            if fields is not None:
                drafts[column] = dict(fields)
            with written_whole(self._path) as draft:
                draft.write_text(json.dumps(drafts), encoding="utf-8")

    def clear(self) -> None:
        """Forget all of it."""
        with alone(self._lock):
            self._path.unlink(missing_ok=True)


def problems_of(schema: Columns, column: Column | OpenColumn, fields: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with what was typed of a column, by field; empty where nothing is."""
    try:
        with_column(schema, column_of(column.name, fields, column, schema.reading))
    except FieldProblem as problem:
        return {problem.field: problem.message}
    except SchemaError as error:
        # The column by itself is right; groups, constraints or the person column need something else of it.
        return {"kind": error.reason}
    return {}
