"""Recorder: what a run was asked and what it was answered so far, in memory and as a file beside its output.

The first record of the file is the job: schema, mechanism, public rows, workload and the statement's facts. Each
further record is an entry of the journal. All of it is public or was paid for; reading it needs neither private data
nor the ledger.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory import bounded
from priory.data.schema import Schema
from priory.data.sources.source import ROW_LIMIT
from priory.errors import OptionError, PrioryError, ReleaseError
from priory.privacy import encoding
from priory.privacy.encoding import array_bytes, array_of
from priory.privacy.functionals import NoisyNumber
from priory.privacy.journal import Answered, Entry, Numbered, Paid, Picked, PublicTotal, Transcript
from priory.privacy.measurement import Measurement
from priory.privacy.outputs import SUFFIX, tried
from priory.privacy.record_file import RESERVE, RecordFile, read_records
from priory.privacy.statement import Statement
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.workload import Workload

Json = dict[str, Any]
# A description of a measurement has no more bytes than this beyond its query: noise, names and brackets.
_BYTES_A_MEASUREMENT = 1024
_BYTES_A_PICK = 64 + encoding.DIGEST
# The arrays of public rows.
_PUBLIC = ("public.npy", "counts.npy")


# The codes of distinct rows, and how many there are of each.
Counted = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Job:
    """What a run was asked to do; all of it is public."""

    schema: Schema
    mechanism: str  # its name
    is_registered: bool  # whether that name is a registered mechanism with its default settings
    by: tuple[tuple[str, ...], ...] | None = None  # the levels of groups within groups
    workload: Workload | None = None  # the workload that was given
    public: Counted | None = None  # the public rows
    effort: str = "normal"  # how much work it may take
    row_limit: int = ROW_LIMIT  # how many rows its source declares


# What a run was asked, what it promises with what was paid until then, and what it was answered.
Recorded = tuple[Job, Statement, Transcript]


class Recorder:
    """The journal of a run: in memory, and in the file `path` where there is an output."""

    def __init__(self, job: Job, file: RecordFile | None = None) -> None:
        self.job = job
        self.path = None if file is None else file.path
        self._file = file
        self._statement: Statement | None = None
        self._entries: list[Entry] = []

    @classmethod
    def beside(cls, output: str | Path | None, job: Job) -> "Recorder":
        """Make the partial file of `output`, if any, where both can be written; an `OptionError` leaves no trace."""
        if output is None:
            return cls(job)
        header = len(_encode_job(job, None, None))
        cells = sum(job.schema.domain.shape)
        left = "once it has ended, make its release with priory estimate, or remove the file"
        # Public rows are in the release again; each attribute is measured at least once, and modelled.
        path = tried({"output": output}, 2 * header + 16 * cells + 2 * RESERVE, left=left)["output"]
        try:
            file = RecordFile.create(path)
            try:
                file.make_room(header + _BYTES_A_MEASUREMENT * 8)
            except BaseException:
                file.remove()
                raise
        except OSError as error:
            raise OptionError("output", f"{path} cannot be written: {error.strerror}") from None
        return cls(job, file)

    @property
    def recorded(self) -> Recorded | None:
        """What the run was asked, promises and was answered; None where nothing was answered."""
        transcript = Transcript(tuple(self._entries))
        if self._statement is None or not transcript.holds_results:
            return None
        return _so_far(self.job, self._statement, transcript)

    def begin(self, statement: Statement, entry: int, row_limit: int = ROW_LIMIT) -> None:
        """Write the job, the facts of its statement and its line in the ledger, before anything is looked at."""
        self._statement = statement
        self.job = replace(self.job, row_limit=row_limit)
        self._append(lambda: _encode_job(self.job, statement, entry))

    def make_room(self, queries: Sequence[Query], draws: int = 0) -> None:
        if self._file is None:
            return
        try:
            self._file.make_room(_size_in_bytes(queries) + _BYTES_A_PICK * draws + _BYTES_A_MEASUREMENT)
        except OSError as error:
            raise ReleaseError(f"{self.path} cannot grow: {error.strerror}; nothing more was looked at") from None

    def write(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._append(lambda: _encode_entry(entry))

    def remove(self) -> None:
        """Remove the file: nothing in it is needed any more."""
        if self._file is not None:
            self._file.remove()

    def leave(self) -> Path | None:
        """Leave the file where it is if it holds results, and say where that is; remove it otherwise."""
        if self._file is None:
            return None
        self._file.close()
        try:
            if read_recorded(self._file.path)[2].holds_results:
                return self.path
        except ReleaseError:
            # Before its first record there is nothing to keep; what cannot be read is left for people to look at.
            if self._entries:
                return self.path
        self._file.remove()
        return None

    def how_to_go_on(self, path: Path) -> str:
        """What whoever reads of an early end can do with the file that it left."""
        output = path.with_name(path.name.removesuffix(SUFFIX))
        command = f"priory estimate {shlex.quote(str(path))} -o {shlex.quote(str(output))}"
        return f"What it measured is in {path}; make the release with: {command}"

    def _append(self, payload: Callable[[], bytes]) -> None:
        if self._file is None:
            return
        try:
            self._file.append(payload())
        except OSError as error:
            raise ReleaseError(f"{self.path} cannot be written: {error.strerror}") from None


def read_recorded(path: str | Path) -> Recorded:
    """What is in the partial file of a run; a record that was cut off at its end is left out."""
    header, *records = read_records(path) or [b""]
    if not header:
        raise ReleaseError(f"{path} holds nothing yet: its run ended before the first look, and spent nothing")
    try:
        job, statement = _decode_job(header)
        transcript = Transcript(tuple(_decode_entry(record, job.schema.domain) for record in records))
    except (PrioryError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        raise ReleaseError(f"{path} is damaged: its records do not fit together") from None
    return _so_far(job, statement, transcript)


def _so_far(job: Job, statement: Statement, transcript: Transcript) -> Recorded:
    return job, replace(statement.about(job.schema), spent=transcript.spent), transcript


def _size_in_bytes(queries: Sequence[Query]) -> int:
    arrays: dict[str, bytes] = {}
    described = [encoding.encode_query(query, str(number), arrays) for number, query in enumerate(queries)]
    parts = len(json.dumps(described)) + sum(_BYTES_A_MEASUREMENT + len(data) for data in arrays.values())
    return parts + sum(8 * query.rows + _BYTES_A_MEASUREMENT for query in queries)


def _packed(described: Json, arrays: Mapping[str, bytes]) -> bytes:
    """JSON with the sizes of the arrays, a zero byte, and the arrays one after the other."""
    sizes = {name: len(data) for name, data in arrays.items()}
    text = json.dumps({**described, "arrays": sizes}, ensure_ascii=True, allow_nan=False)
    return b"\0".join([text.encode(), b"".join(arrays.values())])


def _unpacked(payload: bytes) -> tuple[Json, dict[str, bytes]]:
    text, _, data = payload.partition(b"\0")
    described: Json = bounded.json_of(text)
    arrays: dict[str, bytes] = {}
    start = 0
    for name, size in described["arrays"].items():
        bounded.whole(size, most=len(data) - start)
        arrays[name] = data[start : start + size]
        start += size
    return described, arrays


def _encode_job(job: Job, statement: Statement | None, entry: int | None) -> bytes:
    arrays: dict[str, bytes] = {}
    workload = None
    if job.workload is not None:
        queries = [encoding.encode_query(query, f"workload.{i}", arrays) for i, query in enumerate(job.workload)]
        workload = {"queries": queries, "weights": list(job.workload.weights)}
    if job.public is not None:
        arrays |= zip(_PUBLIC, map(array_bytes, job.public), strict=True)
    asked = {"schema": job.schema.dump(), "mechanism": job.mechanism, "is_registered": job.is_registered, "by": job.by}
    asked |= {"effort": job.effort, "row_limit": job.row_limit}
    promised = None if statement is None else encoding.encode_statement(statement)
    return _packed({**asked, "workload": workload, "statement": promised, "entry": entry}, arrays)


def _decode_job(payload: bytes) -> tuple[Job, Statement]:
    described, arrays = _unpacked(payload)
    schema = Schema.parse(described["schema"])
    workload, by = described["workload"], described["by"]
    queries = [encoding.decode_query(each, arrays, schema.domain) for each in (workload or {"queries": ()})["queries"]]
    public = None
    if _PUBLIC[0] in arrays:
        rows, counts = (array_of(arrays[name]) for name in _PUBLIC)
        public = rows, counts
    job = Job(
        schema=schema,
        mechanism=str(described["mechanism"]),
        is_registered=described["is_registered"] is True,
        by=None if by is None else tuple(tuple(map(str, level)) for level in by),
        workload=None if workload is None else Workload.of(queries, workload["weights"]),
        public=public,
        # Older files do not say.
        effort=bounded.text(described.get("effort", "normal")),
        row_limit=bounded.whole(described.get("row_limit", ROW_LIMIT)),
    )
    return job, encoding.decode_statement(described["statement"])


def _encode_entry(entry: Entry) -> bytes:
    match entry:
        case PublicTotal():
            return _packed({"entry": "total", "total": entry.total}, {})
        case Paid():
            return _packed({"entry": "paid", "spent": str(entry.spent)}, {})
        case Picked():
            picks = [[pick.query, pick.cell, int(pick.is_complement)] for pick in entry.picks]
            share, queries = str(entry.share), list(entry.queries)
            return _packed({"entry": "picks", "picks": picks, "share": share, "queries": queries}, {})
        case Answered():
            described, arrays = encoding.encode_measurements(entry.measurements)
            return _packed({"entry": "answers", "measurements": described}, arrays)
        case Numbered():
            # In the form that files hold: the answer to the query of no attributes.
            number = entry.number
            measured = Measurement(Query(Domain((), ()), ()), np.array(number.value), number.stddev, number.noise)
            described, arrays = encoding.encode_measurements([measured])
            return _packed({"entry": "number", "measurements": described}, arrays)


def _decode_entry(payload: bytes, domain: Domain) -> Entry:
    described, arrays = _unpacked(payload)
    match described["entry"]:
        case "total":
            return PublicTotal(bounded.whole(described["total"]))
        case "paid":
            return Paid(bounded.amount(described["spent"]))
        case "picks":
            queries = tuple(map(bounded.text, described.get("queries", ())))
            return Picked(encoding.decode_picks(described["picks"]), bounded.amount(described["share"]), queries)
        case "answers":
            return Answered(encoding.decode_measurements(described["measurements"], arrays, domain))
        case "number":
            [number] = encoding.decode_measurements(described["measurements"], arrays, domain)
            if number.noise is None:
                raise ValueError("a number without its noise")
            return Numbered(NoisyNumber(float(number.values), float(number.stddev), number.noise))
        case _:
            raise ValueError("an unknown entry")
