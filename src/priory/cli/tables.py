"""Tables: the options that say where a table is, private or public, and what they stand for."""

from typing import Annotated

import typer

from priory.data.sources.opening import ENGINES
from priory.errors import OptionError

Adbc = Annotated[
    str | None,
    typer.Option(metavar="URI", help="Or the database that holds it, as in postgresql://user@host/name, sqlite:x.db."),
]
DatabaseQuery = Annotated[
    str | None, typer.Option("--query", metavar="SELECT", help="With --adbc, the query that gives the table.")
]
PublicQuery = Annotated[
    str | None,
    typer.Option("--public-query", metavar="SELECT", help="With --adbc, the query that gives the public table."),
]
Driver = Annotated[
    str | None, typer.Option(help="With --adbc, the ADBC driver; default: what the address begins with.")
]
Engine = Annotated[
    str | None,
    typer.Option(help=f"Where rows are counted: {', '.join(ENGINES)}; default: in memory if they fit, else duckdb."),
]


def table_of(path: str | None, adbc: str | None, query: str | None, driver: str | None = None) -> object:
    """The table that a path, or an address and a query, stand for.

    A path stays the text that it is: pathlib would make one slash of the two in s3://bucket.
    """
    if adbc is None:
        if path is None:
            raise OptionError("DATA", "name the table, or the database that holds it (--adbc and --query)")
        if query is not None or driver is not None:
            raise OptionError("--query", "it is for a database: name that with --adbc, too")
        return path
    from priory.data.sources.adbc import Database

    if path is not None:
        raise OptionError("--adbc", "give either a path or --adbc, not both")
    if query is None:
        raise OptionError("--adbc", "it needs a --query that gives the table, such as 'SELECT * FROM people'")
    return Database(adbc, query, driver)


def public_of(path: str | None, adbc: str | None, query: str | None, driver: str | None) -> object | None:
    """The public table that a path, or a query to the same database, stand for."""
    if query is None:
        return path
    if adbc is None or path is not None:
        raise OptionError("--public-query", "it asks the database of --adbc, in the place of --public")
    return table_of(None, adbc, query, driver)
