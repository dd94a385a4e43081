"""Schema: the verbs that make and check a schema file."""

from pathlib import Path
from typing import Annotated

import typer

from priory.cli import discover
from priory.cli.output import AsJson, say, write, write_data, write_json
from priory.data.public import check_public
from priory.data.schema import Schema
from priory.errors import OptionError

app = typer.Typer(help="Make a schema from public data, or check one.", no_args_is_help=True)
app.command("discover")(discover.discover)
app.command("ask")(discover.ask)
app.command("from-codebook")(discover.from_codebook)


@app.command()
def init(
    public: Annotated[Path, typer.Argument(help="A public table: CSV (.gz) or Parquet. Never the private one.")],
    *,
    header_only: Annotated[
        bool, typer.Option("--header-only", help="Read nothing but the names: this may be the private table.")
    ] = False,
    has_header: discover.HasHeader = False,
    columns: discover.Columns = None,
    name: Annotated[str | None, typer.Option(help="The data set's name; default: the file's.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it; default: stdout.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draft a schema from a public table, to be read and edited before it is used."""
    if header_only:
        discover.names_alone(public, has_header=has_header, columns=columns, name=name, output=output, as_json=as_json)
        return
    schema = Schema.from_public(public, name=name or public.name.split(".")[0])
    if output is None:
        if as_json:
            write_json({"schema": schema.dump()})
        else:
            write_data(schema.dump())
        return
    if output.exists():
        raise OptionError("--output", f"{output} exists; remove it or choose another name")
    schema.save(output)
    if as_json:
        write_json({"output": str(output), "name": schema.name, "columns": [column.name for column in schema.columns]})
        return
    say(f"Wrote {output}. Read it through: bounds, levels and bins must be what you know to be public.")


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="The schema file.")],
    *,
    public: Annotated[Path | None, typer.Option(help="A public table that should fit the schema.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check a schema file, and a public table against it. Private data are never opened."""
    schema = Schema.load(path)
    if public is not None:
        check_public(schema, public)
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
    say(f"The schema is good{'' if public is None else f', and {public} fits it'}.")
