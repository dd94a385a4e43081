"""YAML reader: values that know their line, without the surprises of YAML 1.1."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from priory.errors import SchemaError

DEEPEST = 20
LONGEST_SHOWN = 40

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,300})")
REAL = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")

Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True)
class Value:
    """A value of the file."""

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
        node = yaml.compose(text.removeprefix("\ufeff"), Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, said = mark.line + 1 if mark else None, error.problem or error.context
        raise SchemaError(f"this is not valid YAML: {said}", line=line, path=path) from None
    except yaml.YAMLError:
        raise SchemaError("this is not valid YAML: it has control characters", path=path) from None
    except RecursionError:
        raise SchemaError("lists and mappings are nested too deeply", path=path) from None
    if node is None:
        raise SchemaError("the file is empty; begin with 'priory: 1'", path=path)
    return _Builder(path).value(node, depth=0)


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


class _Builder:
    """Builds values from nodes, each node once however many aliases it has."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.built: dict[int, Value] = {}

    def value(self, node: Any, depth: int) -> Value:  # noqa: ANN401 - a PyYAML node of one of three kinds
        if id(node) not in self.built:
            self.built[id(node)] = self.new_value(node, depth)
        return self.built[id(node)]

    def new_value(self, node: Any, depth: int) -> Value:  # noqa: ANN401 - as above
        line = node.start_mark.line + 1
        if depth > DEEPEST:
            raise SchemaError("lists, mappings or aliases are nested too deeply", line=line, path=self.path)
        if node.tag.startswith("!"):
            raise SchemaError(f"tags such as {node.tag} are not used here; leave it out", line=line, path=self.path)
        if node.id == "sequence":
            return Value(tuple(self.value(item, depth + 1) for item in node.value), "", line, self.path)
        if node.id == "mapping":
            return Value(self.mapping(node, depth), "", line, self.path)
        is_plain = node.style not in ("'", '"', "|", ">")
        return Value(resolve(node.value) if is_plain else node.value, node.value, line, self.path)

    def mapping(self, node: Any, depth: int) -> dict[str, tuple[Value, Value]]:  # noqa: ANN401 - as above
        entries: dict[str, tuple[Value, Value]] = {}
        for key_node, value_node in node.value:
            key = self.value(key_node, depth + 1)
            text = key.written("a key")
            if text in entries:
                raise key.error(f"{text!r} was already given in line {entries[text][0].line}; keep one")
            entries[text] = key, self.value(value_node, depth + 1)
        return entries


def resolve(text: str) -> Scalar:
    """What an unquoted word means.

    >>> [resolve(word) for word in ("no", "true", "12", "007", "1e3", "2024-03-01", "~")]
    ['no', True, 12, '007', 1000.0, '2024-03-01', None]
    """
    if text in ("true", "false"):
        return text == "true"
    if text in ("", "~", "null"):
        return None
    if INTEGER.fullmatch(text):
        return int(text)
    return float(text) if REAL.fullmatch(text) else text
