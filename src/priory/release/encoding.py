"""Encoding: measurements, statements and how a model was estimated, as JSON and arrays, and back."""

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from priory.domain import Domain
from priory.model.diagnostics import Diagnostics, PathPoint, ScheduledLevel
from priory.privacy.budget import Budget, positive
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Gaussian, Laplace, Noise, RoundedGaussian
from priory.privacy.statement import KEPT, UNKNOWN_RANDOMNESS, Statement
from priory.queries.parts import Identity, Matrix, Mean, Moments, Part, Point, Prefix, Range, Recode, Set, Total
from priory.queries.query import Query
from priory.release.archive import array_bytes, array_of

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
        described.append(
            {
                **encode_query(measurement.query, str(number), arrays),
                "values": values,
                "stddev": stddev,
                "noise": None if measurement.noise is None else _encode_noise(measurement.noise),
            }
        )
    return described, arrays


def decode_measurements(
    described: Sequence[Json], arrays: Mapping[str, bytes], domain: Domain
) -> tuple[Measurement, ...]:
    """The measurements again, checked."""
    return tuple(_decode_measurement(each, arrays, domain) for each in described)


def encode_query(query: Query, name: str, arrays: dict[str, bytes]) -> Json:
    """A description of a query; its arrays are added to `arrays` under names that begin with `name`."""
    parts = [_encode_part(part, f"{name}.{i}.npy", arrays) for i, part in enumerate(query.parts)]
    return {"clique": list(query.clique), "parts": parts}


def decode_query(described: Json, arrays: Mapping[str, bytes], domain: Domain) -> Query:
    """The query again, checked."""
    parts = [_decode_part(part, arrays) for part in described["parts"]]
    return Query.product(domain, dict(zip(described["clique"], parts, strict=True)))


def _decode_measurement(described: Json, arrays: Mapping[str, bytes], domain: Domain) -> Measurement:
    query = decode_query(described, arrays, domain)
    noise, stddev = described["noise"], described["stddev"]
    return Measurement.of(
        query,
        array_of(arrays[described["values"]]),
        array_of(arrays[stddev]) if isinstance(stddev, str) else float(stddev),
        None if noise is None else _decode_noise(noise),
    )


def _encode_noise(noise: Noise) -> Json:
    described: Json = {"kind": noise.kind, "scale": str(noise.scale)}
    return described | {"bits": noise.bits} if isinstance(noise, RoundedGaussian) else described


def _decode_noise(described: Json) -> Noise:
    scale = _amount(described["scale"])
    if described["kind"] == RoundedGaussian.kind:
        return RoundedGaussian(scale, int(described["bits"]))
    return _NOISES[described["kind"]](scale)


def _encode_part(part: Part, name: str, arrays: dict[str, bytes]) -> Json:
    if isinstance(part, Matrix):
        arrays[name] = array_bytes(part.entries)
        return {"part": "matrix", "entries": name}
    kind = _NAMES[type(part)]
    return {"part": kind} | {field: getattr(part, field) for field in _PARTS[kind][1]}


def _decode_part(described: Json, arrays: Mapping[str, bytes]) -> Part:
    if described["part"] == "matrix":
        return Matrix(array_of(arrays[described["entries"]]))
    kind, fields = _PARTS[described["part"]]
    return kind(*(described[field] for field in fields))


def plain(values: Any) -> Any:  # noqa: ANN401 - an array of either kind
    """The numbers in 64 bits, as files hold them."""
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)


def encode_statement(statement: Statement) -> Json:
    """Every field, fractions as text."""
    return {
        "is_private": statement.is_private,
        "words": list(statement.lines),
        "mechanism": statement.mechanism,
        "budget": statement.budget.encoded(),
        "spent": str(statement.spent),
        "unit": statement.unit,
        "dataset": statement.dataset,
        "ledger": statement.ledger,
        "version": statement.version,
        "randomness": statement.randomness,
        "randomness_version": statement.randomness_version,
        "discovered": None if statement.discovered is None else statement.discovered.encoded(),
    }


def decode_statement(described: Json) -> Statement:
    """The statement again."""
    return Statement(
        mechanism=_text(described["mechanism"]),
        budget=Budget.decoded(described["budget"], _amount),
        spent=_amount(described["spent"]),
        unit=_text(described["unit"]),
        dataset=_text(described["dataset"]),
        ledger=_one_of(described["ledger"], KEPT),
        is_private=described["is_private"] is True,
        version=_text(described["version"]),
        randomness=_text(described.get("randomness", UNKNOWN_RANDOMNESS)),
        randomness_version=_text(described.get("randomness_version", "")),
        discovered=None if not described.get("discovered") else Budget.decoded(described["discovered"], _amount),
    )


def encode_steps(diagnostics: Diagnostics | None) -> Json | None:
    """What of the diagnostics is needed to repeat an estimate and to say how it was made."""
    if diagnostics is None:
        return None
    return {
        "solver": diagnostics.solver,
        "stop": diagnostics.stop,
        "reason": diagnostics.reason,
        "has_converged": diagnostics.has_converged,
        "estimated_error": diagnostics.estimated_error if math.isfinite(diagnostics.estimated_error) else None,
        "oracle_calls": diagnostics.oracle_calls,
        "total_stddev": diagnostics.total_stddev,
        "notes": list(diagnostics.notes),
        "schedule": [
            [list(step.members), list(step.temperatures), step.is_implied, step.share] for step in diagnostics.schedule
        ],
        "freedom": diagnostics.degrees_of_freedom if math.isfinite(diagnostics.degrees_of_freedom) else None,
        "path": [_encode_point(point) for point in diagnostics.path],
    }


def decode_steps(described: Json | None) -> Diagnostics | None:
    """The diagnostics again."""
    if described is None:
        return None
    error, freedom = described["estimated_error"], described.get("freedom")
    return Diagnostics(
        solver=_text(described["solver"]),
        stop=_text(described["stop"]),
        reason=_text(described["reason"]),
        has_converged=described["has_converged"] is True,
        path=tuple(_decode_point(point) for point in described.get("path", ())),
        estimated_error=math.nan if error is None else float(error),
        oracle_calls=int(described["oracle_calls"]),
        total_stddev=float(described["total_stddev"]),
        notes=tuple(map(_text, described["notes"])),
        schedule=tuple(
            ScheduledLevel(tuple(map(int, members)), tuple(map(float, steps)), implied is True, float(share))
            for members, steps, implied, share in described["schedule"]
        ),
        degrees_of_freedom=math.nan if freedom is None else float(freedom),
    )


def _encode_point(point: PathPoint) -> list[float | None]:
    numbers = (point.loss, point.discrepancy, point.error, point.temperature)
    known = [number if math.isfinite(number) else None for number in numbers]
    return [point.level, point.step, point.calls, *known, int(point.is_chosen)]


def _decode_point(described: Sequence[float | None]) -> PathPoint:
    numbers = [math.nan if number is None else float(number) for number in described]
    level, step, calls, loss, discrepancy, error, temperature, chosen = numbers
    return PathPoint(int(level), int(step), int(calls), loss, discrepancy, error, temperature, chosen == 1)


def _amount(value: str) -> Fraction:
    """A fraction that a file may hold: 0, or one that a budget could be."""
    return Fraction(0) if value == "0" else positive("amount", _text(value))


def _text(value: str) -> str:
    """A text that can be printed and written again."""
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    value.encode()
    return value


def _one_of(value: str, known: Collection[str]) -> str:
    if value not in known:
        raise ValueError("another word was expected")
    return value
