"""Parts: what some releases hold beyond measurements and a statement, and the files that each part is stored in.

Bytes are made when a release is saved and read when one is loaded, nowhere else.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from priory import bounded
from priory.errors import ReleaseError
from priory.model.diagnostics import Diagnostics, PathPoint, ScheduledLevel
from priory.model.model import Model
from priory.model.store import from_arrays, to_arrays
from priory.privacy.encoding import array_bytes, array_of, decode_picks, plain
from priory.privacy.scores import Pick
from priory.release import archive


@dataclass(frozen=True)
class PublicCheck:
    """What a look at the private table says of public rows."""

    error: float  # the largest error over the workload that reweighing cannot repair, as a share of all rows
    stddev: float  # of its noise
    kind: Literal["exact", "floor"]  # "exact", or "floor" for a bound from below that is usually close

    def __str__(self) -> str:
        least = "at least " if self.kind == "floor" else ""
        return f"error that reweighing public rows cannot repair: {least}{max(self.error, 0):.4f} ± {self.stddev:.4f}"


@dataclass(frozen=True)
class Round:
    """A round of DualQuery's game: queries were sampled, and a record was found that avoids them."""

    # the sampled queries, by their number in the workload; a complement counts the rows its query does not
    picks: tuple[Pick, ...]
    row: tuple[int, ...]  # the record, one code for each attribute
    sharpness: float  # the picks were drawn with chances ∝ exp(sharpness·payoff); 0 where all were alike


@dataclass(frozen=True)
class StoredPart:
    """How a part of a release is stored."""

    field: str  # of `Release`, that holds it; None or nothing in it where a release has no such part
    encode: Callable[[Any], archive.Files]  # the part as the files of its section
    # The part again; raises `ReleaseError`, `KeyError`, `TypeError` or `ValueError` on damaged files.
    decode: Callable[[archive.Files], Any]


def _encode_model(model: Model) -> archive.Files:
    """A model with the public rows that it starts from."""
    meta, arrays = to_arrays(model, embed_public_rows=True)
    names = {name: f"{number}.npy" for number, name in enumerate(arrays)}
    files = {names[name]: array_bytes(plain(array)) for name, array in arrays.items()}
    described = {"model": meta, "arrays": names, "steps": _encode_steps(model.diagnostics)}
    return {"model.json": archive.json_bytes(described), **files}


def _decode_model(files: archive.Files) -> Model:
    try:
        described = bounded.json_of(files["model.json"])
        left = dict(files)
        arrays = {name: array_of(left.pop(file)) for name, file in described["arrays"].items()}
        diagnostics = _decode_steps(described.get("steps"))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise ReleaseError("the stored model is damaged: its files do not fit together") from None
    model = from_arrays(described["model"], arrays)
    if not isinstance(model, Model):
        raise ReleaseError("the stored model is damaged: it is only the base of one")
    return replace(model, diagnostics=diagnostics)


def _encode_steps(diagnostics: Diagnostics | None) -> dict[str, Any] | None:
    """What of the diagnostics is needed to repeat an estimate and to say how it was made."""
    if diagnostics is None:
        return None
    return {
        **{name: getattr(diagnostics, name) for name in ("solver", "stop", "reason", "has_converged")},
        "estimated_error": _or_none(diagnostics.estimated_error),
        "oracle_calls": diagnostics.oracle_calls,
        "total_stddev": diagnostics.total_stddev,
        "notes": list(diagnostics.notes),
        "schedule": [[list(s.members), list(s.temperatures), s.is_implied, s.share] for s in diagnostics.schedule],
        "freedom": _or_none(diagnostics.degrees_of_freedom),
        "path": [
            [point.level, point.step, point.calls, *map(_or_none, numbers), int(point.is_chosen)]
            for point in diagnostics.path
            for numbers in [(point.loss, point.discrepancy, point.error, point.temperature)]
        ],
    }


def _decode_steps(described: dict[str, Any] | None) -> Diagnostics | None:
    if described is None:
        return None
    return Diagnostics(
        solver=bounded.text(described["solver"]),
        stop=bounded.text(described["stop"]),
        reason=bounded.text(described["reason"]),
        has_converged=described["has_converged"] is True,
        path=tuple(map(_decode_point, described.get("path", ()))),
        estimated_error=_or_nan(described["estimated_error"]),
        oracle_calls=bounded.whole(described["oracle_calls"]),
        total_stddev=bounded.number(described["total_stddev"]),
        notes=tuple(map(bounded.text, described["notes"])),
        schedule=tuple(
            ScheduledLevel(tuple(map(int, members)), tuple(map(float, steps)), implied is True, float(share))
            for members, steps, implied, share in described["schedule"]
        ),
        degrees_of_freedom=_or_nan(described.get("freedom")),
    )


def _decode_point(described: Sequence[float | None]) -> PathPoint:
    level, step, calls, loss, discrepancy, error, temperature, chosen = map(_or_nan, described)
    return PathPoint(int(level), int(step), int(calls), loss, discrepancy, error, temperature, chosen == 1)


def _or_none(number: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return number if math.isfinite(number) else None


def _or_nan(number: float | None) -> float:
    return math.nan if number is None else float(number)


def _decode_check(described: dict[str, Any]) -> PublicCheck:
    kind: Literal["exact", "floor"] = "floor" if described["kind"] == "floor" else "exact"
    return PublicCheck(bounded.number(described["error"]), bounded.number(described["stddev"]), kind)


def _encode_rounds(rounds: Sequence[Round]) -> archive.Files:
    described = []
    for played in rounds:
        picks = [[pick.query, pick.cell, int(pick.is_complement)] for pick in played.picks]
        described.append({"picks": picks, "row": list(played.row), "sharpness": played.sharpness})
    return {"rounds.json": archive.json_bytes(described)}


def _decode_rounds(files: archive.Files) -> tuple[Round, ...]:
    rounds = []
    for played in bounded.json_of(files["rounds.json"]):
        row = tuple(map(bounded.whole, played["row"]))
        rounds.append(Round(decode_picks(played["picks"]), row, bounded.number(played["sharpness"])))
    return tuple(rounds)


# The optional sections of a file that this version reads, by name.
PARTS: dict[str, StoredPart] = {
    "model": StoredPart("estimate", _encode_model, _decode_model),
    "public_check": StoredPart(
        "public_check",
        lambda check: {"public_check.json": archive.json_bytes(asdict(check))},
        lambda files: _decode_check(bounded.json_of(files["public_check.json"])),
    ),
    "dualquery": StoredPart("rounds", _encode_rounds, _decode_rounds),
}
