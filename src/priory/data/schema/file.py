"""Schema file: a schema as YAML that people read and edit, format version 1."""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from priory.data import dialect, yaml_reader
from priory.data.dialect import Dialect
from priory.data.kinds import KINDS, Column, ModelledColumn, PublicValue, Unmodelled
from priory.data.kinds.options import COMMON, ColumnOptions
from priory.data.schema.constraints import Condition, Constraint, Determine, Forbid, Order, check
from priory.data.schema.schema import Group, Schema, check_person, modelled_of, within_codes
from priory.data.visible import visible
from priory.data.yaml_reader import Value, suggestion

VERSION = 1
WIDTH = 116

PLAIN = re.compile(r"[^\W\d_](?:[\w./+-]| (?=[\w./+-]))*|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+)?")

BY_WORD = {word: kind for kind in KINDS for word in kind.WORDS}
WORDS = (*BY_WORD, *Unmodelled.WORDS)


def parse(text: str, path: str | None = None) -> Schema:
    """Read a schema from the text of its file; a `SchemaError` has line, column and fix."""
    return of_value(yaml_reader.read(text, path))


def of_value(root: Value) -> Schema:
    """The schema that a file's value describes."""
    entries = root.entries("a schema")
    if "priory" not in entries:
        raise root.error(f"this is not a schema; it must begin with 'priory: {VERSION}'")
    version = entries["priory"][1]
    if version.data != VERSION:
        raise version.error(f"format version {version.shown} is not known; this library reads version {VERSION}")
    top = root.options(
        ("priory", "name", "person", "reading", "discovered", "columns", "groups", "constraints"), "a schema"
    )
    for key in ("name", "columns"):
        if key not in top:
            raise root.error(f"a schema needs {key}:; add it")
    reading = read_dialect(top["reading"]) if "reading" in top else dialect.USUAL
    with root.located():
        declared = top["columns"].entries("columns").items()
        columns = within_codes(read_column(name, *entry, reading) for name, entry in declared)
        by_name = {column.name: column for column in modelled_of(columns)}
        return Schema.of(
            name=top["name"].written("name"),
            columns=columns,
            person=_read_person(top["person"], columns) if "person" in top else None,
            reading=reading,
            discovered=read_cost(top),
            groups=[_read_group(value, columns) for value in _listed(top, "groups")],
            constraints=(_read_constraint(value, by_name) for value in _listed(top, "constraints")),
        )


def dump(schema: Schema, comments: Mapping[str, Sequence[str]] | None = None) -> str:
    """Write a schema as the text of its file; `parse` gives the same schema back.

    Args:
        schema: what to write.
        comments: for the name of a column, the paragraphs that stand above it; for "", those that begin the file.
    """
    comments = comments or {}
    lines = [*comment_lines(comments.get("", ()), ""), f"priory: {VERSION}", f"name: {_flow(schema.name)}"]
    lines += [f"person: {_flow(schema.person)}"] if schema.person is not None else []
    reading = schema.reading.described()
    lines += _entry("reading: ", reading) if reading else []
    lines += cost_lines(schema.discovered)
    lines += ["columns:"]
    for column in schema.columns:
        lines += column_lines(column, comments.get(column.name, ()), schema.reading)
    for title, parts in (("groups:", schema.groups), ("constraints:", schema.constraints)):
        lines += [title] if parts else []
        for part in parts:
            lines += _entry("  - ", _described_part(part))
    return "\n".join(lines) + "\n"


def column_lines(column: Column, comments: Sequence[str] = (), reading: Dialect = dialect.USUAL) -> list[str]:
    """The lines of one column, below `columns:`, with paragraphs above it."""
    return [*comment_lines(comments, "  "), *_entry(f"  {_flow(column.name)}: ", described_column(column, reading))]


def written(key: str, value: object, indent: str = "") -> str:
    """A key and its value on one line."""
    return f"{indent}{_flow(key)}: {_flow(value)}"


def comment_lines(paragraphs: Sequence[str], indent: str) -> list[str]:
    """Paragraphs as comments, wrapped; a character that YAML or a terminal would obey is written as its escape."""
    wrapped = (textwrap.wrap(visible(text), WIDTH - len(indent) - 2, break_on_hyphens=False) for text in paragraphs)
    return [f"{indent}# {line}" for lines in wrapped for line in lines]


def read_cost(top: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
    """What it cost to learn a schema, or a part of it, as `discovered` says."""
    entries = top["discovered"].entries("discovered") if "discovered" in top else {}
    return tuple((key, value.written(key)) for key, (_, value) in entries.items())


def cost_lines(discovered: Sequence[tuple[str, str]]) -> list[str]:
    """The lines of `discovered`, where there is any."""
    return _entry("discovered: ", dict(discovered)) if discovered else []


def _listed(top: Mapping[str, Value], key: str) -> tuple[Value, ...]:
    return top[key].items(key) if key in top else ()


def _read_person(value: Value, columns: Sequence[Column]) -> str:
    with value.located():
        check_person(value.written("person"), columns)
    return value.written("person")


def read_dialect(value: Value) -> Dialect:
    """How files spell cells, as `reading:` says."""
    options = value.options(dialect.WORDS, "reading")
    with value.located():
        return Dialect.of(**{word: option.scalar(word) for word, option in options.items()})


def read_column(name: str, key: Value, value: Value, reading: Dialect = dialect.USUAL) -> Column:
    """The column that an entry of `columns:` declares, for files that are spelled so."""
    entries = value.entries("a column", name)
    if "kind" not in entries:
        raise key.error(f"the column needs kind:, one of {', '.join(WORDS)}", name)
    word = entries["kind"][1].written("kind", name)
    if word not in WORDS:
        raise entries["kind"][1].error(f"there is no kind {word!r}; {suggestion(word, WORDS)}", name)
    kind, what = BY_WORD.get(word), f"a column of kind {word}"
    words = (*COMMON, *kind.OPTIONS) if kind else ("kind",)
    options = ColumnOptions(name, key, value.options(words, what, name), reading)
    with key.located():
        return kind.read(word, options) if kind else Unmodelled.of(name, kind=word)


def column_of(name: str, options: str) -> Column:
    """The column that options declare, in the words of the file: `kind: integer, bounds: [0, 9]`."""
    [(key, value)] = yaml_reader.read(f"{_flow(name)}: {{{options}}}").entries("a column").values()
    return read_column(name, key, value)


def _read_group(value: Value, columns: Sequence[Column]) -> Group:
    options = value.options(("by", "values"), "a group")
    if "by" not in options:
        raise value.error("a group needs by:, as in by: [district]")
    by = tuple(item.written("a column") for item in options["by"].items("by"))
    rows = options["values"].items("values") if "values" in options else None
    with value.located():
        each = "the values of a group, a list for each group,"
        values = None if rows is None else tuple(tuple(_read_value(item) for item in row.items(each)) for row in rows)
        group = Group(by=by, values=values)
        group.check(columns)
    return group


def _read_value(value: Value) -> PublicValue:
    scalar = value.scalar("a value")
    if scalar is None:
        raise value.error("a value is missing here; write {null: true} to mean a missing cell")
    return scalar


def _read_constraint(value: Value, columns: Mapping[str, ModelledColumn]) -> Constraint:
    readers = {"forbid": _read_forbid, "determine": _read_determine, "order": _read_order}
    given = value.options(readers, "a constraint")
    if len(given) != 1:
        raise value.error(f"a constraint is one of {', '.join(readers)}")
    [(word, content)] = given.items()
    with value.located():
        constraint = readers[word](content)
        check(constraint, columns)
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
    values = tuple((_read_value(given), _read_value(result)) for given, result in pairs)
    return Determine(column=options["column"].written("column"), by=options["by"].written("by"), values=values)


def _read_order(value: Value) -> Constraint:
    names = tuple(item.written("a column") for item in value.items("order"))
    if len(names) < 2:
        raise value.error("order needs at least two columns")
    return Order(columns=names)


def described_column(column: Column, reading: Dialect) -> dict[str, Any]:
    """The options of a column, in the order people read them, without those that hold for the whole file."""
    options: dict[str, Any] = {"kind": column.kind}
    if not isinstance(column, ModelledColumn):
        return options
    described = column.described().items()
    options |= {word: value for word, value in described if value != getattr(reading, word, None)}
    options |= {"other": column.other_written} if column.other is not None else {}
    options |= {"nullable": True} if column.nullable else {}
    return options | ({"nulls": list(column.nulls)} if column.nulls else {})


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
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
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
    escapes = {letter: f"\\U{ord(letter):08x}" for letter in text if not letter.isprintable()}
    return '"' + "".join(escapes.get(letter, letter) for letter in re.sub(r'(["\\])', r"\\\1", text)) + '"'
