"""Bounded: the numbers, sizes and JSON of files, within bounds that are checked on the text before a number is made.

Files come from anybody. What nobody can mean is a `ValueError`; whoever opens the file makes a sentence of it.
"""

import json
import math
from fractions import Fraction
from typing import Any

# Of a decimal exponent: a fraction writes out all the zeros of 1e999999999.
MOST_DIGITS = 1000
# The largest amount of privacy, and the largest whole number.
LARGEST, MOST_WHOLE = Fraction(10**300), 2**63 - 1
# Letters of an exact fraction: Python writes whole numbers of up to 4,300 digits.
_LONGEST = 9_000
# Bytes that the values of a JSON text may take: about so many for each mapping, list, text and number.
MOST_JSON_BYTES = 2**28
_BYTES_EACH = {"{": 240, "[": 72, '"': 40, ",": 40}


def fraction(text: str) -> Fraction:
    """The fraction that a text spells.

    >>> fraction("1/3"), fraction("1e-9")
    (Fraction(1, 3), Fraction(1, 1000000000))
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        raise ValueError("a number in a text is needed")
    _, _, exponent = text.lower().partition("e")
    if exponent and abs(int(exponent)) > MOST_DIGITS:
        raise ValueError(f"a number of at most {MOST_DIGITS} digits is needed")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError("a finite number is needed") from None


def amount(text: str) -> Fraction:
    """A fraction from 0 to the largest amount of privacy."""
    number = fraction(text)
    if not 0 <= number <= LARGEST:
        raise ValueError("an amount of 0 or more is needed")
    return number


def whole(value: object, least: int = 0, most: int = MOST_WHOLE) -> int:
    """A whole number within bounds, as it is or spelled in a text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"a whole number from {least} to {most} is needed")
    return value


def number(value: object) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("a finite number is needed")
    return float(value)


def text(value: object) -> str:
    """A text that can be printed and written again."""
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("a text is needed")
    return value


def json_of(data: str | bytes) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """The value of a JSON text whose numbers are finite and fit 64 bits, and whose values fit the memory they may take.

    >>> json_of('{"rows": 3}')
    {'rows': 3}
    """
    written = data if isinstance(data, str) else data.decode()
    if sum(size * written.count(mark) for mark, size in _BYTES_EACH.items()) > MOST_JSON_BYTES:
        raise ValueError("there are too many values")
    try:
        return json.loads(written, parse_int=_integer, parse_float=_double, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("lists or mappings are nested too deeply") from None


def _integer(text: str) -> int:
    if len(text) > 20:
        raise ValueError("a whole number of 64 bits is needed")
    return int(text)


def _double(text: str) -> float:
    return number(float(text))


def _no_number(_: str) -> float:
    raise ValueError("a finite number is needed")
