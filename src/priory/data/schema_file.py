"""Schema file: a schema as YAML that people read and edit, format version 1."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from priory.data import bins, yaml_reader
from priory.data.columns import Boolean, Category, Column, Kind, Moment, Number, Unmodelled
from priory.data.constraints import Condition, Constraint, Determine, Forbid, Order, PublicValue, check, moment_of
from priory.data.declared import Level, check_bounds, checked_bounds
from priory.data.moments import moment_text
from priory.data.schema import Group, Schema, check_person
from priory.data.yaml_reader import Value, suggestion
from priory.errors import SchemaError

VERSION = 1
WIDTH = 116

PLAIN = re.compile(r"[^\W\d_](?:[\w./+-]| (?=[\w./+-]))*|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+)?")

COMMON = ("kind", "nullable", "nulls", "other")
OPTIONS: Mapping[Kind, Sequence[str]] = {
    "category": (*COMMON, "levels"),
    "ordinal": (*COMMON, "levels"),
    "integer": (*COMMON, "bounds", "bins"),
    "real": (*COMMON, "bounds", "bins"),
    "date": (*COMMON, "bounds", "bins", "format"),
    "datetime": (*COMMON, "bounds", "bins", "format"),
    "boolean": (*COMMON, "true", "false"),
    "id": ("kind",),
    "text": ("kind",),
}


def parse(text: str, path: str | None = None) -> Schema:
    """Read a schema from the text of its file.

    Raises:
        SchemaError: with line, column and fix.
    """
    root = yaml_reader.read(text, path)
    entries = root.entries("a schema")
    if "priory" not in entries:
        raise root.error(f"this is not a schema; it must begin with 'priory: {VERSION}'")
    version = entries["priory"][1]
    if version.data != VERSION:
        raise version.error(f"format version {version.shown} is not known; this library reads version {VERSION}")
    top = root.options(("priory", "name", "person", "columns", "groups", "constraints"), "a schema")
    for key in ("name", "columns"):
        if key not in top:
            raise root.error(f"a schema needs {key}:; add it")
    columns = [_read_column(name, *entry) for name, entry in top["columns"].entries("columns").items()]
    with _placed(root):
        return Schema.of(
            name=top["name"].written("name"),
            columns=columns,
            person=_read_person(top["person"], columns) if "person" in top else None,
            groups=[_read_group(value, columns) for value in _listed(top, "groups")],
            constraints=[_read_constraint(value, columns) for value in _listed(top, "constraints")],
        )


def dump(schema: Schema) -> str:
    """Write a schema as the text of its file; `parse` gives the same schema back."""
    lines = [f"priory: {VERSION}", f"name: {_flow(schema.name)}"]
    lines += [f"person: {_flow(schema.person)}"] if schema.person is not None else []
    lines += ["columns:"]
    for column in schema.columns:
        lines += _entry(f"  {_flow(column.name)}: ", _described(column))
    for title, parts in (("groups:", schema.groups), ("constraints:", schema.constraints)):
        lines += [title] if parts else []
        for part in parts:
            lines += _entry("  - ", _described_part(part))
    return "\n".join(lines) + "\n"


@contextmanager
def _placed(place: Value) -> Iterator[None]:
    """Give errors from inside the line and the file, if they do not know theirs."""
    try:
        yield
    except SchemaError as error:
        if error.line is not None:
            raise
        raise SchemaError(error.reason, column=error.column, line=place.line, path=place.path) from None


def _listed(top: Mapping[str, Value], key: str) -> tuple[Value, ...]:
    return top[key].items(key) if key in top else ()


def _read_person(value: Value, columns: Sequence[Column]) -> str:
    with _placed(value):
        check_person(value.written("person"), columns)
    return value.written("person")


def _read_column(name: str, key: Value, value: Value) -> Column:
    entries = value.entries("a column", name)
    if "kind" not in entries:
        raise key.error(f"the column needs kind:, one of {', '.join(OPTIONS)}", name)
    kind = entries["kind"][1].written("kind", name)
    if kind not in OPTIONS:
        raise entries["kind"][1].error(f"there is no kind {kind!r}; {suggestion(kind, OPTIONS)}", name)
    reader = _ColumnReader(name, key, value.options(OPTIONS[cast(Kind, kind)], f"a column of kind {kind}", name))
    with _placed(key):
        return reader.column(cast(Kind, kind))


class _ColumnReader:
    """Reads the options of one column."""

    def __init__(self, name: str, key: Value, options: Mapping[str, Value]) -> None:
        self.name = name
        self.key = key
        self.options = options

    def column(self, kind: Kind) -> Column:
        match kind:
            case "id" | "text":
                return Unmodelled.of(self.name, kind=kind)
            case "category" | "ordinal":
                return self.category(is_ordered=kind == "ordinal")
            case "boolean":
                return self.boolean()
            case "integer" | "real":
                return self.number(whole=kind == "integer")
            case "date" | "datetime":
                return self.moment(clock=kind == "datetime")

    @property
    def nullable(self) -> bool:
        return self.options["nullable"].boolean("nullable", self.name) if "nullable" in self.options else False

    @property
    def other(self) -> Any:  # noqa: ANN401 - the column's constructor checks it
        return self.options["other"].scalar("other", self.name) if "other" in self.options else None

    def required(self, key: str, example: str) -> Value:
        if key not in self.options:
            raise self.key.error(f"the column needs {key}:, as in {example}", self.name)
        return self.options[key]

    def spellings(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        if key not in self.options:
            return default
        return tuple(item.written(f"one of {key}", self.name) for item in self.options[key].items(key, self.name))

    def category(self, *, is_ordered: bool) -> Category:
        levels = self.required("levels", "levels: [a, b]")
        with _placed(levels):
            return Category.of(
                self.name,
                [cast(Level, item.scalar("a level", self.name)) for item in levels.items("levels", self.name)],
                other=self.other,
                ordered=is_ordered,
                nullable=self.nullable,
                nulls=self.spellings("nulls"),
            )

    def boolean(self) -> Boolean:
        other = self.other
        if other is not None and not isinstance(other, bool):
            raise self.options["other"].error(f"other must be true or false; got {other!r}", self.name)
        return Boolean.of(
            self.name,
            true=self.spellings("true", Boolean.TRUE),
            false=self.spellings("false", Boolean.FALSE),
            other=other,
            nullable=self.nullable,
            nulls=self.spellings("nulls"),
        )

    def bounds(self, example: str) -> tuple[Any, Any]:
        value = self.required("bounds", example)
        found = [item.scalar("a bound", self.name) for item in value.items("bounds", self.name)]
        if len(found) != 2:
            raise value.error(f"bounds are two values, as in {example}; got {len(found)}", self.name)
        return found[0], found[1]

    def number(self, *, whole: bool) -> Number:
        low, high = self.bounds("bounds: [0, 100]")
        with _placed(self.options["bounds"]):
            low, high = checked_bounds(self.name, low, high, whole=whole)
        with _placed(self.options.get("bins", self.key)):
            return Number.of(
                self.name,
                whole=whole,
                low=low,
                high=high,
                edges=self.number_edges(low, high, whole=whole),
                other=self.other,
                nullable=self.nullable,
                nulls=self.spellings("nulls"),
            )

    def number_edges(self, low: float, high: float, *, whole: bool) -> Sequence[float] | None:
        if "bins" not in self.options:
            return None
        word, value = self.binning(("edges", "log"))
        if word == "edges":
            edges = [cast(float, item.scalar("an edge", self.name)) for item in value.items("edges", self.name)]
            return self.ended(edges, high, high + 1 if whole else high)
        count = cast(int, value.scalar("the number of bins", self.name))
        if word == "log":
            return bins.logarithmic(self.name, low, high, count, whole=whole)
        return bins.equal_width(self.name, low, high, count, whole=whole)

    def moment(self, *, clock: bool) -> Moment:
        first, last = self.bounds("bounds: [2000-01-01, 2024-12-31]")
        with _placed(self.options["bounds"]):
            low = moment_of(self.name, first, clock=clock)
            high = moment_of(self.name, last, clock=clock, is_end=True)
            check_bounds(self.name, low, high, whole=True)
        with _placed(self.required("bins", "bins: {every: month}")):
            return Moment.of(
                self.name,
                clock=clock,
                low=low,
                high=high,
                edges=self.moment_edges(low, high, clock=clock),
                other=None if self.other is None else moment_of(self.name, self.other, clock=clock),
                nullable=self.nullable,
                nulls=self.spellings("nulls"),
                format=self.options["format"].written("format", self.name) if "format" in self.options else None,
            )

    def moment_edges(self, low: int, high: int, *, clock: bool) -> Sequence[int]:
        word, value = self.binning(("edges", "every"))
        if word == "every":
            every = value.written("every", self.name)
            if every not in bins.EVERY:
                raise value.error(f"there is no unit {every!r}; {suggestion(every, bins.EVERY)}", self.name)
            return bins.calendar_units(self.name, low, high, every, clock=clock)
        if word == "edges":
            texts = [item.scalar("an edge", self.name) for item in value.items("edges", self.name)]
            *inner, last = texts or [None]
            edges = [moment_of(self.name, text, clock=clock) for text in inner]
            edges.append(moment_of(self.name, last, clock=clock, is_end=True))
            return [int(edge) for edge in self.ended(edges, high, high + 1)]
        count = cast(int, value.scalar("the number of bins", self.name))
        return [int(edge) for edge in bins.equal_width(self.name, low, high, count, whole=True)]

    def binning(self, words: Sequence[str]) -> tuple[str, Value]:
        """How the bins are given: ("count", number), or one of `words` and what follows it."""
        value = self.options["bins"]
        if not isinstance(value.data, Mapping):
            return "count", value
        given = value.options(words, "bins", self.name)
        if len(given) != 1:
            raise value.error(f"bins take one of {', '.join(words)}", self.name)
        return next(iter(given.items()))

    def ended(self, edges: Sequence[float], high: float, end: float) -> Sequence[float]:
        """The edges as given, or with a last one at the upper bound moved to where the last bin ends."""
        if len(edges) - 1 > bins.MOST_BINS:
            raise SchemaError(
                f"{len(edges) - 1:,} bins are more than the {bins.MOST_BINS:,} allowed; give fewer edges",
                column=self.name,
            )
        return [*edges[:-1], end] if edges and edges[-1] == high else edges


def _read_group(value: Value, columns: Sequence[Column]) -> Group:
    options = value.options(("by", "values"), "a group")
    if "by" not in options:
        raise value.error("a group needs by:, as in by: [district]")
    by = tuple(item.written("a column") for item in options["by"].items("by"))
    rows = options["values"].items("values") if "values" in options else None
    with _placed(value):
        group = Group(by=by, values=None if rows is None else tuple(_read_row(row) for row in rows))
        group.check(columns)
    return group


def _read_row(row: Value) -> tuple[PublicValue, ...]:
    return tuple(_read_value(item) for item in row.items("the values of a group, a list for each group,"))


def _read_value(value: Value) -> PublicValue:
    scalar = value.scalar("a value")
    if scalar is None:
        raise value.error("a value is missing here; write {null: true} to mean a missing cell")
    return scalar


def _read_constraint(value: Value, columns: Sequence[Column]) -> Constraint:
    readers = {"forbid": _read_forbid, "determine": _read_determine, "order": _read_order}
    given = value.options(readers, "a constraint")
    if len(given) != 1:
        raise value.error(f"a constraint is one of {', '.join(readers)}")
    [(word, content)] = given.items()
    with _placed(value):
        constraint = readers[word](content)
        check(constraint, {column.name: column for column in columns if not isinstance(column, Unmodelled)})
    return constraint


def _read_forbid(value: Value) -> Constraint:
    entries = value.entries("forbid")
    if not entries:
        raise value.error("forbid needs a condition, as in {age: {below: 15}}")
    return Forbid(conditions=tuple(_read_condition(name, entry) for name, (_, entry) in entries.items()))


def _read_condition(name: str, value: Value) -> Condition:
    if isinstance(value.data, Mapping):
        options = value.options(("below", "above", "null"), "a condition", name)
        if not options or ("null" in options and (len(options) > 1 or options["null"].data is not True)):
            raise value.error("a condition is {below: x}, {above: x}, both, or {null: true}", name)
        limits = {key: _read_value(limit) for key, limit in options.items() if key != "null"}
        return Condition(column=name, below=limits.get("below"), above=limits.get("above"), null="null" in options)
    items = value.data if isinstance(value.data, tuple) else (value,)
    if not items:
        raise value.error("the list of values is empty", name)
    return Condition(column=name, values=tuple(_read_value(item) for item in items))


def _read_determine(value: Value) -> Constraint:
    options = value.options(("column", "by", "map"), "determine")
    if len(options) < 3:
        raise value.error("determine needs column:, by: and map:")
    pairs = options["map"].entries("map").values()
    return Determine(
        column=options["column"].written("column"),
        by=options["by"].written("by"),
        values=tuple((_read_value(given), _read_value(result)) for given, result in pairs),
    )


def _read_order(value: Value) -> Constraint:
    names = tuple(item.written("a column") for item in value.items("order"))
    if len(names) < 2:
        raise value.error("order needs at least two columns")
    return Order(columns=names)


def _described(column: Column) -> dict[str, Any]:
    """The options of a column, in the order people read them."""
    options: dict[str, Any] = {"kind": column.kind}
    if isinstance(column, Unmodelled):
        return options
    match column:
        case Category():
            options |= {"levels": list(column.levels)}
        case Boolean():
            options |= {"true": list(column.true)} if column.true != Boolean.TRUE else {}
            options |= {"false": list(column.false)} if column.false != Boolean.FALSE else {}
        case Number():
            options |= {"bounds": [column.low, column.high], **_number_bins(column)}
        case Moment():
            options |= {"bounds": [moment_text(bound, clock=column.clock) for bound in (column.low, column.high)]}
            options |= _moment_bins(column) | ({"format": column.format} if column.format is not None else {})
    if isinstance(column, Moment) and column.other is not None:
        options["other"] = moment_text(column.other, clock=column.clock)
    elif column.other is not None:
        options["other"] = column.other
    options |= {"nullable": True} if column.nullable else {}
    return options | ({"nulls": list(column.nulls)} if column.nulls else {})


def _number_bins(column: Number) -> dict[str, Any]:
    """The shortest words for the column's bins."""
    if column.whole and column.places == column.high - column.low + 1:
        return {}
    for word, make in (("count", bins.equal_width), ("log", bins.logarithmic)):
        try:
            if make(column.name, column.low, column.high, column.places, whole=column.whole) == column.edges:
                return {"bins": column.places if word == "count" else {word: column.places}}
        except SchemaError:
            continue  # bins of this kind cannot be had for these bounds, so these are not such bins
    return {"bins": {"edges": list(column.edges)}}


def _moment_bins(column: Moment) -> dict[str, Any]:
    """The shortest words for the column's bins."""
    for every in reversed(bins.EVERY):
        try:
            if bins.calendar_units(column.name, column.low, column.high, every, clock=column.clock) == column.edges:
                return {"bins": {"every": every}}
        except SchemaError:
            continue  # a date has no hours, and a long time has too many
    count = min(column.places, bins.MOST_BINS)
    if bins.equal_width(column.name, column.low, column.high, count, whole=True) == column.edges:
        return {"bins": count}
    edges = [*column.edges[:-1], column.high]
    return {"bins": {"edges": [moment_text(edge, clock=column.clock) for edge in edges]}}


def _described_part(part: Group | Constraint) -> dict[str, Any]:
    match part:
        case Group():
            values = {} if part.values is None else {"values": [list(row) for row in part.values]}
            return {"by": list(part.by), **values}
        case Forbid():
            return {"forbid": {condition.column: _described_condition(condition) for condition in part.conditions}}
        case Determine():
            return {"determine": {"column": part.column, "by": part.by, "map": dict(part.values)}}
        case Order():
            return {"order": list(part.columns)}


def _described_condition(condition: Condition) -> object:
    if condition.null:
        return {"null": True}
    if condition.values:
        return list(condition.values)
    limits = {"below": condition.below, "above": condition.above}
    return {word: limit for word, limit in limits.items() if limit is not None}


def _entry(start: str, options: Mapping[str, Any]) -> list[str]:
    """A mapping on one line where it fits, else a line for each key, long lists broken."""
    line = start + _flow(options)
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (4 if start.endswith(": ") else len(start))
    lines = [f"{indent}{key}: {_flow(value)}" for key, value in options.items()]
    if start.endswith(": "):
        lines = [start.rstrip(), *lines]
    else:
        lines[0] = start + lines[0].lstrip()
    return [part for line in lines for part in _broken(line, indent + "  ")]


def _broken(line: str, indent: str) -> list[str]:
    """Break a long line after commas outside quotes, where YAML allows it inside brackets."""
    if len(line) <= WIDTH:
        return [line]
    lines = [""]
    for piece in re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^",])*(?:, |$|,)', line):
        if lines[-1].strip() and len(lines[-1]) + len(piece) > WIDTH:
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
        lines[-1] += piece
    return lines


def _flow(value: object) -> str:
    """A value in YAML's flow style; every text that could be read as something else is quoted."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value == int(value) and math.fabs(value) < 1e15 else repr(value)
        case str():
            return value if PLAIN.fullmatch(value) and yaml_reader.resolve(value) == value else _quoted(value)
        case Mapping():
            return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
        case Sequence():
            return "[" + ", ".join(_flow(item) for item in value) + "]"
    raise TypeError(f"a schema holds no {type(value).__name__}")


def _quoted(text: str) -> str:
    """A text in double quotes, with every letter that a YAML reader may refuse or fold as an escape."""
    escaped = (letter if letter.isprintable() and letter not in '"\\' else _escape(letter) for letter in text)
    return f'"{"".join(escaped)}"'


def _escape(letter: str) -> str:
    return f"\\{letter}" if letter in '"\\' else f"\\U{ord(letter):08x}"
