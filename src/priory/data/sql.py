"""SQL: the codec's rules as queries that DuckDB runs over files larger than memory.

They say the same as `priory.data.codec` cell by cell; a law in the tests holds the two together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from priory.data.columns import Boolean, Category, ModelledColumn, Moment, Number
from priory.data.declared import MOST_WHOLE
from priory.data.moments import FIRST_DAY, LAST_DAY

NUMBER = " *[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)? *"
INTEGERS = [f"{sign}{width}" for sign in ("", "U") for width in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")]
TIMESTAMPS = ["TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"]
FAMILIES = {
    "BOOLEAN": "boolean",
    "DATE": "date",
    **dict.fromkeys(INTEGERS, "integer"),
    **dict.fromkeys(["FLOAT", "DOUBLE"], "float"),
    **dict.fromkeys(TIMESTAMPS, "timestamp"),
}


def identifier(name: str) -> str:
    """A column's name, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text constant, quoted."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Cell:
    """Where a query finds the cells of a column.

    Attributes:
        expression: the SQL that reads one.
        sql_type: the DuckDB type it has.
    """

    expression: str
    sql_type: str

    @property
    def family(self) -> str:
        """What the cell is, whatever its width."""
        if self.sql_type == "VARCHAR" or self.sql_type.startswith("ENUM"):
            return "text"
        if self.sql_type.startswith("DECIMAL"):
            return "decimal"
        return FAMILIES.get(self.sql_type, "something else")


def encoding(
    columns: Sequence[ModelledColumn], cells: Mapping[str, Cell], table: str, person: str | None = None
) -> str:
    """The query that turns `table` into codes, named c0, c1, … in the order of `columns`.

    It is total: no cell makes it fail or gives a null code. With `person`, it also gives a column of that name after
    the codes: that column's cell, as `person_cell` has it.
    """
    values, codes = [], []
    for i, column in enumerate(columns):
        cell = cells[column.name]
        values += [f"{_is_missing(column, cell)} AS m{i}", f"{_value(column, cell)} AS v{i}"]
        place = f"coalesce({_place(column, f'v{i}')}, {column.other_code})"
        code = f"CASE WHEN m{i} THEN {column.missing_code} ELSE {place} END"
        codes.append(f"CAST({code} AS {code_type(column.size)}) AS c{i}")
    if person is not None:
        values.append(f"{person_cell(cells[person])[1]} AS person")
        codes.append("person")
    return f"SELECT {', '.join(codes)} FROM (SELECT {', '.join(values)} FROM {table})"


def bounded(query: str, names: Sequence[str], max_rows: int) -> str:
    """Keep the `max_rows` records of each person that come first by `priory.data.persons.record_hash`.

    The key is the query's parameter, written in hexadecimal, so that it stands in no text that a database may log.
    """
    codes = " || ',' || ".join(f"CAST({name} AS VARCHAR)" for name in names)
    text = f"CAST($key AS VARCHAR) || chr(31) || person || chr(31) || {codes} || chr(31) || CAST(copy AS VARCHAR)"
    rows = ", ".join(["person", *names])
    copies = f"SELECT *, row_number() OVER (PARTITION BY {rows}) AS copy FROM ({query}) WHERE person IS NOT NULL"
    order = f"row_number() OVER (PARTITION BY person ORDER BY sha256({text})) <= {int(max_rows)}"
    return f"SELECT {', '.join(names)} FROM ({copies}) QUALIFY {order}"


def person_cell(cell: Cell) -> tuple[str, str]:
    """Which of `priory.data.spelling.FUNCTIONS` spells a person of this column, and the SQL that gives it the cell."""
    raw, family = cell.expression, cell.family
    if family == "float":
        return "float", f"CAST({raw} AS DOUBLE)"
    if cell.sql_type == "BLOB":
        return "bytes", raw
    if cell.sql_type == "TIMESTAMP_NS":
        return "nanoseconds", f"CASE WHEN isfinite({raw}) THEN epoch_ns({raw}) END"
    if family in {"date", "timestamp"}:
        moment = raw if cell.sql_type.endswith("ZONE") else f"TRY_CAST({raw} AS TIMESTAMP)"
        return "microseconds", f"CASE WHEN isfinite({moment}) THEN epoch_us({moment}) END"
    return "text", f"TRY_CAST({raw} AS VARCHAR)"


def code_type(size: int) -> str:
    """The smallest unsigned type that holds the codes of `size` places."""
    return "UTINYINT" if size <= 2**8 else "USMALLINT" if size <= 2**16 else "UINTEGER"


def _is_missing(column: ModelledColumn, cell: Cell) -> str:
    is_null = f"{cell.expression} IS NULL"
    if cell.family == "text" and column.nulls:
        return f"({is_null} OR {_text(cell.expression)} IN ({_list(column.nulls)}))"
    return f"({is_null} OR isnan({cell.expression}))" if cell.family == "float" else f"({is_null})"


def _value(column: ModelledColumn, found: Cell) -> str:
    """What a cell says, as the type that its column's places are found by; null where it says nothing of the kind."""
    cell, family = found.expression, found.family
    value: str | None
    if isinstance(column, Boolean):
        value = _truth(column, cell, family)
    elif isinstance(column, Moment):
        value = _text_moment(column, cell) if family == "text" else _typed_moment(column, found)
    elif isinstance(column, Number) or column.whole:
        value = _number(cell, family)
    else:
        value = _text(cell) if family == "text" else None
    return value or "NULL"


def _place(column: ModelledColumn, value: str) -> str:
    """The code of a value, null for null and where there is none."""
    if isinstance(column, Boolean):
        return value
    if isinstance(column, Category):
        # An enumeration is DuckDB's hash table from texts to places.
        text = _whole_text(value) if column.whole else value
        return f"enum_code(TRY_CAST({text} AS ENUM({_list(str(level) for level in column.values)})))"
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE {_bin(column.edges, value)} END"


def _text(cell: str) -> str:
    return f"CAST({cell} AS VARCHAR)"


def _list(texts: Iterable[str]) -> str:
    return ", ".join(literal(text) for text in texts)


def _whole_text(number: str) -> str:
    """A whole number's digits; null for any other number."""
    is_whole = f"{number} = trunc({number}) AND abs({number}) <= {MOST_WHOLE}"
    return f"CASE WHEN {is_whole} THEN CAST(CAST({number} AS BIGINT) AS VARCHAR) END"


def _truth(column: Boolean, cell: str, family: str) -> str | None:
    if family == "boolean":
        return f"CAST({cell} AS INTEGER)"
    if family == "text":
        true, false = (f"WHEN {_text(cell)} IN ({_list(texts)})" for texts in (column.true, column.false))
        return f"CASE {true} THEN 1 {false} THEN 0 END"
    return None


def _number(cell: str, family: str) -> str | None:
    """A cell as the nearest double; None if this type of cell is never a number."""
    if family in {"integer", "float"}:
        return f"CAST({cell} AS DOUBLE)"
    if family == "decimal":
        # By way of its digits: DuckDB's own cast divides by a power of ten, which rounds twice.
        return f"CAST({_text(cell)} AS DOUBLE)"
    if family == "text":
        is_number = f"regexp_full_match({_text(cell)}, {literal(NUMBER)})"
        return f"CASE WHEN {is_number} THEN TRY_CAST({_text(cell)} AS DOUBLE) END"
    return None


def _typed_moment(column: Moment, found: Cell) -> str | None:
    """A cell that is a date or a timestamp, as days or microseconds since 1970; infinite ones are bad."""
    cell, family = found.expression, found.family
    if family not in {"date", "timestamp"}:
        return None
    if family == "date":
        # Days reach further than timestamps, so they are brought back to the calendar before they become one.
        days = f"date_diff('day', DATE '1970-01-01', {cell})"
        moment = f"greatest(least({days}, {LAST_DAY + 1}), {FIRST_DAY})" + (" * 86400000000" if column.clock else "")
    else:
        # Seconds of far years cannot become microseconds, and are bad. With a time zone they are microseconds already.
        cell = cell if found.sql_type.endswith("ZONE") else f"TRY_CAST({cell} AS TIMESTAMP)"
        moment = f"epoch_us({cell})" if column.clock else f"CAST(floor(epoch_us({cell}) / 86400000000) AS BIGINT)"
    return f"CASE WHEN isfinite({cell}) THEN {moment} END"


def _text_moment(column: Moment, cell: str) -> str:
    """A cell that spells a moment, by the column's own pattern; null where it does not or no such day exists."""
    # DuckDB's names know no upper and lower case, so that M and m could not both be one.
    names = {letter: f"g{i}" for i, letter in enumerate(column.fields)}
    groups = f"regexp_extract({_text(cell)}, {literal(f'^(?:{column.pattern})$')}, [{_list(names.values())}])"

    def field(letter: str, otherwise: str = "0") -> str:
        if letter not in names:
            return otherwise
        return f"coalesce(TRY_CAST(struct_extract({groups}, {literal(names[letter])}) AS BIGINT), {otherwise})"

    year, month, day = (field(letter, "NULL") for letter in "Ymd")
    days = f"CASE WHEN {year} >= 1 THEN date_diff('day', DATE '1970-01-01', TRY(make_date({year}, {month}, {day}))) END"
    if not column.clock:
        return days
    hour, minute, second = (field(letter) for letter in "HMS")
    fraction = "0"
    if "f" in names:
        digits = f"rpad(struct_extract({groups}, {literal(names['f'])}), 6, '0')"
        fraction = f"coalesce(TRY_CAST({digits} AS BIGINT), 0)"
    clock = f"(({hour} * 60 + {minute}) * 60 + {second}) * 1000000 + {fraction}"
    return f"CASE WHEN {hour} < 24 AND {minute} < 60 AND {second} < 60 THEN ({days}) * 86400000000 + {clock} END"


def _bin(edges: Sequence[float], value: str) -> str:
    """How many inner edges are not above `value`; the first or the last bin beyond the ends."""
    if all(isinstance(edge, int) for edge in edges) and edges[-1] - edges[0] == len(edges) - 1:
        # One bin for each whole number. Clamped before it becomes an integer, which an infinity could not.
        inside = f"greatest(least({value}, {edges[-1] - 1}), {edges[0]})"
        return f"CAST(floor({inside}) AS BIGINT) - ({edges[0]})"
    return _bisect(edges, 0, len(edges) - 2, value)


def _bisect(edges: Sequence[float], first: int, last: int, value: str) -> str:
    """A binary search as nested cases, so that a cell takes as many comparisons as the logarithm of the bins."""
    if first == last:
        return str(first)
    middle = (first + last + 1) // 2
    edge = f"CAST({literal(repr(edges[middle]))} AS {'BIGINT' if isinstance(edges[middle], int) else 'DOUBLE'})"
    below, above = _bisect(edges, first, middle - 1, value), _bisect(edges, middle, last, value)
    return f"CASE WHEN {value} < {edge} THEN {below} ELSE {above} END"
