"""Schema: the verbs that make and check a schema file."""

from pathlib import Path
from typing import Annotated

import typer

from priory.cli import discover
from priory.cli.output import AsJson, say, write, write_data, write_json
from priory.cli.privacy import check_output
from priory.cli.progress import working
from priory.cli.tables import Adbc, DatabaseQuery, Driver, PublicQuery, public_of, table_of
from priory.data.dialect import Dialect
from priory.data.drafting import Draft, draft_schema
from priory.data.public import misfits, refuse
from priory.data.schema import Schema
from priory.errors import DataError
from priory.release.rows import check_constraints

app = typer.Typer(help="Make a schema from public data, or check one.", no_args_is_help=True)
app.command("discover")(discover.discover)
app.command("ask")(discover.ask)
app.command("from-codebook")(discover.from_codebook)


@app.command()
def init(
    public: Annotated[
        str | None, typer.Argument(help="A public table of any kind that can be opened; - is CSV from stdin.")
    ] = None,
    *,
    adbc: Adbc = None,
    query: DatabaseQuery = None,
    driver: Driver = None,
    header_only: Annotated[
        bool, typer.Option("--header-only", help="Read nothing but the names: this may be the private table.")
    ] = False,
    has_header: discover.HasHeader = False,
    columns: discover.Columns = None,
    name: discover.Name = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="The first line is a record, not names.")] = False,
    delimiter: Annotated[str | None, typer.Option(help="What stands between cells; default: found.")] = None,
    decimal: Annotated[str | None, typer.Option(help="The decimal mark, . or ,; default: found.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Such as latin-1; default: found.")] = None,
    sheet: Annotated[str | None, typer.Option(help="Of a spreadsheet; default: the first.")] = None,
    output: discover.Output = None,
    as_json: AsJson = False,
) -> None:
    """Draft a schema from a public table, never the private one, to be read and edited before it is used.

    Every column gets a comment: what was seen, what was decided, what else could be chosen. The table is checked
    against the draft.
    """
    table = table_of(public, adbc, query, driver)
    if header_only:
        discover.names_alone(table, has_header=has_header, columns=columns, name=name, output=output, as_json=as_json)
        return
    given = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding, "sheet": sheet}
    reading = Dialect.of(header=not no_header, **{word: value for word, value in given.items() if value is not None})
    check_output(output)
    called = name or discover.called(table)
    with working("reading the table", is_wanted=not as_json):
        drafted = draft_schema(table, name=called, reading=reading)
    if output is not None:
        drafted.save(output)
    if as_json:
        _write_draft(drafted, output)
        return
    if output is None:
        write_data(drafted.dump())
    for column, what in drafted.called.items():
        say(f"{column}: {what}{' – left out' if column in drafted.left_out else ''}")
    for note in drafted.notes:
        say(note)
    wrote = "Drafted:" if output is None else f"Wrote {output}:"
    schema = drafted.schema
    say(f"{wrote} {len(schema.modelled)} of {len(schema.columns)} columns are modelled, and the table fits.")
    say("Read it through: bounds, levels and bins must be what you know to be public.")


def _write_draft(drafted: Draft, output: Path | None) -> None:
    write_json(
        {
            "output": None if output is None else str(output),
            "name": drafted.schema.name,
            "columns": {column.name: column.kind for column in drafted.schema.columns},
            "called": dict(drafted.called),
            "left_out": dict(drafted.left_out),
            "notes": list(drafted.notes),
            "schema": drafted.dump(),
        }
    )


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="The schema file.")],
    *,
    public: Annotated[str | None, typer.Option(help="A public table that should fit the schema.")] = None,
    adbc: Adbc = None,
    public_query: PublicQuery = None,
    driver: Driver = None,
    as_json: AsJson = False,
) -> None:
    """Check a schema file, and a public table against it. Private data are never opened."""
    schema = Schema.load(path)
    check_constraints(schema)
    table = public_of(public, adbc, public_query, driver)
    shown = public or "the public table"
    if table is not None:
        _check_fit(schema, table, shown)
    if as_json:
        write_json(
            {
                "name": schema.name,
                "person": schema.person,
                "columns": {column.name: column.kind for column in schema.columns},
                "attributes": dict(zip(schema.domain.attributes, schema.domain.shape, strict=True)),
            }
        )
        return
    write(str(schema))
    say(f"The schema is good{'' if table is None else f', and {shown} fits it'}.")


def _check_fit(schema: Schema, public: object, shown: str) -> None:
    """Say of all columns at once how they fit, and refuse those that do not."""
    with working("reading the table"):
        found = misfits(schema, public)
    for each in found:
        for note in each.notes:
            say(f"{each.column}: {note}")
    wrong = [each for each in found if each.wrong]
    if len(wrong) > 1:
        for each in wrong:
            say(f"{each.column}: {each.sentence}")
        names = ", ".join(each.column for each in wrong)
        raise DataError(f"{len(wrong)} of {len(found)} columns of {shown} do not fit the schema: {names}")
    refuse(found)
