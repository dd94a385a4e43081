"""Persons: which records of one person count when there may be only so many.

A record's place in line is a keyed hash of the person, the encoded record and its copy number. It depends on no other
person, so adding or removing one changes nothing for the rest; and nobody without the key can foresee it.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from priory.data.codec import Codes


@dataclass(frozen=True)
class PersonRule:
    """At most so many records of one person count."""

    column: str  # which column says who a record is about
    max_rows: int  # how many records of one person count
    key: bytes = field(repr=False)  # what makes the choice unforeseeable; drawn once, kept with the ledger, never shown


def record_hash(key: bytes, person: str, codes: Sequence[int], copy: int) -> str:
    """Where the `copy`-th record of `person` with these codes stands in line."""
    text = "\x1f".join([key.hex(), person, ",".join(str(code) for code in codes), str(copy)])
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def kept_records(persons: Sequence[str | None], codes: Sequence[Codes], max_rows: int, key: bytes) -> NDArray[np.bool_]:
    """Which records count: at most `max_rows` of each person, and none of nobody."""
    records: dict[str, list[int]] = {}
    for i, person in enumerate(persons):
        if person is not None:
            records.setdefault(person, []).append(i)
    kept = np.zeros(len(persons), dtype=np.bool_)
    for person, rows in records.items():
        kept[rows if len(rows) <= max_rows else _first_in_line(person, rows, codes, max_rows, key)] = True
    return kept


def _first_in_line(person: str, rows: list[int], codes: Sequence[Codes], max_rows: int, key: bytes) -> list[int]:
    copies: Counter[tuple[int, ...]] = Counter()
    places = []
    for row in rows:
        record = tuple(int(column[row]) for column in codes)
        copies[record] += 1
        places.append((record_hash(key, person, record, copies[record]), row))
    return [row for _, row in sorted(places)[:max_rows]]
