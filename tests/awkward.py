"""Awkward files: public tables as people have them, one trap each and mixtures of traps, made from a seed."""

import datetime as dt
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from priory.data.dialect import USUAL, Dialect

SEED = 20260
ROWS = 60
Cells = list[str]
Make = Callable[[np.random.Generator, int], Cells]


@dataclass(frozen=True)
class Trap:
    """A column that is easily read wrongly.

    Attributes:
        make: its cells, of so many rows.
        kind: what it has to be drafted as.
        declared: words that its entry in the schema has to have.
    """

    make: Make
    kind: str
    declared: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class AwkwardFile:
    """A file with awkward columns.

    Attributes:
        name: the file's name.
        data: what is in it.
        columns: how many columns it has.
        kinds: what each column has to be drafted as, by the name that it has in the schema.
        declared: words that the entry of a column has to have.
        reading: what the person says of the file.
    """

    name: str
    data: bytes
    columns: int
    kinds: dict[str, str] = field(default_factory=dict)
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reading: Dialect = USUAL


def days(rng: np.random.Generator, n: int) -> list[dt.datetime]:
    return [dt.datetime(2023, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 500, n)]


def moments(rng: np.random.Generator, n: int) -> list[dt.datetime]:
    return [day + dt.timedelta(seconds=int(rng.integers(1, 86_400))) for day in days(rng, n)]


def written(form: str, values: Callable[[np.random.Generator, int], list[dt.datetime]] = days) -> Make:
    return lambda rng, n: [value.strftime(form) for value in values(rng, n)]


def among(*texts: str, p: list[float] | None = None) -> Make:
    return lambda rng, n: [*texts[:n], *rng.choice(texts, max(n - len(texts), 0), p=p).tolist()]


def numbers(form: str, low: float = 0, high: float = 5000) -> Make:
    return lambda rng, n: [form.format(value) for value in rng.uniform(low, high, n)]


def integers(form: str, low: int, high: int) -> Make:
    return lambda rng, n: [form.format(value) for value in rng.integers(low, high, n)]


def swapped(make: Make) -> Make:
    return lambda rng, n: [cell.translate(str.maketrans(",.", ".,")) for cell in make(rng, n)]


def with_some(make: Make, *tokens: str, every: int = 7) -> Make:
    return lambda rng, n: [
        tokens[i // every % len(tokens)] if i % every == 3 else c for i, c in enumerate(make(rng, n))
    ]


def skewed_texts(rng: np.random.Generator, n: int) -> Cells:
    return [f"place {int(value)}" for value in rng.zipf(1.5, n * 50) % 1000][:n]


def negatives(rng: np.random.Generator, n: int) -> Cells:
    return [f"({-value:,.2f})" if value < 0 else f"{value:,.2f}" for value in rng.uniform(-3000, 3000, n)]


NUMBERS = integers("{}", 0, 50)
TRAPS: dict[str, Trap] = {
    # Moments.
    "iso date": Trap(written("%Y-%m-%d"), "date", ("every: month",)),
    "offset": Trap(written("%Y-%m-%dT%H:%M:%S+02:00", moments), "datetime"),
    "zulu": Trap(written("%Y-%m-%dT%H:%M:%SZ", moments), "datetime"),
    "named zone": Trap(written("%Y-%m-%d %H:%M:%S UTC", moments), "datetime"),
    "fraction": Trap(written("%Y-%m-%d %H:%M:%S.%f", moments), "datetime"),
    "midnight": Trap(written("%Y-%m-%d 00:00:00"), "date", ("%Y-%m-%d 00:00:00",)),
    "midnight zulu": Trap(written("%Y-%m-%dT00:00:00Z"), "date", ("%Y-%m-%dT00:00:00Z",)),
    "german date": Trap(written("%d.%m.%Y"), "date", ("%d.%m.%Y",)),
    "american date": Trap(written("%m/%d/%Y"), "date", ("%m/%d/%Y",)),
    "british date": Trap(written("%d/%m/%Y"), "date", ("%d/%m/%Y",)),
    "short year": Trap(written("%m/%d/%y"), "date", ("%m/%d/%y",)),
    "month name": Trap(written("%d-%b-%Y"), "date", ("%d-%b-%Y",)),
    "english date": Trap(written("%b %d, %Y"), "date", ("%b %d, %Y",)),
    "compact date": Trap(written("%Y%m%d"), "date", ("%Y%m%d",)),
    "german moment": Trap(written("%d.%m.%Y %H:%M", moments), "datetime", ("%d.%m.%Y %H:%M",)),
    "american moment": Trap(written("%m/%d/%Y %I:%M %p", moments), "datetime", ("%I:%M %p",)),
    "date with gaps": Trap(with_some(written("%d.%m.%Y"), "", "n/a"), "date", ("n/a",)),
    "year and month": Trap(written("%Y-%m"), "date", ("%Y-%m",)),
    "time of day": Trap(written("%H:%M", moments), "text"),
    "year": Trap(integers("{}", 1950, 2020), "integer"),
    "iso week": Trap(written("%Y-W%V"), "category"),
    # Truth.
    "yes": Trap(among("yes", "no"), "boolean", ("[yes]",)),
    "shouted": Trap(among("YES", "NO", "Yes", "No"), "boolean"),
    "ja": Trap(among("ja", "nein", ""), "boolean", ("[ja]", "[nein]")),
    "t": Trap(among("t", "f"), "boolean", ("[t]",)),
    "y": Trap(among("Y", "N"), "boolean", ("[Y]",)),
    "words": Trap(among("True", "False", "NA"), "boolean", ("nulls: [NA]",)),
    "bits": Trap(among("0", "1"), "integer", ("bounds: [0, 1]",)),
    # Missing cells.
    "NA": Trap(with_some(NUMBERS, "NA"), "integer", ("nulls: [NA]",)),
    "question": Trap(with_some(among("a", "b"), "?"), "category", ('nulls: ["?"]',)),
    "dash": Trap(with_some(NUMBERS, "-"), "integer", ('nulls: ["-"]',)),
    "many tokens": Trap(with_some(NUMBERS, "N/A", "null", "nan", "-", "."), "integer", ("N/A",)),
    "gaps": Trap(with_some(NUMBERS, ""), "integer"),
    "none of it": Trap(with_some(NUMBERS, "none"), "integer", ("nulls: [none]",)),
    "plus and minus": Trap(among("+", "-"), "category", ('levels: ["+", "-"]',)),
    "all missing": Trap(among("NA"), "text"),
    "empty": Trap(among(""), "text"),
    # Numbers.
    "decimal comma": Trap(swapped(numbers("{:.2f}")), "real"),
    "german thousands": Trap(swapped(numbers("{:,.2f}", 900, 90_000)), "real", ("thousands: ",)),
    "thousands": Trap(numbers("{:,.2f}", 900, 90_000), "real", ('thousands: ","',)),
    "thousands of integers": Trap(integers("{:,}", 900, 90_000), "integer", ('thousands: ","',)),
    "swiss": Trap(lambda rng, n: [c.replace(",", "'") for c in numbers("{:,.1f}", 900, 9e5)(rng, n)], "real", ("'",)),
    "spaced": Trap(lambda rng, n: [c.replace(",", " ") for c in integers("{:,}", 900, 90_000)(rng, n)], "integer"),
    "percent": Trap(numbers("{:.1f}%", 0, 100), "real", ('symbol: "%"',)),
    "dollars": Trap(numbers("${:,.2f}", 900, 9000), "real", ('symbol: "$"',)),
    "euros": Trap(swapped(numbers("{:,.2f} €", 900, 9000)), "real", ('symbol: "€"',)),
    "parentheses": Trap(negatives, "real", ("parentheses: true",)),
    "scientific": Trap(numbers("{:.3e}", 0, 1e-7), "real"),
    "huge": Trap(integers("1234567890123456{}", 10, 15), "category"),
    "signed": Trap(integers("{:+d}", -20, 20), "integer"),
    "zeros": Trap(lambda rng, n: [str(v) for v in rng.integers(1, 9000, n) * (rng.random(n) < 0.3)], "integer"),
    "odd ones out": Trap(with_some(integers("{}", 0, 1000), "lots", every=40), "integer", ("nulls: [lots]",)),
    "infinite": Trap(with_some(numbers("{:.2f}"), "inf", every=30), "real"),
    # Codes, identifiers and texts.
    "padded": Trap(integers("{:05d}", 1, 40), "category"),
    "phone": Trap(integers("0171{:07d}", 0, 9_999_999), "id"),
    "numbering": Trap(lambda _, n: [str(i + 1) for i in range(n)], "id"),
    "case id": Trap(integers("{}", 10**6, 10**9), "id"),
    "uuid": Trap(lambda rng, n: [rng.bytes(16).hex() for _ in range(n)], "id"),
    "remarks": Trap(
        lambda rng, n: [f"said {i} things, on day {v}" for i, v in enumerate(rng.integers(0, 99, n))], "text"
    ),
    "constant": Trap(among("same"), "category"),
    "constant number": Trap(among("7"), "integer"),
    "nearly constant": Trap(lambda _, n: ["a"] * (n - 1) + ["b"], "category"),
    "many levels": Trap(skewed_texts, "category"),
    "mixed": Trap(among("12", "thirteen", "14", "x9"), "category"),
    "ranges": Trap(among("0-9", "10-19", "20+"), "category"),
    "quotes": Trap(among('he said "no"', "a, b", "c; d", "e|f", "tab\there"), "category"),
    "lines": Trap(among("one\ntwo", "three", "four\r\nfive"), "category"),
    "blanks": Trap(among(" a", "b ", "  c  "), "category"),
    "unicode": Trap(among("Zürich", "日本", "naïve", "🙂"), "category"),
    "yaml": Trap(among("yes: no", "# not", "~", "null: 1", "[x]", "{y}", "'"), "category"),
    "other": Trap(among("other", "(other)", "rest"), "category"),
}


def csv_bytes(
    columns: dict[str, Cells], delimiter: str = ",", end: str = "\n", encoding: str = "utf-8", *, header: bool = True
) -> bytes:
    def quoted(cell: str) -> str:
        is_plain = not any(letter in cell for letter in (delimiter, '"', "\n", "\r"))
        return cell if is_plain else '"' + cell.replace('"', '""') + '"'

    rows = [list(columns), *zip(*columns.values(), strict=True)][0 if header else 1 :]
    return "".join(delimiter.join(map(quoted, row)) + end for row in rows).encode(encoding)


def made(rng: np.random.Generator, names: list[str], rows: int = ROWS) -> dict[str, Cells]:
    return {name: TRAPS[name].make(rng, rows) for name in names}


def expected(names: list[str]) -> dict[str, Any]:
    return {
        "kinds": {name: TRAPS[name].kind for name in names},
        "declared": {name: TRAPS[name].declared for name in names if TRAPS[name].declared},
    }


def awkward_files(seed: int = SEED) -> Iterator[AwkwardFile]:
    """All files, the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    yield from _one_trap_each(rng)
    yield from _dialects(rng)
    yield from _shapes(rng)
    yield from _containers(rng)
    yield from _mixtures(rng)


def _one_trap_each(rng: np.random.Generator) -> Iterator[AwkwardFile]:
    for name, trap in TRAPS.items():
        rows = 3000 if name == "many levels" else 200 if name == "nearly constant" else ROWS
        columns = {name: trap.make(rng, rows), "plain": integers("{}", 0, 9)(rng, rows)}
        # A comma would be a decimal mark for the whole table, in which a point needs no more.
        yield AwkwardFile(f"{name.replace(' ', '_')}.csv", csv_bytes(columns), 2, **expected([name]))


def _dialects(rng: np.random.Generator) -> Iterator[AwkwardFile]:
    names = ["iso date", "yes", "quotes", "gaps", "unicode"]
    plain = ["iso date", "yes", "gaps"]
    for word, delimiter in {"semicolon": ";", "tab": "\t", "bar": "|"}.items():
        yield AwkwardFile(f"{word}.csv", csv_bytes(made(rng, names), delimiter), 5, **expected(names))
    numeric = {"x": NUMBERS(rng, ROWS), "y": numbers("{:.2f}")(rng, ROWS), "z": among("a", "b")(rng, ROWS)}
    kinds = {"x": "integer", "y": "real", "z": "category"}
    yield AwkwardFile("blank_between.csv", csv_bytes(numeric, " "), 3, kinds)
    yield AwkwardFile("tabs.tsv", csv_bytes(made(rng, names), "\t"), 5, **expected(names))
    yield AwkwardFile("words.txt", csv_bytes(made(rng, names), "|"), 5, **expected(names))
    yield AwkwardFile("windows.csv", csv_bytes(made(rng, plain), end="\r\n"), 3, **expected(plain))
    yield AwkwardFile("excel.csv", b"\xef\xbb\xbf" + csv_bytes(made(rng, names), ";"), 5, **expected(names))
    latin = {"größe": ["klein", "groß", "riesig"] * 20, **made(rng, plain)}
    for word, encoding in {
        "latin": "latin-1",
        "windows_1252": "cp1252",
        "utf16": "utf-16",
        "utf16le": "utf-16-le",
    }.items():
        columns = latin | ({"preis": ["5 €", "6 €", "7 €"] * 20} if encoding == "cp1252" else {})
        yield AwkwardFile(f"{word}.csv", csv_bytes(columns, encoding=encoding), len(columns), {"größe": "category"})
    spaced = {f" {name} ": [f" {cell} " for cell in cells] for name, cells in made(rng, plain).items()}
    yield AwkwardFile("blanks_around.csv", csv_bytes(spaced), 3, **expected(plain))
    after = csv_bytes(made(rng, plain)).replace(b",", b", ")
    yield AwkwardFile("after_commas.csv", after, 3, **expected(plain))
    yield AwkwardFile("packed.csv.gz", gzip.compress(csv_bytes(made(rng, names)), mtime=0), 5, **expected(names))
    european = ["decimal comma", "german thousands", "german date", "euros", "ja"]
    yield AwkwardFile("european.csv", csv_bytes(made(rng, european), ";", "\r\n", "cp1252"), 5, **expected(european))
    ambiguous = {"a": [f"1,{i:03}" for i in range(ROWS)], "b": [f"{i},5" for i in range(ROWS)]}
    yield AwkwardFile("ambiguous.csv", csv_bytes(ambiguous, ";"), 2, {"a": "real", "b": "real"})


def _shapes(rng: np.random.Generator) -> Iterator[AwkwardFile]:
    none = Dialect.of(header=False)
    plain = ["iso date", "yes", "gaps"]
    columns = made(rng, plain)
    numbered = dict(zip(["column 1", "column 2", "column 3"], ["date", "boolean", "integer"], strict=True))
    yield AwkwardFile("no_header.csv", csv_bytes(columns, header=False), 3, numbered, reading=none)
    yield AwkwardFile("no_header.tsv", csv_bytes(columns, "\t", header=False), 3, numbered, reading=none)
    yield AwkwardFile("one_row.csv", csv_bytes(made(rng, plain, 1)), 3, {"iso date": "date"})
    yield AwkwardFile("one_column.csv", csv_bytes({"a": among("x", "y", "z")(rng, ROWS)}), 1, {"a": "category"})
    yield AwkwardFile("one_cell.csv", b"a\n1\n", 1, {"a": "integer"})
    yield AwkwardFile("no_last_end.csv", b"a,b\n1,x\n2,y", 2, {"a": "integer", "b": "category"})
    lines = [b"a,a,,b,", *(f"{i % 7},{i % 3},x,{i % 2},".encode() for i in range(ROWS))]
    doubled = {"a": "integer", "a (2)": "integer", "column 3": "category", "b": "integer", "column 5": "text"}
    yield AwkwardFile("doubled_and_unnamed.csv", b"\n".join(lines), 5, doubled)
    odd = {"a\nb": ["x", "y"] * 30, 'say "hi"': ["1", "2"] * 30, "kind: id": ["u", "v"] * 30, "日本": ["1.5", "2"] * 30}
    yield AwkwardFile("odd_names.csv", csv_bytes(odd), 4, {"a\nb": "category", "日本": "real"})
    wide = {f"v{i}": among("a", "b", "c")(rng, 30) for i in range(150)}
    yield AwkwardFile("wide.csv", csv_bytes(wide), 150, {"v149": "category"})


def _containers(rng: np.random.Generator) -> Iterator[AwkwardFile]:
    names = ["iso date", "yes", "quotes", "gaps", "german date"]
    columns = made(rng, names)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("__MACOSX/._data.csv", b"x")
        archive.writestr("folder/data.csv", csv_bytes(columns, ";"))
        archive.writestr("README", b"read me")
    yield AwkwardFile("one_table.zip", packed.getvalue(), 5, **expected(names))
    rows = [{"n": int(i % 5), "x": float(v), "t": "ab"[i % 2], "deep": [1]} for i, v in enumerate(rng.random(ROWS))]
    del rows[3]["x"]
    kinds = {"n": "integer", "x": "real", "t": "category", "deep": "text"}
    yield AwkwardFile("lines.jsonl", "\n".join(map(json.dumps, rows)).encode(), 4, kinds)
    yield AwkwardFile("list.json", json.dumps(rows).encode(), 4, kinds)


def _mixtures(rng: np.random.Generator) -> Iterator[AwkwardFile]:
    comma = {"decimal comma", "german thousands", "euros"}
    point = [
        "thousands",
        "thousands of integers",
        "swiss",
        "dollars",
        "percent",
        "scientific",
        "infinite",
        "parentheses",
    ]
    usual = [name for name in TRAPS if name not in {*comma, *point, "many levels", "all missing", "empty"}]
    for i in range(20):
        names = rng.choice(usual, 8, replace=False).tolist()
        marked = (
            ["decimal comma", "euros", "german thousands"] if i % 2 else rng.choice(point, 3, replace=False).tolist()
        )
        names = [*names, *marked]
        delimiter, end, encoding = ";,\t|"[i % 4], ["\n", "\r\n"][i // 2 % 2], ["utf-8", "utf-8-sig", "utf-16"][i % 3]
        if i % 2 and delimiter == ",":
            delimiter = ";"
        columns = made(rng, names, 80)
        if i % 5 == 0:
            columns = {name: [f" {cell}" for cell in cells] for name, cells in columns.items()}
        yield AwkwardFile(f"mixture_{i}.csv", csv_bytes(columns, delimiter, end, encoding), 11, **expected(names))


def save_all(folder: Path) -> list[AwkwardFile]:
    """Write all files to a folder."""
    files = list(awkward_files())
    for each in files:
        (folder / each.name).write_bytes(each.data)
    return files
