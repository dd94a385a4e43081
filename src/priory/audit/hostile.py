"""Hostile: files whose numbers and sizes lie are opened within bounds, or refused with a sentence."""

import contextlib
import hashlib
import json
import os
import random
import re
import select
import signal
import sqlite3
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from shutil import copyfile
from typing import Any
from unittest.mock import patch

import numpy as np

from priory.app.fit import fit
from priory.app.recipe import public_rows
from priory.audit.findings import Effort, Finding
from priory.audit.tables import USUAL
from priory.data.schema import Schema
from priory.errors import PrioryError
from priory.privacy import book_file, record_file
from priory.privacy.book import Entry, EntryState
from priory.privacy.budget import Budget
from priory.privacy.encoding import array_bytes, array_of
from priory.privacy.ledger import Ledger, Terms, describe
from priory.release import Release, archive
from priory.release.partial import Partial

MOST_BYTES = 500 * 2**20
# A file that is not through by then is taken to hang; processors may be busy with other things.
_LONGEST = 20.0

SCHEMA = """priory: 1
name: audit
person: who
discovered: {currency: zcdp, relation: add-remove, max_rows: 1, epsilon: 0.5, delta: 1e-9, amount: 0.01}
columns:
  who: {kind: id}
  colour: {kind: category, levels: [red, green, blue], other: red}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 18, 65, 99]}, nullable: true}
  smoker: {kind: boolean, nullable: true}
  size: {kind: real, bounds: [0.5, 250.5], bins: 5, spikes: [100], step: 0.5, nullable: true}
  money: {kind: integer, bounds: [1, 5000], bins: {log: 4}, nullable: true}
  month: {kind: date, bounds: [2020-01-01, 2020-12-31], bins: {every: month}, nullable: true}
  grade: {kind: ordinal, levels: [1, 2, 3], nullable: true}
groups: [{by: [grade], values: [[1], [2], [3]]}]
constraints: [{forbid: {age: {below: 18}, smoker: true}}, {order: [age, money]}]
"""
# What stands in the place of each number. A number of JSON and YAML may be written at any length.
_LIES = (
    *("-1", "0", "0.5", "3", "2000000000", "9223372036854775808", "1e4000000000", "-1e-4000000000", "1e308"),
    *("NaN", ".inf", "Infinity", "9" * 5000, "1/0", "1" * 3000 + "/" + "3" * 3000, "null", "", "[[[]]]", "true"),
)
_DEEP = "[" * 100_000 + "]" * 100_000
_SHAPES = ("4000000000,", "9" * 400 + ",", "65536, 65536", "0, " * 60, "-1,", "1, " * 4000, "4000000000, 0", "")
_DTYPES = ("|O", "<i9", ">i8", "<U9", "<f4", "<c16", "[('a','<i8')]")
_NUMBER = re.compile(r"-?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?(?:/[0-9]+)?")

_SECTIONS = frozenset({"statement", "domain", "measurements", "schema"})
# What the JSON of a record is called beside its arrays.
_JSON = "record.json"

# What a file is made of, as it is opened, and everything that its lies can be put into.
Open = Callable[[Path], object]
Lie = tuple[str, Callable[[Path], object]]  # in words, and what writes the file with it


def hostile(effort: Effort) -> Iterator[Finding]:
    """Every number and size of a schema, release, partial file and ledger, replaced by what none should be."""
    if not hasattr(os, "fork"):
        yield Finding("hostile numbers: this system cannot fork", "-", "-", passed=True)
        return
    with tempfile.TemporaryDirectory() as name:
        for kind, (large, lies, opening) in kinds(Path(name)).items():
            chosen = random.Random(0).sample(lies, min(effort.lies, len(lies)))  # noqa: S311 - which lies are told
            yield _finding(kind, opened([*large, *chosen], opening, Path(name)), effort.opening)


def large_things(kind: str) -> Finding:
    """What comes of the large things that a kind of file can hold."""
    with tempfile.TemporaryDirectory() as name:
        large, _, opening = kinds(Path(name))[kind]
        return _finding(kind, opened(large, opening, Path(name)), _LONGEST)


def _finding(kind: str, outcomes: "Sequence[Outcome]", most_seconds: float) -> Finding:
    wrong = [each for each in outcomes if not each.is_within(most_seconds)]
    worst = max(each.seconds for each in outcomes), max(each.size for each in outcomes) / 2**20
    said = f"; {wrong[0].lie}: {wrong[0].end}" if wrong else ""
    figure = f"{len(wrong)} of {len(outcomes)} not refused within bounds, {worst[0]:.2f} s, {worst[1]:.0f} MB{said}"
    limit = f"0, {most_seconds:g} s, {MOST_BYTES / 2**20:g} MB"
    return Finding(f"hostile numbers: {kind}", figure, limit, not wrong)


@dataclass(frozen=True)
class Outcome:
    """What came of opening a file with a lie in it."""

    lie: str
    end: str  # "opened", "refused", or what went wrong
    seconds: float = 0.0  # of the processor
    size: int = 0  # bytes that were added to the most that the process ever had

    def is_within(self, most_seconds: float) -> bool:
        """Whether it was opened or refused, within bounds."""
        return self.end in ("opened", "refused") and self.seconds <= most_seconds and self.size <= MOST_BYTES


def opened(lies: Sequence[Lie], opening: Open, folder: Path) -> list[Outcome]:
    """What comes of each, in processes that may not take more memory; one that dies is followed by another."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(lies):
        outcomes += _in_a_process(lies[len(outcomes) :], opening, folder)
    return outcomes


def _in_a_process(lies: Sequence[Lie], opening: Open, folder: Path) -> Iterator[Outcome]:
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(ours)
            _open_all(lies, opening, folder / "hostile", theirs)
        finally:
            os._exit(0)
    os.close(theirs)
    done = 0
    try:
        with os.fdopen(ours, "r", encoding="utf-8") as lines:
            while done < len(lies) and select.select([lines], [], [], _LONGEST)[0] and (line := lines.readline()):
                end, seconds, size = json.loads(line)
                yield Outcome(lies[done][0], end, seconds, size)
                done += 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if done < len(lies):
        yield Outcome(lies[done][0], "it hung, or its process died", _LONGEST)


def _open_all(lies: Sequence[Lie], opening: Open, path: Path, answers: int) -> None:
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 2**23
    limit = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for _, write_lie in lies:
        path.unlink(missing_ok=True)
        write_lie(path)
        before, start = _most_memory(), time.process_time()
        end = _end_of(opening, path)
        outcome = (end, time.process_time() - start, _most_memory() - before)
        os.write(answers, f"{json.dumps(outcome)}\n".encode())


def _end_of(opening: Open, path: Path) -> str:
    try:
        opening(path)
    except PrioryError:
        return "refused"
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is no sentence
        return f"{type(error).__name__}: {error}"[:200]
    return "opened"


def _most_memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if os.uname().sysname == "Linux" else 1)


def kinds(folder: Path) -> dict[str, tuple[list[Lie], list[Lie], Open]]:
    """The kinds of files, with large things and lies about numbers that can be put into one, and how it is opened."""
    release, partial, book = _made(folder)
    return {
        "schema": (_large_schemas(), _schema_lies(), _open_schema),
        "release": (_large_releases(release), _release_lies(release), _open_release),
        "partial file": (_large_partials(partial), _partial_lies(partial), _open_partial),
        "ledger": (_large_ledgers(book), _ledger_lies(book), _open_ledger),
    }


def _open_schema(path: Path) -> object:
    schema = Schema.load(path)
    return schema.dump(), schema.domain, schema.impossible()


def _open_release(path: Path) -> object:
    release = Release.load(path)
    return str(release), repr(release), release.files()


def _open_partial(path: Path) -> object:
    partial = Partial.load(path)
    return str(partial.release()), public_rows(partial.job), partial.job.workload


def _open_ledger(path: Path) -> object:
    book = Ledger.open(path)
    return describe(book), book.entries(), book.left()


class _Lost(Exception):
    """The end of a run that was to write its release."""


def _made(folder: Path) -> tuple[Path, Path, Path]:
    """A release, the partial file of a run, and the ledger that both were paid from."""
    schema = Schema.parse(SCHEMA)
    row = {"who": "7", **dict(zip(("colour", "age", "smoker"), USUAL, strict=True)), "size": "7.5", "money": "90"}
    table = {name: [value] * 20 for name, value in {**row, "month": "2020-02-02", "grade": "1"}.items()}
    book = Ledger.create(folder / "book.ledger", Terms("audit", schema.dump(), Budget.of(epsilon=8, delta="1e-9")))
    public = {name: list(values) * 2 for name, values in table.items()}
    options: dict[str, Any] = {"epsilon": 1, "delta": "1e-9", "ledger": book, "public": public, "mechanism": "pmw-pub"}
    fit(table, schema, output=folder / "a.priory", **options)

    with patch.object(Release, "save", side_effect=_Lost), contextlib.suppress(_Lost):
        fit(table, schema, output=folder / "b.priory", **options)
    return folder / "a.priory", folder / "b.priory.partial", folder / "book.ledger"


def _writer(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _schema_lies() -> list[Lie]:
    return [
        (f"{lie[:20]!r} for {match[0]!r}", _writer((SCHEMA[: match.start()] + lie + SCHEMA[match.end() :]).encode()))
        for match in _NUMBER.finditer(SCHEMA)
        for lie in (*_LIES, _DEEP)
    ]


def _large_schemas() -> list[Lie]:
    wide = (f"c{i}: {{kind: integer, bounds: [0, 900000], nullable: true}}" for i in range(40))
    narrow = (f"c{i}: {{kind: boolean, nullable: true}}" for i in range(40_000))
    levels = ", ".join(map(str, range(400_000)))
    dates = "a: {kind: integer, bounds: [0, 3000], other: 0}, b: {kind: integer, bounds: [0, 3000], other: 0}"
    texts = {
        "deep": _DEEP,
        "many wide columns": _schema_of(", ".join(wide)),
        "many columns": _schema_of(", ".join(narrow)),
        "many values": f"[a{',a' * 4_000_000}]",
        "a level twice": _schema_of(f"a: {{kind: category, levels: [{levels}, 399999], nullable: true}}"),
        "many large constraints": _schema_of(dates) + f"constraints: [{', '.join(['{order: [a, b]}'] * 1000)}]",
        "aliases of a long list": f"x: &x [{'1, ' * 5000}]\ny: [{'*x, ' * 5000}]",
    }
    return [(words, _writer(text.encode())) for words, text in texts.items()]


def _schema_of(columns: str) -> str:
    return f"priory: 1\nname: a\ncolumns: {{{columns}}}\n"


def _json_lies(text: str) -> Iterator[tuple[str, bytes]]:
    """A JSON text with each of its numbers, and each text that spells one, replaced in turn; the words first."""
    root = json.loads(text)
    for path, value in _leaves(root):
        if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER.fullmatch(value)):
            continue
        mark = "\0lie\0"
        said = json.dumps(_replaced(root, path, mark))
        for lie in (*_LIES, _DEEP):
            words = f"{lie[:20]!r} for {'/'.join(map(str, path))}"
            yield words, said.replace(json.dumps(mark), lie or '""').encode()
            yield f"text {words}", said.replace(json.dumps(mark), json.dumps(lie)).encode()


def _leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:  # noqa: ANN401 - JSON
    """The numbers and texts; of long lists the first ones."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, list):
        for i, value in enumerate(node[:3]):
            yield from _leaves(value, (*path, i))
    elif node is not None:
        yield path, node


def _replaced(node: Any, path: tuple[Any, ...], value: object) -> Any:  # noqa: ANN401 - JSON
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = _replaced(node[path[0]], path[1:], value)
    return copy


def _array_lies(data: bytes) -> Iterator[tuple[str, bytes]]:
    """An array with another header, or with numbers that nothing counts."""
    end = 10 + int.from_bytes(data[8:10], "little")
    for lie in _SHAPES:
        header = re.sub(rb"'shape': \([^)]*\)", f"'shape': ({lie})".encode(), data[10:end])
        yield f"shape {lie[:20]!r}", _array(header, data[end:])
    for lie in _DTYPES:
        yield f"dtype {lie!r}", _array(re.sub(rb"<[if]8", lie.encode(), data[10:end]), data[end:])
    for number in (2**63 - 1, -1, 2_000_000_000):
        one = number.to_bytes(8, "little", signed=True)
        yield f"{number} for all numbers", data[:end] + one * (len(data[end:]) // 8)
        yield f"{number} for the last number", data[:-8] + one


def _array(header: bytes, data: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def _lies_of(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """The lies that a file of a release can tell."""
    if name.endswith(".npy"):
        yield from _array_lies(data)
    elif name.endswith(".json"):
        yield from _json_lies(data.decode())


def _release_lies(path: Path) -> list[Lie]:
    sections = archive.read_archive(path, _SECTIONS)
    return [
        (f"{section}/{name}: {words}", _release_writer(sections, section, {name: said}))
        for section, files in sections.items()
        for name, data in files.items()
        for words, said in _lies_of(name, data)
    ]


def _release_writer(
    sections: Mapping[str, Mapping[str, bytes]], section: str, files: Mapping[str, bytes]
) -> Callable[[Path], object]:
    """Writes a release with other files, and every checksum made anew, as a forger would."""
    changed = {**sections, section: {**sections.get(section, {}), **files}}
    return lambda path: archive.write_archive(path, changed, _SECTIONS)


def _large_releases(path: Path) -> list[Lie]:
    sections = archive.read_archive(path, _SECTIONS)
    numbers = b"[" + b"1000000000000000, " * 3_000_000 + b"1]"
    rows, columns = 2**19, len(json.loads(sections["domain"]["domain.json"])["shape"])
    named = json.loads(sections["model"]["model.json"])["arrays"]
    public = {
        next(file for name, file in named.items() if name.endswith("codes")): np.zeros((rows, columns), dtype=np.int64),
        next(file for name, file in named.items() if name.endswith("shares")): np.ones(rows),
    }
    mapping = b"[" + b"{}," * 20_000_000 + b"1]"
    return [
        ("a section of 4 GiB", lambda copy: _with_zeros(path, copy)),
        ("many numbers", _release_writer(sections, "domain", {"domain.json": numbers})),
        ("many mappings", _release_writer(sections, "domain", {"domain.json": mapping})),
        (
            "many public rows",
            _release_writer(sections, "model", {file: array_bytes(array) for file, array in public.items()}),
        ),
    ]


def _with_zeros(path: Path, copy: Path) -> None:
    """A release with a file of 4 GiB in 4 MB: one block that is packed, again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        manifest = json.loads(old.read(archive.MANIFEST))
        manifest["sections"]["zeros"] = {"required": False}
        manifest["files"]["zeros/0"] = {"size": 2**32 - 2, "sha256": ""}
        described = json.dumps(manifest).encode()
        for name in manifest["files"]:
            new.writestr(name, block * 2**12 if name == "zeros/0" else old.read(name))
        new.writestr(archive.MANIFEST, described)
        zeros = new.getinfo("zeros/0")
        zeros.compress_type, zeros.file_size = zipfile.ZIP_DEFLATED, 2**32 - 2
        new.comment = hashlib.sha256(described).hexdigest().encode()


def _partial_lies(path: Path) -> list[Lie]:
    records = [_unpacked(record) for record in record_file.read_records(path)]
    return [
        (f"record {i}, {name}: {words}", _record_writer([*records[:i], _told(record, name, said), *records[i + 1 :]]))
        for i, record in enumerate(records)
        for name, data in record.items()
        for words, said in _lies_of(name, data)
    ]


def _large_partials(path: Path) -> list[Lie]:
    job, *records = [_unpacked(record) for record in record_file.read_records(path)]
    counts = array_bytes(np.full(len(array_of(job["counts.npy"])), 2_000_000_000))
    spent = json.dumps({"entry": "paid", "spent": "1e4000000000", "arrays": {}}).encode()
    return [
        ("a count of 2,000,000,000 for one row", _record_writer([_told(job, "counts.npy", counts), *records])),
        ("1e4000000000 as a cost", _record_writer([job, {_JSON: spent}])),
    ]


def _unpacked(record: bytes) -> dict[str, bytes]:
    """The JSON of a record, under a name of its own, and its arrays."""
    text, _, data = record.partition(b"\0")
    files, start = {_JSON: text}, 0
    for name, size in json.loads(text)["arrays"].items():
        files[name] = data[start : start + size]
        start += size
    return files


def _told(record: Mapping[str, bytes], name: str, lie: bytes) -> dict[str, bytes]:
    """A record with a lie in it; an array's size is the one that it has."""
    if name == _JSON:
        return {**record, name: lie}
    described = json.loads(record[_JSON])
    described["arrays"][name] = len(lie)
    return {**record, name: lie, _JSON: json.dumps(described).encode()}


def _record_writer(records: Sequence[Mapping[str, bytes]]) -> Callable[[Path], object]:
    def write_records(path: Path) -> None:
        file = record_file.RecordFile.create(path)
        for files in records:
            file.append(files[_JSON] + b"\0" + b"".join(data for name, data in files.items() if name != _JSON))
        file.close()

    return write_records


def _ledger_lies(path: Path) -> list[Lie]:
    """Terms, lines and events that are sealed anew, as whoever has the file can: it holds the key."""
    connection = sqlite3.connect(path)
    [(terms, secret)] = connection.execute("SELECT text, secret FROM terms").fetchall()
    line = connection.execute("SELECT * FROM reservations").fetchone()[:-1]
    [(reservation, number, event)] = connection.execute(
        "SELECT reservation, number, text FROM events LIMIT 1"
    ).fetchall()
    connection.close()

    def sealed(
        table: str, fields: tuple[object, ...], *mark: str, others: tuple[object, ...] = ()
    ) -> Callable[[Path], object]:
        seal = book_file._seal(secret, (*mark, *fields))  # noqa: SLF001 - a forger has it, too
        return lambda copy: _with_row(path, copy, table, (*fields, *others, seal))

    return [
        *(
            (f"terms: {words}", sealed("terms", (said.decode(),), others=(secret,)))
            for words, said in _json_lies(terms)
        ),
        *(
            (f"line, {i}: {lie[:20]!r}", sealed("reservations", (*line[:i], lie, *line[i + 1 :]), "line"))
            for i, value in enumerate(line)
            if isinstance(value, str) and _NUMBER.fullmatch(value)
            for lie in _LIES
        ),
        *(
            (f"event: {words}", sealed("events", (reservation, number, said.decode()), "event"))
            for words, said in _json_lies(event)
        ),
    ]


def _with_row(path: Path, copy: Path, table: str, fields: tuple[object, ...]) -> None:
    copyfile(path, copy)
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as changed:
        if table == "terms":
            changed.execute("DELETE FROM terms")
        places = ", ".join("?" * len(fields))
        changed.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", fields)


def _large_ledgers(path: Path) -> list[Lie]:
    return [
        ("a view without an end", lambda copy: _with_view(path, copy)),
        ("fractions without an end", lambda copy: _with_lines(path, copy)),
    ]


def _with_view(path: Path, copy: Path) -> None:
    copyfile(path, copy)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as changed:
        changed.execute("DROP TABLE head")
        changed.execute(f"CREATE VIEW head AS {endless} SELECT i AS lines, 1 AS events, '' AS seal FROM n")


def _with_lines(path: Path, copy: Path) -> None:
    """Many lines whose charges have no common denominator."""
    book = Ledger.open(copyfile(path, copy))
    with contextlib.closing(book_file.connect(copy)) as connection:
        connection.execute("BEGIN")
        for number in range(len(book.entries()) + 1, 1000):
            charged = Fraction(1, 10**4000 + number)
            entry = Entry(number, "audit", charged, charged, EntryState.SPENT, "", None)
            book_file.insert_line(connection, book.secret, entry)
        connection.execute("COMMIT")
