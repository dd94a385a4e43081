"""ADBC: a table that a database's query gives, read in Arrow batches through the database's own driver.

Neither the address, which may hold a password, nor the query, nor anything that a driver says stands in an error: all
of them may quote what nobody but the curator may see.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from priory.data.sources.adbc_cells import SQLITE, tagged
from priory.errors import DataError, MissingExtra, OptionError, PrioryError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The driver of each scheme of an address. Others are known by their own names.
DRIVERS = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite", "file": "sqlite"}
EXTRA = "priory[adbc]"
# What a database's answer means, by the beginning of its SQLSTATE.
REASONS = {
    "08": "the database cannot be reached; check the host, the port and that the server runs",
    "28": "the database refused the user or the password",
    "3D": "there is no such database on the server",
    "42501": "the user has no right to read what the query names",
    "42P01": "there is no such table; check the query's FROM",
    "42703": "there is no such column; check the query",
    "42": "the query is not one that the database understands",
    "53": "the database has no room for it: memory, disk or connections",
    "57": "the database stopped the query",
}
UNREACHABLE = "the database cannot be opened; check the address, the user and that the server runs"
BROKEN = "the database failed before the end of the query; try it there"
REFUSED = "the database did not run the query; try it there, as one SELECT"


@dataclass(frozen=True)
class Database:
    """A table that a database gives for a query; opened anew, and the query run anew, whenever it is read.

    Attributes:
        uri: the database's address, such as "postgresql://user@host/name" or "sqlite:people.db". Never shown.
        query: one SELECT, which names or makes the schema's columns. Never shown.
        driver: the ADBC driver, such as "postgresql"; by default what the address begins with.
    """

    uri: str = field(repr=False)
    query: str = field(repr=False)
    driver: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.uri, str) or not self.uri.strip():
            raise OptionError("uri", "the address of a database, as in postgresql://user@host/name or sqlite:people.db")
        if not isinstance(self.query, str) or not self.query.strip():
            raise OptionError("query", "a SELECT that gives the schema's columns")

    def batches(self) -> tuple[Any, Iterator[Any]]:
        """The Arrow schema of what the query gives, and its record batches."""
        driver, address = _named(self.uri, self.driver)
        # After a comment, what the driver puts behind it begins a new line.
        query = self.query.strip().rstrip(";") + "\n"
        batches = _batches(driver, address, query)
        # The first is the schema: the query has run by then, and its errors are told here.
        return next(batches), batches


def _batches(driver: str, address: str, query: str) -> Iterator[Any]:
    _check_installed(driver)
    with _errors(UNREACHABLE):
        connection = _connect(driver, address)
    try:
        cursor = connection.cursor()
        with _errors(REFUSED):
            names = _names(cursor, query) if driver == "sqlite" else None
            cursor.execute(query if names is None else tagged(names, query))
            reader = cursor.fetch_record_batch()
            schema = reader.schema if names is None else _marked(reader.schema, names)
        yield schema
        with _errors(BROKEN):
            for batch in reader:
                yield type(batch).from_arrays(batch.columns, schema=schema)
    finally:
        # Nothing was committed, so that nothing stays changed.
        connection.close()


def _named(uri: str, driver: str | None) -> tuple[str, str]:
    """The driver, and the address as it wants it."""
    scheme, colon, rest = uri.partition(":")
    known = driver or (DRIVERS.get(scheme, scheme) if colon else "sqlite")
    if known != "sqlite":
        if driver is None and not scheme.replace("-", "").replace("+", "").isalnum():
            raise OptionError("uri", "it must begin with the kind of database, as in postgresql:// or sqlite:")
        return known, uri
    if scheme == "file":
        return known, uri
    path = unquote(rest) if scheme == "sqlite" and colon else uri
    # Three slashes come before a path of its own, as SQLAlchemy has it, and four before one from the root.
    path = path[3:] if path.startswith("///") else path
    # SQLite would make a new file where there is none.
    return known, f"file:{quote(path)}?mode=ro"


def _check_installed(driver: str) -> None:
    # Without pyarrow the drivers give no batches.
    needed = ["adbc_driver_manager", "pyarrow"] + ([_package(driver)] if driver in DRIVERS.values() else [])
    for library in needed:
        if find_spec(library) is None:
            raise MissingExtra(library, EXTRA)


def _package(driver: str) -> str:
    return f"adbc_driver_{driver.replace('-', '_')}"


def _connect(driver: str, address: str) -> Any:  # noqa: ANN401 - an optional library
    package = _package(driver)
    if package.isidentifier() and find_spec(package) is not None:
        return import_module(f"{package}.dbapi").connect(address)
    return import_module("adbc_driver_manager.dbapi").connect(driver=driver, db_kwargs={"uri": address})


def _names(cursor: Any, query: str) -> list[str]:  # noqa: ANN401 - an optional library
    """The names of the query's columns, as SQLite has them where it is read from."""
    cursor.execute(f"SELECT * FROM ({query}) LIMIT 0")
    names = list(cursor.fetch_record_batch().schema.names)
    for name in names:
        if f"{name}:1" in names:
            raise DataError("the query has two columns of the same name; rename one")
    return names


def _marked(schema: Any, names: list[str]) -> Any:  # noqa: ANN401 - an optional library
    """The schema with the query's own names, and a mark that cells carry their types."""
    import pyarrow as pa

    return pa.schema([pa.field(name, each.type, metadata=SQLITE) for name, each in zip(names, schema, strict=True)])


@contextmanager
def _errors(usual: str) -> Iterator[None]:
    """Turn a driver's errors into ours, by their codes alone."""
    try:
        yield
    except (PrioryError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a driver raises may quote the address, the query or a cell
        state = str(getattr(error, "sqlstate", None) or "")
        reasons = (REASONS[state[:length]] for length in (5, 2) if state[:length] in REASONS)
        raise DataError(next(reasons, usual)) from None
