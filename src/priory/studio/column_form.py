"""Column form: a column of the schema as the fields of a form, and back, with problems beside the field.

Every field is a text. What was not changed stays as it is declared, whatever the field can show of it.
"""

import re
from collections.abc import Mapping
from typing import Any

from priory.data import yaml_reader
from priory.data.dialect import Dialect
from priory.data.kinds import Column, ModelledColumn
from priory.data.kinds.bins import EVERY
from priory.data.schema import file
from priory.data.schema.open import OpenColumn
from priory.errors import SchemaError

KINDS = (
    ("category", "category: a list of values"),
    ("ordinal", "ordinal: a list of values in order"),
    ("integer", "integer: whole numbers"),
    ("real", "real: numbers"),
    ("date", "date: days"),
    ("datetime", "datetime: days with the time"),
    ("boolean", "boolean: yes or no"),
    ("id", "id: names a person or a household; not modelled"),
    ("text", "text: free text; left out"),
)
BINS = (
    ("", "as usual for the kind"),
    ("count", "so many bins of the same width"),
    ("log", "so many bins, narrow below and wide above"),
    ("every", f"calendar units: {', '.join(EVERY)}"),
    ("edges", "these edges, with commas"),
)
FIELDS = (
    "kind", "levels", "low", "high", "bins_how", "bins", "spikes", "step", "format", "decimal", "thousands",
    "true", "false", "other", "nullable", "nulls",
)  # fmt: skip
# The field of the form that shows an option of the schema file, where they are not called the same.
_FIELD_OF = {"bounds": "low", "edges": "bins", "spike": "spikes", "level": "levels"}
_NUMBERS, _MOMENTS, _LISTED = ("integer", "real"), ("date", "datetime"), ("category", "ordinal")
# Which options a kind has in the form, besides those of all kinds.
_OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_LISTED, ("levels",)),
    **dict.fromkeys(_NUMBERS, ("bounds", "bins", "spikes", "step", "decimal", "thousands")),
    **dict.fromkeys(_MOMENTS, ("bounds", "bins", "format")),
    "boolean": ("true", "false"),
}
_COMMON = ("other", "nullable", "nulls")


class FieldProblem(Exception):
    """What is wrong with a field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def fields_of(column: Column | OpenColumn, reading: Dialect) -> dict[str, str]:
    """A column as the texts of the form."""
    options = described(column, reading)
    low, high = (_shown(bound) for bound in options.get("bounds", ("", "")))
    how, bins = _bins_fields(options.get("bins"))
    shown = {name: _shown(options.get(name)) for name in ("spikes", "step", "format", "decimal", "thousands", "other")}
    lists = {name: "\n".join(map(str, options.get(name, ()))) for name in ("levels", "true", "false", "nulls")}
    fields = {
        "kind": options.get("kind", ""), "low": low, "high": high, "bins_how": how, "bins": bins,
        "nullable": "yes" if options.get("nullable") else "", **shown, **lists,
    }  # fmt: skip
    return {name: fields[name] for name in FIELDS}


def described(column: Column | OpenColumn, reading: Dialect) -> dict[str, Any]:
    """The options of a column in the words of the schema file."""
    if isinstance(column, OpenColumn):
        given = {"kind": column.kind, "nulls": list(column.nulls), "format": column.format}
        return {word: value for word, value in given.items() if value}
    if not isinstance(column, ModelledColumn):
        return {"kind": column.kind}
    return file.described_column(column, reading)


def column_of(
    name: str, fields: Mapping[str, str], current: Column | OpenColumn, reading: Dialect
) -> Column | OpenColumn:
    """The column that the fields declare; the current one where nothing was changed.

    Raises:
        FieldProblem: they declare none.
    """
    shown = fields_of(current, reading)
    fields = {field: fields.get(field, "") for field in FIELDS}
    if fields == shown:
        return current
    if fields["kind"] not in (words := [kind for kind, _ in KINDS]):
        raise FieldProblem("kind", f"choose one of {', '.join(words)}")
    options = _options(fields, shown, described(current, reading))
    lines = [f"{file.written(name, None).rpartition(':')[0]}:"]
    lines += [file.written(word, value, "  ") for word, value in options.items()]
    try:
        [(key, value)] = yaml_reader.read("\n".join(lines)).entries("a column").values()
        return file.read_column(name, key, value, reading)
    except SchemaError as error:
        raise _located(error, list(options)) from None


def _options(fields: Mapping[str, str], shown: Mapping[str, str], now: Mapping[str, Any]) -> dict[str, Any]:
    """The options in the words of the schema file: those of changed fields as typed, the others as they are."""
    kind = fields["kind"]
    is_same = kind == shown["kind"]
    typed: dict[str, Any] = {
        "levels": _levels(fields["levels"], now.get("levels", ())),
        "bounds": [yaml_reader.resolve(fields[end].strip()) for end in ("low", "high") if fields[end].strip()],
        "bins": _bins(fields["bins_how"], fields["bins"]),
        "spikes": _listed(fields["spikes"]),
        "nullable": fields["nullable"] == "yes",
        **{name: yaml_reader.resolve(fields[name].strip()) for name in ("step",)},
        **{name: fields[name].strip() for name in ("format", "decimal")},
        "thousands": fields["thousands"],
        **{name: fields[name].split("\n") if fields[name] else [] for name in ("true", "false", "nulls")},
    }
    typed["other"] = _other(kind, fields["other"], typed["levels"])
    changed = {_word(field) for field in FIELDS if fields[field] != shown[field]}
    words = (*_OPTIONS.get(kind, ()), *(_COMMON if kind in _OPTIONS else ()))
    options: dict[str, Any] = {"kind": kind}
    for word in words:
        value = typed[word] if word in changed or not is_same else now.get(word)
        if value not in (None, "", [], False):
            options[word] = value
    # What the form does not show, such as parentheses around negative numbers.
    return options | {word: value for word, value in now.items() if is_same and word not in (*words, "kind")}


def _word(field: str) -> str:
    """The option of the schema file that a field shows."""
    return {"low": "bounds", "high": "bounds", "bins_how": "bins"}.get(field, field)


def _levels(text: str, now: Any) -> list[Any]:  # noqa: ANN401 - a list of levels, or nothing
    """A level a line: whole numbers if all are, unless they were texts before."""
    lines = [line for line in text.split("\n") if line]
    were_texts = bool(now) and all(isinstance(level, str) for level in now)
    is_whole = bool(lines) and all(yaml_reader.INTEGER.fullmatch(line.strip()) for line in lines)
    return [int(line) for line in lines] if is_whole and not were_texts else lines


def _other(kind: str, text: str, levels: list[Any]) -> object:
    if not text:
        return None
    is_text = kind in (*_LISTED, *_MOMENTS) and not (levels and isinstance(levels[0], int))
    return text if is_text else yaml_reader.resolve(text.strip())


def _listed(text: str) -> list[Any]:
    return [yaml_reader.resolve(each.strip()) for each in re.split("[,\n]", text) if each.strip()]


def _bins(how: str, text: str) -> object:
    text = text.strip()
    match how:
        case "count" | "log":
            number = yaml_reader.resolve(text)
            return number if how == "count" else {"log": number}
        case "every":
            return {"every": text}
        case "edges":
            return {"edges": _listed(text)}
    return None


def _bins_fields(bins: object) -> tuple[str, str]:
    match bins:
        case None:
            return "", ""
        case {"edges": edges}:
            return "edges", _shown(edges)
        case {**options}:
            [(how, value)] = options.items()
            return str(how), str(value)
    return "count", str(bins)


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def _located(error: SchemaError, words: list[str]) -> FieldProblem:
    """The field to blame: the option that the message says to write, else by its line, else the first one named."""
    known = (*FIELDS, *_FIELD_OF)
    advised = [word for word in re.findall("([a-z_]+):", error.reason) if word in known]
    named = [word for word in re.findall("[a-z_]+", error.reason) if word in known]
    on_line = words[error.line - 2 : error.line - 1] if error.line is not None and error.line >= 2 else []
    word = next(iter([*advised, *on_line, *named]), "kind")
    return FieldProblem(_FIELD_OF.get(word, word), error.reason)
