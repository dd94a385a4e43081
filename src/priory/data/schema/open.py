"""Open schema: the names of a table's columns, with kinds for some of them, before a schema is whole.

It is what `schema init --header-only` writes, for a person or `schema discover` to complete. Of a file nothing but its
header is read, and only where somebody says that there is one: a first line that holds a record would be published.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from priory.data import dialect, yaml_reader
from priory.data.dialect import Dialect
from priory.data.kinds import Column, Unmodelled
from priory.data.kinds.declared import checked_name, repeated
from priory.data.schema import file
from priory.data.schema.schema import Schema
from priory.data.sources.private import guarded
from priory.data.yaml_reader import Value, suggestion
from priory.errors import DataError, SchemaError

if TYPE_CHECKING:
    from priory.data.sources.containers import PlainFile

# What a column of a kind cannot do without, apart from bins.
NEEDS = {
    **dict.fromkeys(("category", "ordinal"), "levels"),
    **dict.fromkeys(("integer", "real", "date", "datetime"), "bounds"),
}
# What may be said of a column that is not whole yet.
PARTIAL = ("kind", "nulls", "format")
# One of each kind, for people to copy.
EXAMPLES = (
    "{kind: category, levels: [north, south], other: other}",
    "{kind: ordinal, levels: [low, middle, high], nullable: true}",
    "{kind: integer, bounds: [0, 120], nullable: true}",
    "{kind: real, bounds: [0, 1000], bins: {log: 20}, spikes: [0], nullable: true}",
    "{kind: date, bounds: [2000-01-01, 2029-12-31], bins: {every: year}, nullable: true}",
    "{kind: boolean, true: [yes], false: [no], nullable: true}",
    "{kind: id}, or {kind: text} for what is to be left out",
)


_ALONE = "Names alone were read. "
_ASKED = (
    "Give every column a kind, from what is publicly known: this file cannot be used before that. Or let `priory "
    "schema discover` learn what is left open, from the private rows, paid for."
)


@dataclass(frozen=True, kw_only=True)
class OpenColumn:
    """A column of which not all is declared."""

    name: str  # the column's name in the table
    kind: str | None = None  # the word of its kind, if that is declared
    nulls: tuple[str, ...] = ()  # texts that mean missing
    format: str | None = None  # how texts spell a date, where that is declared


@dataclass(frozen=True, kw_only=True)
class OpenSchema:
    """Names, and what is declared of some of them."""

    name: str  # what the data set is called
    columns: tuple[Column | OpenColumn, ...]  # the columns in order: whole ones, and open ones
    person: str | None = None  # the column that names the person of a row
    reading: Dialect = dialect.USUAL  # how files spell the cells
    discovered: tuple[tuple[str, str], ...] = ()  # what it cost to learn the columns that are whole, as in a schema

    @classmethod
    def of(
        cls, name: str, columns: Sequence[str], *, person: str | None = None, reading: Dialect = dialect.USUAL
    ) -> "OpenSchema":
        """Names alone; the person column is an id.

        Raises:
            SchemaError: a name is empty or there twice, or the person is none of them.
        """
        if not columns:
            raise SchemaError("there are no columns; name at least one")
        for column in columns:
            checked_name(column)
        if (twice := repeated(columns)) is not None:
            raise SchemaError("the column is named twice; rename one", column=twice)
        if person is not None and person not in columns:
            raise SchemaError("no such column is named; name one, or no person", column=person)
        opened = (OpenColumn(name=each) if each != person else Unmodelled.of(each, kind="id") for each in columns)
        return cls(name=name, columns=tuple(opened), person=person, reading=reading)

    @classmethod
    def load(cls, path: str | Path) -> "OpenSchema":
        """Read the YAML file of an open schema, or of a whole one."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise SchemaError("the file cannot be read as UTF-8 text", path=str(path)) from None
        return cls.parse(text, path=str(path))

    @classmethod
    def parse(cls, text: str, *, path: str | None = None) -> "OpenSchema":
        """Read the YAML text of an open schema."""
        top = yaml_reader.read(text, path).options(
            ("priory", "name", "person", "reading", "discovered", "columns"), "an open schema"
        )
        for key in ("priory", "name", "columns"):
            if key not in top:
                raise SchemaError(f"a schema needs {key}:; add it", path=path)
        columns = [_read(name, *entry) for name, entry in top["columns"].entries("columns").items()]
        person = top["person"].written("person") if "person" in top else None
        named = cls.of(top["name"].written("name"), [column.name for column in columns])
        reading = file.read_dialect(top["reading"]) if "reading" in top else dialect.USUAL
        opened = replace(named, columns=tuple(columns), reading=reading, discovered=file.read_cost(top))
        return opened.with_person(person)

    def with_person(self, person: str | None) -> "OpenSchema":
        """The same with the column that names the person of a row; None leaves it as it is.

        Raises:
            SchemaError: there is no such column, or it is declared to be something else.
        """
        if person in (None, self.person):
            return self
        named = OpenSchema.of(self.name, [column.name for column in self.columns], person=person)
        columns = [
            given if given.name == person and column.kind in (None, "id") else column
            for column, given in zip(self.columns, named.columns, strict=True)
        ]
        if any(column.name == person and column.kind != "id" for column in columns):
            raise SchemaError("the person column must be of kind id", column=person)
        return replace(self, columns=tuple(columns), person=person)

    def with_kinds(self, kinds: Mapping[str, str]) -> "OpenSchema":
        """The same with the kinds of some open columns declared.

        Raises:
            SchemaError: there is no such kind, or no such column that is open.
        """
        opened = [column.name for column in self.open]
        for name, kind in kinds.items():
            if name not in opened:
                raise SchemaError("no such column is open; give the kind of one that is", column=name)
            if kind not in file.WORDS:
                raise SchemaError(f"there is no kind {kind!r}; {suggestion(kind, file.WORDS)}", column=name)
        columns = (
            replace(column, kind=kinds[column.name])
            if isinstance(column, OpenColumn) and column.name in kinds
            else column
            for column in self.columns
        )
        return replace(self, columns=tuple(columns))

    @property
    def open(self) -> tuple[OpenColumn, ...]:
        """The columns of which something is still to be learnt."""
        return tuple(column for column in self.columns if isinstance(column, OpenColumn))

    def whole(self, found: Mapping[str, Column]) -> Schema:
        """The schema with `found` in the place of open columns."""
        columns = (found[column.name] if isinstance(column, OpenColumn) else column for column in self.columns)
        return Schema.of(columns, name=self.name, person=self.person, reading=self.reading)

    def dump(self, comments: Mapping[str, Sequence[str]] | None = None) -> str:
        """The YAML text: every open column asks for its kind, below the comments on it."""
        comments = comments or {}
        lines = [
            *file.comment_lines(comments.get("", ()), ""),
            *file.comment_lines([f"{_ALONE if not self.discovered else ''}{_ASKED}"], ""),
            *(f"#   {example}" for example in EXAMPLES),
            f"priory: {file.VERSION}",
            file.written("name", self.name),
            "# person: the column, of kind id, that says which person a row is about",
        ]
        lines[-1:] = [file.written("person", self.person)] if self.person is not None else lines[-1:]
        reading = self.reading.described()
        lines += [file.written("reading", reading)] if reading else []
        lines += [*file.cost_lines(self.discovered), "columns:"]
        for column in self.columns:
            said = comments.get(column.name, ())
            lines += (
                file.comment_lines(said, "  ") + _asking(column)
                if isinstance(column, OpenColumn)
                else file.column_lines(column, said)
            )
        return "\n".join(lines) + "\n"


def _asking(column: OpenColumn) -> list[str]:
    given = {"kind": column.kind, "nulls": list(column.nulls), "format": column.format}
    options = {word: value for word, value in given.items() if value}
    question = "kind?" if column.kind is None else f"{NEEDS.get(column.kind, 'options')}?"
    hint = " category, ordinal, integer, real, date, datetime, boolean, id or text" if column.kind is None else ""
    return [f"  # {question}{hint}", file.written(column.name, options, "  ")]


def _read(name: str, key: Value, value: Value) -> Column | OpenColumn:
    """A whole column where all that it needs is there, else an open one."""
    if value.data is None:
        return OpenColumn(name=name)
    entries = value.entries("a column", name)
    kind = entries["kind"][1].written("kind", name) if "kind" in entries else None
    if kind is not None and (kind not in NEEDS or NEEDS[kind] in entries):
        return file.read_column(name, key, value)
    options = value.options(PARTIAL, "a column without levels or bounds", name)
    nulls = options["nulls"].items("nulls", name) if "nulls" in options else ()
    return OpenColumn(
        name=name,
        kind=kind,
        nulls=tuple(item.written("one of nulls", name) for item in nulls),
        format=options["format"].written("format", name) if "format" in options else None,
    )


@guarded()
def read_names(path: str | Path, *, reading: Dialect = dialect.USUAL) -> list[str]:
    """The names in the first line of a CSV file or sheet, or of the columns of another file; nothing else is used.

    Raises:
        DataError: the file cannot be opened, or has no names.
    """
    from priory.data.sources.containers import JSON_SUFFIXES, PARQUET_SUFFIXES, plain_file, suffix_of
    from priory.data.sources.files import connect, open_file, records, suffix_delimiter
    from priory.data.sources.frame_files import is_frame_file, read_frame_file

    if suffix_of(path) in JSON_SUFFIXES:
        raise DataError(f"{path} has its names in its rows, which are not read; name the columns with --columns")
    if is_frame_file(path):
        return list(read_frame_file(path, reading))
    with plain_file(path, reading.encoding) as file:
        if file.is_any(PARQUET_SUFFIXES):
            with connect() as connection:
                return list(open_file(connection, file, ()).cells)
        first = _first_line(file)
        marks = reading.delimiter or suffix_delimiter(file) or dialect.DELIMITERS
    names = max((next(records(first, mark), []) for mark in marks), key=len)
    if not any(names):
        raise DataError(f"{path} is empty; its first line must name the columns, or name them with --columns")
    return dialect.unique_names(names)


def _first_line(file: "PlainFile") -> str:
    import gzip

    try:
        with gzip.open(file.path, "rb") if file.is_any((".gz",)) else file.path.open("rb") as lines:
            return lines.readline().decode("utf-8-sig").rstrip("\r\n")
    except (UnicodeDecodeError, OSError, EOFError):
        raise file.error("its first line cannot be read as UTF-8 text") from None
