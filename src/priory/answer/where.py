"""Where: which rows are meant, written as in SQL, as a sum of products of selections."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from priory.answer.selection import INFINITY, Selection
from priory.data.cells import is_null
from priory.data.kinds import ModelledColumn, Span
from priory.data.schema import Schema
from priory.data.yaml_reader import suggestion
from priory.errors import OptionError, SchemaError
from priory.queries.factor import Array

MOST_BOXES = 64
# Of conditions inside conditions, and of the letters of all of them.
MOST_DEPTH, MOST_LETTERS = 100, 100_000
COMPARISONS = ("=", "==", "!=", "<>", "<", "<=", ">", ">=")
KEYWORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false"})
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORDS = r"""\s*(?:
    (?P<text>'(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")*"|`[^`]*`)
    | (?P<moment>[0-9]{4}-[0-9]{2}(?:-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)?)?(?![\w.-]))
    | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,)
    | (?P<word>\w[\w.]*(?:-[\w.]+)*)
    )"""

Box: TypeAlias = Mapping[str, Selection]
Given: TypeAlias = str | Mapping[str, object] | None


@dataclass(frozen=True, eq=False)
class Where:
    """Rows that a condition selects: those in one of several boxes, which share no row.

    Attributes:
        boxes: for each box, what it selects of some columns; of the others it selects everything.
        text: the condition as it was written.
    """

    boxes: tuple[Box, ...]
    text: str = ""

    @classmethod
    def of(cls, given: "Given | Where", schema: Schema) -> "Where":
        """Read a condition: a text as in SQL, a mapping of columns to values (a list for any of them), or nothing.

        Raises:
            OptionError: it cannot be read, names an unknown column or level, or nothing can satisfy it.
        """
        if isinstance(given, Where):
            return given
        if given is None:
            return cls(({},))
        if isinstance(given, Mapping):
            text = f"{dict(given)!r}"
            boxes = _all_of([_listed(schema, name, value) for name, value in given.items()])
        elif isinstance(given, str):
            text = given.strip()
            boxes = _Parser(text, schema).whole()
        else:
            raise _error(f'a text such as "age >= 30", or a mapping of columns to values; got {given!r}')
        where = cls(tuple(box for box in boxes if not _is_empty(box, schema)), text)
        if not where.boxes:
            raise _error(f"nothing can satisfy {text}")
        return where

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it speaks of."""
        return tuple(dict.fromkeys(name for box in self.boxes for name in box))

    def notes(self, schema: Schema) -> tuple[str, ...]:
        """What a reader must know: the bins that it cuts."""
        notes = {}
        for box in self.boxes:
            for name, selection in box.items():
                column = modelled(schema, name)
                for code, weight in _cut(column, selection):
                    notes[name, code] = (
                        f"{column.labels[code]} of {name!r} is one bin: {100 * weight:.3g} % of it is taken, "
                        "as the bins beside it suggest"
                    )
        return tuple(notes.values())

    def codes(self, schema: Schema) -> list[dict[str, tuple[int, ...]]]:
        """The boxes as codes of each column.

        Raises:
            OptionError: a bin is cut.
        """
        found = []
        for box in self.boxes:
            for name, selection in box.items():
                column = modelled(schema, name)
                for code, _ in _cut(column, selection):
                    raise _error(f"{column.labels[code]} of {name!r} is one bin; ask for all of it or for none")
            found.append(
                {name: tuple(s.weights(modelled(schema, name)).nonzero()[0].tolist()) for name, s in box.items()}
            )
        return found


def modelled(schema: Schema, name: str, argument: str = "where") -> ModelledColumn:
    """The modelled column called `name`.

    Raises:
        OptionError: there is none; the nearest is named.
    """
    columns = {column.name: column for column in schema.modelled}
    if isinstance(name, str) and name in columns:
        return columns[name]
    for column in schema.columns:
        if column.name == name:
            raise OptionError(argument, f"column {name!r} is of kind {column.kind}, of which nothing was released")
    start = [other for other in columns if isinstance(name, str) and other.startswith(f"{name} ")]
    hint = (
        f'did you mean "{start[0]}"? Put names with spaces in double quotes'
        if start
        else suggestion(str(name), columns)
    )
    raise OptionError(argument, f"there is no column {name!r}; {hint}")


def _error(message: str) -> OptionError:
    return OptionError("where", message)


@contextmanager
def _about(column: ModelledColumn) -> Iterator[None]:
    """Say of a value that the column cannot have that it stood in a condition."""
    try:
        yield
    except SchemaError as error:
        raise _error(f"column {column.name!r}: {error.reason}") from None


def _cut(column: ModelledColumn, selection: Selection) -> Iterator[tuple[int, float]]:
    weights: Array = selection.weights(column)
    for code in ((weights > 0) & (weights < 1)).nonzero()[0].tolist():
        yield code, float(weights[code])


def _is_empty(box: Box, schema: Schema) -> bool:
    return any(not selection.weights(modelled(schema, name)).any() for name, selection in box.items())


def _both(one: Box, other: Box) -> Box:
    return {**one, **{name: one[name] & s if name in one else s for name, s in other.items()}}


def _all_of(parts: Sequence[Sequence[Box]]) -> list[Box]:
    boxes: list[Box] = [{}]
    for part in parts:
        boxes = _bounded([_both(one, other) for one in boxes for other in part])
    return boxes


def _any_of(parts: Sequence[Sequence[Box]]) -> list[Box]:
    """Boxes that share no row and together hold what any of the parts holds."""
    found: list[Box] = []
    for box in (box for part in parts for box in part):
        found = _bounded(_joined(found, box))
    return found


def _joined(found: list[Box], box: Box) -> list[Box]:
    """Boxes that share no row, with one more."""
    for i, other in enumerate(found):
        if merged := _merged(other, box):
            # Alike but for one column: they are one box, whether they overlap there or not.
            return _joined(found[:i] + found[i + 1 :], merged)
    pieces: list[Box] = [box]
    for other in found:
        pieces = [piece for one in pieces for piece in _without(one, other)]
    return [*found, *pieces]


def _merged(one: Box, other: Box) -> Box | None:
    if set(one) != set(other):
        return None
    differing = [name for name in one if one[name] != other[name]]
    if len(differing) > 1:
        return None
    return {**one, **{name: one[name] | other[name] for name in differing}}


def _without(box: Box, other: Box) -> list[Box]:
    """What of `box` is not in `other`: for each column in turn, inside all columns before it and outside this one."""
    pieces = []
    inside: Box = box
    for name, selection in other.items():
        outside = _both(inside, {name: ~selection})
        if outside[name].spans or outside[name].null:
            pieces.append(outside)
        inside = _both(inside, {name: selection})
        if not (inside[name].spans or inside[name].null):
            return [box]
    return pieces


def _bounded(boxes: list[Box]) -> list[Box]:
    if len(boxes) > MOST_BOXES:
        raise _error(f"it takes more than {MOST_BOXES} separate cases; ask in parts")
    return boxes


def _listed(schema: Schema, name: str, value: object) -> list[Box]:
    """One entry of a mapping."""
    column = modelled(schema, name)
    if isinstance(value, Selection):
        return [{name: value}]
    values = list(value) if isinstance(value, Collection) and not isinstance(value, str | bytes) else [value]
    chosen = Selection()
    for each in values:
        chosen = chosen | (_null(column) if is_null(each) else Selection.of([_equal(column, each)]))
    return [{name: chosen}]


def _null(column: ModelledColumn) -> Selection:
    if not column.nullable:
        raise _error(f"column {column.name!r} is never null")
    return Selection(null=True)


def _equal(column: ModelledColumn, value: object) -> Span:
    with _about(column):
        start, end = column.period_of(value)
    if start == end:
        reason = "whole numbers only" if column.is_whole else "real numbers have no count of their own: ask for a range"
        raise _error(f"{column.name!r} = {value}: {reason}")
    if start >= column.edges[-1] or end <= column.edges[0]:
        raise _error(
            f"{column.name!r} = {value} is outside the bounds, {column.labels[0]} to {column.place_labels[-1]}"
        )
    return start, end


def _compared(column: ModelledColumn, sign: str, value: object) -> Selection:
    if sign in ("=", "=="):
        return Selection.of([_equal(column, value)])
    if sign in ("!=", "<>"):
        start, end = _equal(column, value)
        return Selection.of([(-INFINITY, start), (end, INFINITY)])
    with _about(column):
        return Selection.of(column.compared(sign, value))


def _opposite(selection: Selection) -> Selection:
    """What is neither selected nor null: to SQL, a comparison with null is neither true nor false."""
    return Selection((~selection).spans)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """The keyword that it is, if it is one."""
        return self.text.lower() if self.kind == "word" and self.text.lower() in KEYWORDS else ""

    @property
    def content(self) -> str:
        """A text or a name without its quotes."""
        if self.kind == "text":
            return self.text[1:-1].replace("''", "'")
        if self.kind == "name":
            return self.text[1:-1].replace('""', '"') if self.text[0] == '"' else self.text[1:-1]
        return self.text


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while text[place:].strip():
        # Compiled, and remembered, when the first condition is read: most questions have none.
        match = re.compile(_WORDS, re.VERBOSE).match(text, place)
        if match is None:
            rest = text[place:].lstrip()
            quote = rest[0] in "'\"`"
            why = f"the quote {rest[0]} is not closed" if quote else f"{rest[0]!r} has no meaning here"
            raise _error(f"at {_short(rest)}: {why}")
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind))
        place = match.end()


def _short(text: str) -> str:
    return repr(text if len(text) <= 20 else text[:19] + "…")


class _Parser:
    """Recursive descent; `is_not` carries a negation down to the comparisons, where null stays out of both."""

    def __init__(self, text: str, schema: Schema) -> None:
        if len(text) > MOST_LETTERS:
            raise _error(f"it has more than {MOST_LETTERS:,} letters; ask in parts")
        self._text = text
        self._schema = schema
        self._depth = 0
        self._tokens = [*_tokens(text), _Token("end", "", len(text))]
        self._place = 0

    def whole(self) -> list[Box]:
        if self._peek.kind == "end":
            raise _error("it is empty; leave it out to mean all rows")
        boxes = self._either(is_not=False)
        if self._peek.kind != "end":
            raise self._wrong("and, or, or the end")
        return boxes

    @property
    def _peek(self) -> _Token:
        return self._tokens[self._place]

    def _next(self) -> _Token:
        self._place += 1
        return self._tokens[self._place - 1]

    def _took(self, *texts: str) -> bool:
        token = self._peek
        if (token.word or (token.text if token.kind == "sign" else "")) not in texts:
            return False
        self._place += 1
        return True

    def _wrong(self, wanted: str) -> OptionError:
        token = self._peek
        found = "the end" if token.kind == "end" else _short(self._text[token.start :])
        return _error(f"{wanted} was expected at {found}")

    def _expect(self, text: str) -> None:
        if not self._took(text):
            raise self._wrong(repr(text))

    def _either(self, *, is_not: bool) -> list[Box]:
        parts = [self._each(is_not=is_not)]
        while self._took("or"):
            parts.append(self._each(is_not=is_not))
        return _all_of(parts) if is_not else _any_of(parts)

    def _each(self, *, is_not: bool) -> list[Box]:
        parts = [self._single(is_not=is_not)]
        while self._took("and"):
            parts.append(self._single(is_not=is_not))
        return _any_of(parts) if is_not else _all_of(parts)

    def _single(self, *, is_not: bool) -> list[Box]:
        while self._took("not"):
            is_not = not is_not
        if self._took("("):
            self._depth += 1
            if self._depth > MOST_DEPTH:
                raise _error(f"more than {MOST_DEPTH} brackets are open; leave out those that are not needed")
            boxes = self._either(is_not=is_not)
            self._expect(")")
            self._depth -= 1
            return boxes
        name, (selection, opposite) = self._test()
        return [{name: opposite if is_not else selection}]

    def _test(self) -> tuple[str, tuple[Selection, Selection]]:
        """What a single test selects, and what its negation does."""
        if self._peek.kind in ("number", "moment", "text"):
            return self._value_first()
        column = self._column()
        if self._took("is"):
            is_not = self._took("not")
            self._expect("null")
            null = _null(column)
            return column.name, (~null, null) if is_not else (null, ~null)
        is_not = self._took("not")
        if self._took("in"):
            found = self._values_in(column)
        elif self._took("between"):
            found = self._between(column)
        elif is_not:
            raise self._wrong("in or between")
        elif self._peek.text in COMPARISONS and self._peek.kind == "sign":
            found = _compared(column, self._next().text, self._value(column))
        elif column.kind == "boolean":
            found = _compared(column, "=", value=True)
        else:
            raise self._wrong(f"a comparison of {column.name!r}, such as = or in,")
        return column.name, (_opposite(found), found) if is_not else (found, _opposite(found))

    def _value_first(self) -> tuple[str, tuple[Selection, Selection]]:
        """30 <= age, and 30 <= age < 40."""
        value = self._next()
        sign = self._sign()
        column = self._column()
        found = _compared(column, _MIRRORED.get(sign, sign), value.content)
        if self._peek.kind == "sign" and self._peek.text in _MIRRORED:
            found = found & _compared(column, self._next().text, self._value(column))
        return column.name, (found, _opposite(found))

    def _sign(self) -> str:
        if self._peek.text not in COMPARISONS or self._peek.kind != "sign":
            raise self._wrong("a comparison such as = or <=")
        return self._next().text

    def _column(self) -> ModelledColumn:
        token = self._peek
        if token.kind not in ("word", "name") or token.word:
            raise self._wrong("the name of a column")
        return modelled(self._schema, self._next().content)

    def _value(self, column: ModelledColumn) -> object:
        token = self._peek
        if token.word == "null":
            raise _error(f"nothing equals null; write: {column.name} is null")
        if token.kind in ("end", "sign") or token.word not in ("", "true", "false"):
            raise self._wrong(f"a value of {column.name!r}")
        return self._next().content

    def _values_in(self, column: ModelledColumn) -> Selection:
        self._expect("(")
        chosen = Selection.of([_equal(column, self._value(column))])
        while self._took(","):
            chosen = chosen | Selection.of([_equal(column, self._value(column))])
        self._expect(")")
        return chosen

    def _between(self, column: ModelledColumn) -> Selection:
        low = self._value(column)
        self._expect("and")
        high = self._value(column)
        found = _compared(column, ">=", low) & _compared(column, "<=", high)
        if not found.spans:
            raise _error(f"{column.name!r} between {low} and {high} is empty; write the smaller one first")
        return found
