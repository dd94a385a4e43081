"""Hostile: files whose numbers and sizes lie are opened within bounds, or refused with a sentence."""

import json
import os
import random
import re
import resource
import select
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any, cast
from unittest.mock import patch

from priory.app.fit import fit
from priory.app.recipe import public_rows
from priory.audit.findings import Effort, Finding
from priory.audit.tables import USUAL, columns, write
from priory.data.schema import Schema
from priory.errors import PrioryError
from priory.privacy import book_file, record_file
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger, Terms, describe
from priory.release import Release, archive
from priory.release.partial import Partial

MOST_SECONDS, MOST_BYTES = 2.0, 500 * 2**20
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

# What a file is made of, as it is opened, and everything that its lies can be put into.
Open = Callable[[Path], object]
Lie = tuple[str, Callable[[Path], object]]  # in words, and what writes the file with it


def hostile(effort: Effort) -> Iterator[Finding]:
    """Every number and size of a schema, release, partial file and ledger, replaced by what none should be."""
    if not hasattr(os, "fork"):
        yield Finding("hostile numbers: this system cannot fork", "-", "-", passed=True)
        return
    with tempfile.TemporaryDirectory() as name:
        for kind, (lies, opening) in kinds(Path(name)).items():
            chosen = random.Random(0).sample(lies, min(effort.lies, len(lies)))  # noqa: S311 - which lies are told
            yield _finding(kind, opened(chosen, opening, Path(name)))


def _finding(kind: str, outcomes: "Sequence[Outcome]") -> Finding:
    wrong = [each for each in outcomes if not each.is_good]
    worst = max(each.seconds for each in outcomes), max(each.size for each in outcomes) / 2**20
    said = f"; {wrong[0].lie}: {wrong[0].end}" if wrong else ""
    figure = f"{len(wrong)} of {len(outcomes)} not refused within bounds, {worst[0]:.2f} s, {worst[1]:.0f} MB{said}"
    limit = f"0, {MOST_SECONDS:g} s, {MOST_BYTES / 2**20:g} MB"
    return Finding(f"hostile numbers: {kind}", figure, limit, not wrong)


@dataclass(frozen=True)
class Outcome:
    """What came of opening a file with a lie in it."""

    lie: str
    end: str  # "opened", "refused", or what went wrong
    seconds: float = 0.0  # of the processor
    size: int = 0  # bytes that were added to the most that the process ever had

    @property
    def is_good(self) -> bool:
        """Whether it was opened or refused, within bounds."""
        return self.end in ("opened", "refused") and self.seconds <= MOST_SECONDS and self.size <= MOST_BYTES


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
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if os.uname().sysname == "Linux" else 1)


def kinds(folder: Path) -> dict[str, tuple[list[Lie], Open]]:
    """The kinds of files, with all that can be put into one, and how it is opened."""
    release, partial, book = _made(folder)
    return {
        "schema": (_schema_lies(SCHEMA), _open_schema),
        "release": (_release_lies(release), _open_release),
        "partial file": (_partial_lies(partial), _open_partial),
        "ledger": (_ledger_lies(book), _open_ledger),
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
    options: dict[str, Any] = {"epsilon": 1, "delta": "1e-9", "ledger": book, "public": table, "mechanism": "pmw-pub"}
    fit(table, schema, output=folder / "a.priory", **options)

    def lose(*_: object) -> None:
        raise _Lost

    with patch.object(Release, "save", lose):
        try:
            fit(table, schema, output=folder / "b.priory", **options)
        except _Lost:
            pass
    return folder / "a.priory", folder / "b.priory.partial", folder / "book.ledger"


def _schema_lies(text: str) -> list[Lie]:
    found: list[Lie] = []
    for match in _NUMBER.finditer(text):
        for lie in (*_LIES, _DEEP):
            said = text[: match.start()] + lie + text[match.end() :]
            found.append((f"{lie[:20]!r} for {match[0]!r}", _writer(said.encode())))
    wide = ", ".join(f"c{i}: {{kind: integer, bounds: [0, 900000], nullable: true}}" for i in range(40))
    return [
        *found,
        ("many wide columns", _writer(f"priory: 1\nname: a\ncolumns: {{{wide}}}\n".encode())),
        ("many values", _writer(b"priory: 1\nname: a\ncolumns: [a" + b",a" * 8_000_000 + b"]\n")),
        ("deep", _writer(_DEEP.encode())),
        (
            "aliases of long lists",
            _writer(text.encode() + b"x: &x [" + b"1, " * 5000 + b"]\ny: [" + b"*x, " * 5000 + b"]\n"),
        ),
    ]


def _writer(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _json_lies(text: str) -> Iterator[tuple[str, str]]:
    """A JSON text with each of its numbers, and each text that spells one, replaced in turn; the words first."""
    root = json.loads(text)
    for path, value in _leaves(root):
        if isinstance(value, bool) or (isinstance(value, str) and not _NUMBER.fullmatch(value)):
            continue
        mark = "\0lie\0"
        said = json.dumps(_replaced(root, path, mark))
        for lie in (*_LIES, _DEEP):
            words = f"{lie[:20]!r} for {'/'.join(map(str, path))}"
            yield words, said.replace(json.dumps(mark), lie or '""')
            yield f"text {words}", said.replace(json.dumps(mark), json.dumps(lie))


def _leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:  # noqa: ANN401 - JSON
    """The numbers and texts; of a list of numbers only the first."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, list):
        first = [i for i, value in enumerate(node) if i == 0 or isinstance(value, list | dict)]
        for i in first[:3]:
            yield from _leaves(node[i], (*path, i))
    elif isinstance(node, int | float | str):
        yield path, node


def _replaced(node: Any, path: tuple[Any, ...], value: object) -> Any:  # noqa: ANN401 - JSON
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = _replaced(node[path[0]], path[1:], value)
    return copy


def _array_lies(data: bytes) -> Iterator[tuple[str, bytes]]:
    """An array with another header, or numbers that none has."""
    end = 10 + int.from_bytes(data[8:10], "little")
    shape = re.compile(rb"'shape': \([^)]*\)")
    for lie in _SHAPES:
        yield f"shape {lie[:20]!r}", _with_header(shape.sub(f"'shape': ({lie})".encode(), data[10:end]), data[end:])
    for lie in _DTYPES:
        header = data[10:end].replace(b"<f8", lie.encode()).replace(b"<i8", lie.encode())
        yield f"dtype {lie!r}", _with_header(header, data[end:])
    for number, lie in ((b"\xff" * 7 + b"\x7f", "largest"), (b"\xff" * 8, "-1 or nan"), (b"\0\x94\x35\x77" + bytes(4), "2e9")):
        yield f"{lie} numbers", data[:end] + number * (len(data[end:]) // 8)
        yield f"{lie} for the last number", data[:-8] + number


def _with_header(header: bytes, data: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def _release_lies(path: Path) -> list[Lie]:
    sections = archive.read_archive(path, frozenset({"statement", "domain", "measurements", "schema"}))

    def with_file(section: str, name: str, data: bytes) -> Callable[[Path], object]:
        changed = {**sections, section: {**sections[section], name: data}}
        return lambda path: archive.write_archive(path, changed, frozenset({"statement", "domain", "measurements"}))

    found: list[Lie] = []
    for section, files in sections.items():
        for name, data in files.items():
            lies: Iterator[tuple[str, bytes]] = iter(())
            if name.endswith(".npy"):
                lies = _array_lies(data)
            elif name.endswith(".json"):
                lies = ((words, said.encode()) for words, said in _json_lies(data.decode()))
            found += [(f"{section}/{name}: {words}", with_file(section, name, said)) for words, said in lies]
    return [*found, ("a large section", with_file("statement", "zeros", b"\0" * 2**30 if False else b"")), *_big(sections)]


def _big(sections: Mapping[str, Mapping[str, bytes]]) -> list[Lie]:
    return []


def _partial_lies(path: Path) -> list[Lie]:
    records = record_file.read_records(path)
    found: list[Lie] = []
    for i, record in enumerate(records):
        text, _, data = record.partition(b"\0")
        said = [(f"record {i}: {words}", lie.encode() + b"\0" + data) for words, lie in _json_lies(text.decode())]
        start = 0
        for name, size in json.loads(text)["arrays"].items():
            array, rest = data[start : start + size], data[start + size :]
            for words, lie in _array_lies(array):
                sizes = json.loads(text)
                sizes["arrays"][name] = len(lie)
                said.append((f"record {i}, {name}: {words}", json.dumps(sizes).encode() + b"\0" + data[:start] + lie + rest))
            start += size
        found += [(words, _record_writer([*records[:i], lie, *records[i + 1 :]])) for words, lie in said]
    return found


def _record_writer(records: Sequence[bytes]) -> Callable[[Path], object]:
    def write_records(path: Path) -> None:
        file = record_file.RecordFile.create(path)
        for record in records:
            file.append(record)
        file.close()

    return write_records


def _ledger_lies(path: Path) -> list[Lie]:
    """Terms, lines and events that are sealed anew, as whoever has the file can: it holds the key."""
    connection = sqlite3.connect(path)
    [(text, secret)] = connection.execute("SELECT text, secret FROM terms").fetchall()
    lines = connection.execute("SELECT * FROM reservations").fetchall()
    events = connection.execute("SELECT * FROM events").fetchall()
    connection.close()
    seal = book_file._seal  # noqa: SLF001 - a forger has it, too

    def with_change(sql: str, values: tuple[Any, ...]) -> Callable[[Path], object]:
        def change(copy: Path) -> None:
            copyfile(path, copy)
            changed = sqlite3.connect(copy, isolation_level=None)
            changed.execute(sql, values)
            changed.close()

        return change

    found: list[Lie] = []
    for words, said in _json_lies(text):
        sealed = (said, seal(secret, (said,)))
        found.append((f"terms: {words}", with_change("UPDATE terms SET text = ?, seal = ?", sealed)))
    for number, *_ in lines[:1]:
        for i, value in enumerate(lines[0][:-1]):
            if i and isinstance(value, str) and _NUMBER.fullmatch(value):
                for lie in _LIES:
                    fields = (*lines[0][:i], lie, *lines[0][i + 1 : -1])
                    sealed = (*fields, seal(secret, ("line", *fields)))
                    sql = f"INSERT OR REPLACE INTO reservations VALUES ({', '.join('?' * len(sealed))})"
                    found.append((f"line {number}, {i}: {lie[:20]!r}", with_change(sql, sealed)))
    for reservation, number, said, _ in events[:2]:
        for words, lie in _json_lies(said):
            fields = (reservation, number, lie)
            sealed = (*fields, seal(secret, ("event", *fields)))
            found.append((f"event: {words}", with_change("INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?)", sealed)))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS lines, 1 AS events, '' AS seal FROM n"
    return [*found, ("a view without an end", lambda copy: _with_view(path, copy, endless))]


def _with_view(path: Path, copy: Path, endless: str) -> None:
    copyfile(path, copy)
    changed = sqlite3.connect(copy, isolation_level=None)
    changed.execute("DROP TABLE head")
    changed.execute(f"CREATE VIEW head AS {endless}")
    changed.close()
