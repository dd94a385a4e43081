"""YAML reader: values that know their line, without the surprises of YAML 1.1."""

import gc
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from priory.errors import SchemaError

DEEPEST = 20
# Scalars, lists and mappings of a file, with those that an alias repeats. A million take over a second and 200 MB.
MOST_VALUES = 1_050_000
LONGEST_SHOWN = 40

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,300})")
REAL = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")

WORDS = {"true": True, "false": False, "": None, "~": None, "null": None}
Scalar: TypeAlias = str | int | float | bool | None


class Value(NamedTuple):
    """A value of the file; a tuple, for there may be a million."""

    # a scalar, a tuple of values, or a mapping from a key's text to the key and its value
    data: "Scalar | tuple[Value, ...] | Mapping[str, tuple[Value, Value]]"
    text: str  # a scalar as it was written, without its quotes
    line: int  # where it begins, counted from 1
    path: str | None  # the file, if there is one

    def error(self, message: str, column: str | None = None) -> SchemaError:
        """An error that names this place, to be raised."""
        return SchemaError(message, column=column, line=self.line, path=self.path)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Give schema errors from inside this line and file, if they do not know theirs."""
        try:
            yield
        except SchemaError as error:
            if error.line is not None:
                raise
            raise self.error(error.reason, error.column) from None

    def entries(self, what: str, column: str | None = None) -> Mapping[str, tuple["Value", "Value"]]:
        """The keys and values of a mapping."""
        if isinstance(self.data, Mapping):
            return self.data
        raise self.error(f"{what} must be a mapping, as in {{key: value}}", column)

    def options(self, known: Iterable[str], what: str, column: str | None = None) -> dict[str, "Value"]:
        """The values of a mapping whose keys must be among `known`."""
        entries = self.entries(what, column)
        known = list(known)
        for text, (key, _) in entries.items():
            if text not in known:
                raise key.error(f"{what} has no {text!r}; {suggestion(text, known)}", column)
        return {text: value for text, (_, value) in entries.items()}

    def items(self, what: str, column: str | None = None) -> tuple["Value", ...]:
        """The values of a list."""
        if isinstance(self.data, tuple):
            return self.data
        raise self.error(f"{what} must be a list, as in [a, b]; got {self.shown}", column)

    def scalar(self, what: str, column: str | None = None) -> Scalar:
        """A text, number, boolean or null."""
        if isinstance(self.data, tuple | Mapping):
            raise self.error(f"{what} must be a single value; got {self.shown}", column)
        return self.data

    def written(self, what: str, column: str | None = None) -> str:
        """A scalar as it was written: for names and spellings, where `1` and `"1"` mean the same text."""
        self.scalar(what, column)
        return self.text

    def boolean(self, what: str, column: str | None = None) -> bool:
        """True or false."""
        if isinstance(self.data, bool):
            return self.data
        raise self.error(f"{what} must be true or false; got {self.shown}", column)

    @property
    def shown(self) -> str:
        """The value in a few words, for messages."""
        if isinstance(self.data, tuple | Mapping):
            return "a list" if isinstance(self.data, tuple) else "a mapping"
        # A table that is taken for a schema is one long text, and none of it belongs in a message.
        return (repr(self.text) if len(self.text) <= LONGEST_SHOWN else "a long text") if self.text else "nothing"


def read(text: str, path: str | None = None) -> Value:
    """Read one YAML document; a `SchemaError` with the line if the text is not YAML of this kind.

    Only `true` and `false` are booleans; only plain decimal numbers are numbers (`007` and `12:30` are texts); dates
    are texts; a key may not occur twice.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # Events, one after the other: a tree of nodes takes ten times the memory, and a deep one ends the process.
        with _kept():
            root = _Builder(path, yaml.parse(text.removeprefix("\ufeff"), Loader=loader)).root()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, said = mark.line + 1 if mark else None, error.problem or error.context
        raise SchemaError(f"this is not valid YAML: {said}", line=line, path=path) from None
    except yaml.YAMLError:
        raise SchemaError("this is not valid YAML: it has control characters", path=path) from None
    if root is None:
        raise SchemaError("the file is empty; begin with 'priory: 1'", path=path)
    return root


def suggestion(word: str, known: Iterable[str]) -> str:
    """What to say after an unknown word: the nearest known one, or all of them.

    >>> suggestion("levls", ["kind", "levels"])
    "did you mean 'levels'?"
    """
    import difflib

    known = list(known)
    folded = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), folded, n=1)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    shown = ", ".join(repr(name) for name in known[:20])
    return f"there are: {shown}{', …' if len(known) > 20 else ''}"


def plain(value: Value) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """A value as JSON can hold it, without its lines."""
    if isinstance(value.data, tuple):
        return {"list": [plain(item) for item in value.data]}
    if isinstance(value.data, Mapping):
        return {"entries": [[plain(key), plain(item)] for key, item in value.data.values()]}
    return [value.data, value.text]


def of_plain(described: Any) -> Value:  # noqa: ANN401 - as above
    """The value that `plain` described; every line is the first."""
    if isinstance(described, list):
        data, text = described
        return Value(data, text, 1, None)
    if "list" in described:
        return Value(tuple(map(of_plain, described["list"])), "", 1, None)
    entries = [(of_plain(key), of_plain(item)) for key, item in described["entries"]]
    return Value({key.text: (key, item) for key, item in entries}, "", 1, None)


@contextmanager
def _kept() -> Iterator[None]:
    """What is made in here is kept: to look for what is not, again and again, takes a quarter of a long reading."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Builder:
    """Builds values from the events of a parser, each once however many aliases it has."""

    def __init__(self, path: str | None, events: Iterator[Any]) -> None:
        import yaml

        self.yaml: Any = yaml
        self.path = path
        self.events = events
        self.anchors: dict[str, tuple[Value, int]] = {}  # what an anchor names, and how many values that is
        self.values = 0

    def root(self) -> Value | None:
        """The value of the only document; None where there is none."""
        next(self.events)
        if isinstance(next(self.events), self.yaml.StreamEndEvent):
            return None
        root = self.value(next(self.events), depth=0)
        next(self.events)
        if not isinstance(after := next(self.events), self.yaml.StreamEndEvent):
            raise self.error("there is a second document; keep one", after)
        return root

    def error(self, message: str, event: Any) -> SchemaError:  # noqa: ANN401 - an event of PyYAML
        return SchemaError(message, line=event.start_mark.line + 1, path=self.path)

    def value(self, event: Any, depth: int) -> Value:  # noqa: ANN401 - as above
        before = self.values
        if isinstance(event, self.yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise self.error(f"*{event.anchor} is not named with &{event.anchor} before", event)
            value, count = self.anchors[event.anchor]
            self.count(count, event)
            return value
        self.count(1, event)
        value = self.new_value(event, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = value, self.values - before
        return value

    def count(self, values: int, event: Any) -> None:  # noqa: ANN401 - as above
        """Count values, those that an alias repeats again."""
        self.values += values
        if self.values > MOST_VALUES:
            raise self.error(f"there are more than {MOST_VALUES:,} values; a schema has fewer", event)

    def new_value(self, event: Any, depth: int) -> Value:  # noqa: ANN401 - as above
        line, tag = event.start_mark.line + 1, event.tag
        if depth > DEEPEST:
            raise self.error("lists, mappings or aliases are nested too deeply", event)
        if tag is not None and tag.startswith("!") and tag != "!":
            raise self.error(f"tags such as {tag} are not used here; leave it out", event)
        kind = type(event)
        if kind is self.yaml.SequenceStartEvent:
            return Value(tuple(self.inside(self.yaml.SequenceEndEvent, depth + 1)), "", line, self.path)
        if kind is self.yaml.MappingStartEvent:
            return Value(self.mapping(self.inside(self.yaml.MappingEndEvent, depth + 1)), "", line, self.path)
        is_plain = event.style not in ("'", '"', "|", ">")
        return Value(resolve(event.value) if is_plain else event.value, event.value, line, self.path)

    def inside(self, end: type, depth: int) -> Iterator[Value]:
        """The values up to the end of a list or mapping."""
        while not isinstance(event := next(self.events), end):
            yield self.value(event, depth)

    def mapping(self, values: Iterator[Value]) -> dict[str, tuple[Value, Value]]:
        entries: dict[str, tuple[Value, Value]] = {}
        for key in values:
            text = key.written("a key")
            if text in entries:
                raise key.error(f"{text!r} was already given in line {entries[text][0].line}; keep one")
            entries[text] = key, next(values)
        return entries


def resolve(text: str) -> Scalar:
    """What an unquoted word means.

    >>> [resolve(word) for word in ("no", "true", "12", "007", "1e3", "2024-03-01", "~")]
    ['no', True, 12, '007', 1000.0, '2024-03-01', None]
    """
    if text in WORDS:
        return WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if INTEGER.fullmatch(text):
        return int(text)
    # A number that no double comes near is none.
    return number if REAL.fullmatch(text) and math.isfinite(number := float(text)) else text
