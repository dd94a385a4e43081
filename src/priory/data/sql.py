"""SQL: names, constants and typed cells as the text of DuckDB's queries."""

from collections.abc import Iterable
from dataclasses import dataclass

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
    """Where a query finds the cells of a column."""

    expression: str  # the SQL that reads one
    sql_type: str  # the DuckDB type it has

    @property
    def family(self) -> str:
        """What the cell is, whatever its width."""
        if self.sql_type == "VARCHAR" or self.sql_type.startswith("ENUM"):
            return "text"
        if self.sql_type.startswith("DECIMAL"):
            return "decimal"
        return FAMILIES.get(self.sql_type, "something else")


def as_text(cell: str) -> str:
    """A cell as a text."""
    return f"CAST({cell} AS VARCHAR)"


def listed(texts: Iterable[str]) -> str:
    """Text constants with commas between them."""
    return ", ".join(literal(text) for text in texts)
