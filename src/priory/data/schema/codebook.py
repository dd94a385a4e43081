"""Codebook: a schema from what is published about a table: a CSV of values and labels, Frictionless, or DDI.

None of them is about rows. What a codebook does not say is left open, for a person or `schema discover` to complete.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from priory.bounded import json_of, number
from priory.data.kinds import Boolean, Category, Column, Moment, Number, Unmodelled, bins
from priory.data.kinds.declared import MOST_WHOLE
from priory.data.moments import moment_of
from priory.data.schema.open import OpenColumn, OpenSchema
from priory.data.xml_reader import Node, read_xml
from priory.errors import DataError, SchemaError

# The names that codebooks in CSV give to their columns.
HEADINGS = {
    "column": ("column", "variable", "field", "name", "var"),
    "value": ("value", "code", "level", "values", "category"),
    "label": ("label", "description", "meaning", "text"),
}
RANGE = re.compile(r"\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*(?:\.\.|–|to|-)\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s*")
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})")
# Whole numbers get a bin each up to so many, else this many bins.
MOST_SINGLE, USUAL_BINS = 100, 20
LARGEST_FILE = 2**26


@dataclass
class Entry:
    """What a codebook says of one column."""

    name: str  # the column
    label: str = ""  # what it is about
    values: dict[str, str] = field(default_factory=dict)  # its values with their labels
    nulls: list[str] = field(default_factory=list)  # values that mean missing
    kind: str | None = None  # a word of the schema file, where it is said
    low: Any = None  # the smallest number or first date
    high: Any = None  # the largest number or last date
    words: tuple[Sequence[str], Sequence[str]] | None = None  # those for true and those for false
    is_required: bool = False  # whether no cell is missing

    @property
    def comments(self) -> tuple[str, ...]:
        """What the codebook says, for people."""
        labels = [f"{value} = {label}" for value, label in self.values.items() if label and label != value]
        return tuple(text for text in (self.label, "; ".join(labels)) if text)

    def column(self) -> Column | OpenColumn:
        """The column, whole where enough is said."""
        nulls = tuple(dict.fromkeys(text for text in self.nulls if text))
        if self.kind in ("id", "text"):
            return Unmodelled.of(self.name, kind=self.kind)
        if self.kind == "boolean" and not self.values:
            true, false = self.words or (Boolean.TRUE, Boolean.FALSE)
            return Boolean.of(self.name, true=true, false=false, nullable=True, nulls=nulls)
        if self.values:
            return self._category(nulls)
        if self.low is not None and self.high is not None:
            return self._binned(nulls)
        return OpenColumn(name=self.name, kind=self.kind, nulls=nulls)

    def _category(self, nulls: tuple[str, ...]) -> Category:
        levels = [value for value in self.values if value not in nulls]
        if all(WHOLE.fullmatch(level) for level in levels):
            return Category.of(self.name, map(int, levels), nullable=True, nulls=nulls)
        other = next(word for word in ("other", "(other)", "((other))") if word not in nulls)
        return Category.of(self.name, levels, other=other, nullable=not self.is_required or bool(nulls), nulls=nulls)

    def _binned(self, nulls: tuple[str, ...]) -> Column:
        name = self.name
        if self.kind in ("date", "datetime"):
            clock = self.kind == "datetime"
            low, high = moment_of(name, self.low, clock=clock), moment_of(name, self.high, clock=clock, is_end=True)
            edges = bins.calendar_units(name, low, high, "year", clock=clock)
            return Moment.of(name, clock=clock, low=low, high=high, edges=edges, nullable=True, nulls=nulls)
        first, last = (_limit(name, limit) for limit in (self.low, self.high))
        whole = self.kind != "real" and first.is_integer() and last.is_integer() and abs(last) < MOST_WHOLE
        widths = None
        if not whole or last - first >= MOST_SINGLE:
            widths = bins.equal_width(name, first, last, USUAL_BINS, whole=whole)
        return Number.of(name, whole=whole, low=first, high=last, edges=widths, nullable=True, nulls=nulls)


def _limit(name: str, limit: object) -> float:
    try:
        return number(float(limit) if isinstance(limit, str) else limit)
    except ValueError:
        raise SchemaError("the codebook's smallest and largest value must be finite numbers", column=name) from None


def read_codebook(path: str | Path, *, name: str | None = None) -> tuple[OpenSchema, dict[str, tuple[str, ...]]]:
    """The schema that a codebook documents, open where it says too little, and what it says of each column.

    Args:
        path: a CSV file with columns for variable, value and label; a Frictionless table schema or data package in
            JSON; or a DDI codebook in XML.
        name: what the data set is called; by default as the file.

    Raises:
        DataError: the file is none of these.
        SchemaError: what it says cannot be a schema.
    """
    path = Path(path)
    readers = {".csv": _from_csv, ".json": _from_frictionless, ".xml": _from_ddi}
    if path.suffix.lower() not in readers:
        raise DataError(f"{path} is no codebook that can be read; give .csv, .json (Frictionless) or .xml (DDI)")
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise DataError(f"{path} is larger than any codebook; is it the table itself?")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be opened: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text; save it again as UTF-8") from None
    entries = readers[path.suffix.lower()](text, path)
    if not entries:
        raise DataError(f"{path} documents no column")
    opened = OpenSchema.of(name or path.name.split(".")[0], [entry.name for entry in entries])
    opened = OpenSchema(name=opened.name, columns=tuple(entry.column() for entry in entries))
    return opened, {entry.name: entry.comments for entry in entries}


def _from_csv(text: str, path: Path) -> list[Entry]:
    """One line for each value of a column; a range such as 0-120 gives bounds."""
    mark = max(",;\t|", key=text.partition("\n")[0].count)
    lines = list(csv.reader(text.splitlines(), delimiter=mark))
    header = [cell.strip().lower() for cell in lines[0]] if lines else []
    places = {
        word: next((header.index(each) for each in known if each in header), None) for word, known in HEADINGS.items()
    }
    if places["column"] is None or places["value"] is None:
        raise DataError(f"{path} needs a header with column, value and label")
    entries: dict[str, Entry] = {}
    for line in lines[1:]:
        cells = {word: line[i].strip() if i is not None and i < len(line) else "" for word, i in places.items()}
        if cells["column"]:
            _add(entries.setdefault(cells["column"], Entry(cells["column"])), cells["value"], cells["label"])
    return list(entries.values())


def _add(entry: Entry, value: str, label: str) -> None:
    """One line of a codebook."""
    bounds = RANGE.fullmatch(value)
    if bounds:
        entry.low, entry.high = float(bounds[1]), float(bounds[2])
        entry.kind = "real" if "." in bounds[1] + bounds[2] else "integer"
        entry.label = entry.label or label
    elif not value:
        entry.label = entry.label or label
    elif entry.low is not None:
        # Beside a range, single values are codes such as 99 for missing.
        entry.nulls.append(value)
    else:
        entry.values[value] = label


def _from_frictionless(text: str, path: Path) -> list[Entry]:
    """A table schema, or the first resource of a data package."""
    try:
        given = json_of(text)
        if "resources" in given:
            given = given["resources"][0]["schema"]
        fields, nulls = given["fields"], [each for each in given.get("missingValues", [""]) if each]
        keys = given.get("primaryKey") or []
        ids = [keys] if isinstance(keys, str) else keys
        return [_field(each, nulls, is_id=each["name"] in ids) for each in fields]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise DataError(f"{path} is not a Frictionless table schema: it needs fields, each with a name") from None


FRICTIONLESS = {"string": None, "number": "real", "integer": "integer", "boolean": "boolean", "date": "date"}
FRICTIONLESS |= {"datetime": "datetime", "year": "integer", "any": None}


def _field(given: Mapping[str, Any], nulls: Iterable[str], *, is_id: bool) -> Entry:
    limits, word = given.get("constraints", {}), given.get("type", "any")
    kind = "id" if is_id or limits.get("unique") else FRICTIONLESS.get(word, "text")
    values = {str(value): "" for value in limits.get("enum", [])}
    labels = {str(each["value"]): str(each["label"]) for each in given.get("categories", []) if isinstance(each, dict)}
    words = (given["trueValues"], given["falseValues"]) if "trueValues" in given and "falseValues" in given else None
    return Entry(
        str(given["name"]),
        label=str(given.get("title") or given.get("description") or ""),
        values=values or labels,
        nulls=list(nulls),
        kind="category" if (values or labels) and kind != "id" else kind,
        low=limits.get("minimum"),
        high=limits.get("maximum"),
        words=words,
        is_required=bool(limits.get("required")),
    )


def _from_ddi(text: str, path: Path) -> list[Entry]:
    """The variables of a DDI codebook (versions 1.2 to 2.5)."""
    variables = read_xml(text, path).all("var")
    if not variables:
        raise DataError(f"{path} is not a DDI codebook: it describes no variable (var)")
    return [_variable(each) for each in variables]


def _variable(given: Node) -> Entry:
    entry = Entry(given.attributes.get("name", ""), label=given.text_of("labl"))
    for category in given.children_of("catgry"):
        value = category.text_of("catValu")
        if category.attributes.get("missing") == "Y":
            entry.nulls.append(value)
        elif value:
            entry.values[value] = category.text_of("labl")
    numeric = any(each.attributes.get("type") == "numeric" for each in given.children_of("varFormat"))
    for limits in given.all("range"):
        if numeric and not entry.values and {"min", "max"} <= limits.attributes.keys():
            entry.low, entry.high = limits.attributes["min"], limits.attributes["max"]
    if entry.values and given.attributes.get("intrvl") != "contin":
        entry.kind = "category"
    elif numeric:
        # Values of a continuous variable are labels of some of its numbers.
        entry.values = {}
        entry.kind = "integer" if given.attributes.get("dcml", "0") == "0" else "real"
    return entry
