"""Encoding: queries, measurements and statements as JSON and arrays, as files hold them, and back."""

import hashlib
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory import bounded
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.noise import MOST_BITS, Gaussian, Laplace, Noise, RoundedGaussian
from priory.privacy.scores import Pick
from priory.privacy.statement import DECLARED, KEPT, UNKNOWN_RANDOMNESS, Statement
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Matrix, Mean, Moments, Part, Point, Prefix, Range, Recode, Set, Total
from priory.queries.query import Query

Json = dict[str, Any]

_PARTS: dict[str, tuple[type[Part], tuple[str, ...]]] = {
    "identity": (Identity, ()),
    "total": (Total, ()),
    "point": (Point, ("code",)),
    "set": (Set, ("codes",)),
    "range": (Range, ("low", "high")),
    "prefix": (Prefix, ()),
    "recode": (Recode, ("targets",)),
    "mean": (Mean, ("values",)),
    "moments": (Moments, ("values", "k")),
}
_NAMES = {kind: name for name, (kind, _) in _PARTS.items()}
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..{'descr': '(?P<dtype><[if]8)', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9, ]*)\), } *\n",
    re.DOTALL,
)
# Letters of a digest of a query: two are alike by chance once in 2^64.
DIGEST = 16
# More numbers of a part are an array of their own, which takes less time and memory to read.
_MOST_NUMBERS = 100_000
_NOISES: dict[str, type[Noise]] = {noise.kind: noise for noise in (Laplace, Gaussian)}


def encode_measurements(measurements: Sequence[Measurement]) -> tuple[list[Json], dict[str, bytes]]:
    """A description of each, and the arrays they name."""
    arrays: dict[str, bytes] = {}
    described = []
    for number, measurement in enumerate(measurements):
        values = f"{number}.npy"
        arrays[values] = array_bytes(plain(measurement.values))
        stddev: float | str = f"{number}.stddev.npy"
        if isinstance(measurement.stddev, np.ndarray):
            arrays[str(stddev)] = array_bytes(measurement.stddev)
        else:
            stddev = measurement.stddev
        noise = None if measurement.noise is None else _encode_noise(measurement.noise)
        query = encode_query(measurement.query, str(number), arrays)
        described.append({**query, "values": values, "stddev": stddev, "noise": noise})
    return described, arrays


def decode_measurements(
    described: Sequence[Json], arrays: Mapping[str, bytes], domain: Domain
) -> tuple[Measurement, ...]:
    """The measurements again, checked."""
    left = dict(arrays)
    return tuple(_decode_measurement(each, left, domain) for each in described)


def encode_query(query: Query, name: str, arrays: dict[str, bytes]) -> Json:
    """A description of a query; its arrays are added to `arrays` under names that begin with `name`."""
    parts = [_encode_part(part, f"{name}.{i}.npy", arrays) for i, part in enumerate(query.parts)]
    return {"clique": list(query.clique), "parts": parts}


@lru_cache(maxsize=4096)
def query_digest(query: Query) -> str:
    """A short text by which a query is known again."""
    arrays: dict[str, bytes] = {}
    described = json.dumps(encode_query(query, "", arrays), default=str)
    return hashlib.sha256(b"\0".join([described.encode(), *arrays.values()])).hexdigest()[:DIGEST]


def decode_query(described: Json, arrays: dict[str, bytes], domain: Domain) -> Query:
    """The query again, checked; its arrays are taken out of `arrays`, so that no other can claim their size."""
    parts = [_decode_part(part, arrays) for part in described["parts"]]
    return Query.product(domain, dict(zip(described["clique"], parts, strict=True)))


def _decode_measurement(described: Json, arrays: dict[str, bytes], domain: Domain) -> Measurement:
    query = decode_query(described, arrays, domain)
    noise, stddev = described["noise"], described["stddev"]
    values = array_of(arrays.pop(described["values"]))
    stddev = array_of(arrays.pop(stddev)) if isinstance(stddev, str) else bounded.number(stddev)
    return Measurement.of(query, values, stddev, None if noise is None else _decode_noise(noise))


def _encode_noise(noise: Noise) -> Json:
    described: Json = {"kind": noise.kind, "scale": str(noise.scale)}
    return described | {"bits": noise.bits} if isinstance(noise, RoundedGaussian) else described


def _decode_noise(described: Json) -> Noise:
    scale = bounded.amount(described["scale"])
    if described["kind"] == RoundedGaussian.kind:
        return RoundedGaussian(scale, bounded.whole(described["bits"], most=MOST_BITS))
    return _NOISES[described["kind"]](scale)


def _encode_part(part: Part, name: str, arrays: dict[str, bytes]) -> Json:
    if isinstance(part, Matrix):
        arrays[name] = array_bytes(part.entries)
        return {"part": "matrix", "entries": name}
    kind = _NAMES[type(part)]
    fields = {field: getattr(part, field) for field in _PARTS[kind][1]}
    for field, numbers in fields.items():
        if isinstance(numbers, tuple) and len(numbers) > _MOST_NUMBERS:
            arrays[name], fields[field] = array_bytes(plain(np.array(numbers))), name
    return {"part": kind} | fields


def _decode_part(described: Json, arrays: dict[str, bytes]) -> Part:
    if described["part"] == "matrix":
        return Matrix(array_of(arrays.pop(described["entries"])))
    kind, fields = _PARTS[described["part"]]
    given = (described[field] for field in fields)
    return kind(*(array_of(arrays.pop(each)).tolist() if isinstance(each, str) else each for each in given))


def plain(values: Any) -> Any:  # noqa: ANN401 - an array of either kind
    """The numbers in 64 bits, as files hold them."""
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)


def encode_statement(statement: Statement) -> Json:
    """Every field, fractions as text."""
    texts = ("unit", "dataset", "ledger", "version", "randomness", "randomness_version", "effort")
    return {
        "is_private": statement.is_private,
        "words": list(statement.lines),
        "mechanism": statement.mechanism,
        "budget": statement.budget.encoded(),
        "spent": str(statement.spent),
        **{name: getattr(statement, name) for name in texts},
        "is_declared": statement.is_declared,
        "discovered": None if statement.discovered is None else statement.discovered.encoded(),
        # For readers of the file: the sum of the two, or both where they do not add up.
        "promises": [promise.encoded() for promise in statement.promises],
    }


def decode_statement(described: Json) -> Statement:
    """The statement again."""
    if described["ledger"] not in KEPT:
        raise ValueError("another word was expected")
    return Statement(
        budget=Budget.decoded(described["budget"]),
        spent=bounded.amount(described["spent"]),
        is_private=described["is_private"] is True,
        # Older files say it in the name of the mechanism alone.
        is_declared=described.get("is_declared", DECLARED in described["mechanism"]) is True,
        discovered=Budget.decoded(described["discovered"]) if described.get("discovered") else None,
        randomness=bounded.text(described.get("randomness", UNKNOWN_RANDOMNESS)),
        randomness_version=bounded.text(described.get("randomness_version", "")),
        effort=bounded.text(described.get("effort", "")),
        **{name: bounded.text(described[name]) for name in ("mechanism", "unit", "dataset", "ledger", "version")},
    )


def decode_picks(described: Sequence[Sequence[int | None]]) -> tuple[Pick, ...]:
    """The picks that `[query, cell, is_complement]` describe; the cell is None where a query is picked as a whole."""
    return tuple(
        Pick(bounded.whole(query), None if cell is None else bounded.whole(cell), is_complement=bool(flag))
        for query, cell, flag in described
    )


def array_bytes(array: NDArray[Any]) -> bytes:
    """The array in NumPy's own format, without pickle."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def array_of(data: bytes) -> NDArray[Any]:
    """The array in `data`; a `ValueError` if it holds anything but numbers."""
    # NumPy's own reader takes the header for Python, and allocates whatever it claims.
    header = _HEADER.match(data)
    if header is None or header.end() != 10 + int.from_bytes(data[8:10], "little"):
        raise ValueError("an array of 64-bit numbers was expected")
    shape = tuple(int(size) for size in header["shape"].split(b",") if size.strip())
    if 8 * math.prod(shape) != len(data) - header.end():
        raise ValueError("the array is longer or shorter than it says")
    return np.frombuffer(data, header["dtype"].decode(), offset=header.end()).reshape(shape).copy()
