"""Sniffing: how a public file spells its cells, found from the file itself. Never for private files."""

import codecs
import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

from priory.data.dialect import DELIMITERS, Dialect
from priory.data.sources.containers import CSV_SUFFIXES, SHEET_SUFFIXES, PlainFile, first_bytes, plain_file, suffix_of
from priory.data.sources.files import BLANKS, HEADER_BYTES, first_text, records, suffix_delimiter
from priory.data.sources.frame_files import sheet_names
from priory.errors import DataError

BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# Enough lines to tell delimiters apart; a file of a few long lines is read to its end.
LINES = 1000
ENCODING_BYTES = 2**26
# Bytes that Latin-1 has no letters for: where there are some, the text was written on Windows.
WINDOWS = bytes(range(0x80, 0xA0))


def sniffed(path: str | Path, *, reading: Dialect) -> Dialect:
    """What is not said in `reading` of how a public file spells its cells, found from it.

    It is refused if it is empty, or if no delimiter gives its lines the same number of cells.
    """
    if suffix_of(path) in SHEET_SUFFIXES:
        sheets = sheet_names(path)
        return replace(reading, sheet=sheets[0]) if reading.sheet is None and len(sheets) > 1 else reading
    if suffix_of(path) not in CSV_SUFFIXES:
        return reading
    with plain_file(path) as file:
        if reading.encoding == "utf-8":
            reading = replace(reading, encoding=_encoding(first_bytes(file, ENCODING_BYTES)))
    with plain_file(path, reading.encoding) as file:
        text = first_text(file)
        if not text.strip():
            raise DataError(f"{file.shown} is empty; it needs a line that names the columns, and rows")
        known = reading.delimiter or suffix_delimiter(file)
        delimiter = known or _delimiter(file, text)
        lines = itertools.islice(records(text, delimiter), LINES)
        has_blanks = any(cell != cell.strip(BLANKS) for line in lines for cell in line)
    return replace(reading, delimiter=None if delimiter == "," else delimiter, trim=reading.trim or has_blanks)


def has_record_for_header(path: str | Path, reading: Dialect) -> bool:
    """Whether the first line of a public CSV file looks like a record: it has a number where names are due."""
    if not reading.header or suffix_of(path) not in CSV_SUFFIXES:
        return False
    with plain_file(path, reading.encoding) as file:
        first = next(records(first_text(file), reading.delimiter or suffix_delimiter(file) or ","), [])
    return any(cell.strip().lstrip("+-").replace(".", "", 1).replace(",", "", 1).isdigit() for cell in first)


def _encoding(data: bytes) -> str:
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return encoding
    # Every other byte of Latin letters in UTF-16 is zero, which is in no other text.
    for place, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
        if data[place:100:2].count(0) > len(data[:100]) // 4:
            return encoding
    if _is_text(data, "utf-8"):
        return "utf-8"
    return "cp1252" if _is_text(data, "cp1252") and data.translate(None, WINDOWS) != data else "latin-1"


def _is_text(data: bytes, encoding: str) -> bool:
    try:
        # The last character may be cut in two by the limit of what was read.
        codecs.getincrementaldecoder(encoding)().decode(data, final=len(data) < ENCODING_BYTES)
    except UnicodeDecodeError:
        return False
    return True


def _is_blank_separated(text: str) -> bool:
    """Whether a blank gives all lines the same number of cells, most of them numbers: texts have blanks, too."""
    header, *rows = (line for line in itertools.islice(records(text, " "), LINES) if line)
    cells = [cell for row in rows for cell in row]
    numbers = sum(cell.lstrip("+-").replace(".", "", 1).isdigit() for cell in cells)
    return len(header) > 1 and all(len(row) == len(header) for row in rows) and 2 * numbers > len(cells)


def _delimiter(file: PlainFile, text: str) -> str:
    """The delimiter that gives all lines as many cells as the first has; of several, the one that gives the most."""
    widths = {
        delimiter: [len(line) for line in itertools.islice(records(text, delimiter), LINES) if line]
        for delimiter in DELIMITERS
    }
    # The last line may be cut by the limit of what was read.
    whole = {delimiter: counts[:-1] if len(text) >= HEADER_BYTES else counts for delimiter, counts in widths.items()}
    even = [delimiter for delimiter, counts in whole.items() if len(set(counts)) == 1]
    best = max(even or DELIMITERS, key=lambda delimiter: whole[delimiter][0] if whole[delimiter] else 0)
    if even and whole[best][0] > 1:
        return best
    if _is_blank_separated(text):
        return " "
    ragged = max(whole, key=lambda delimiter: Counter(whole[delimiter]).most_common(1)[0][0] if whole[delimiter] else 0)
    usual, often = Counter(whole[ragged]).most_common(1)[0]
    first = max(whole[delimiter][0] for delimiter in DELIMITERS)
    if first == 1 and (usual == 1 or 2 * often < len(whole[ragged])):
        return ","  # a single column, of texts that may hold commas
    number = next((i for i, count in enumerate(whole[ragged], 1) if count != whole[ragged][0]), 1)
    raise DataError(
        f"{file.shown}: its lines do not have the same number of cells (record {number} has "
        f"{whole[ragged][number - 1]}, the first has {whole[ragged][0]}); correct them, or give --delimiter"
    )
