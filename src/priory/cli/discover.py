"""Discover: the verbs for who has only a private table: names alone, questions, documentation, or a paid look."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from priory.app.discover import discover as learn
from priory.cli.fit import spending
from priory.cli.output import AsJson, say, write_data, write_json
from priory.cli.privacy import Unit, check_output
from priory.cli.progress import working
from priory.cli.tables import Adbc, DatabaseQuery, Driver, table_of
from priory.data.dialect import Dialect
from priory.data.kinds import Column
from priory.data.schema import Schema
from priory.data.schema import file as schema_file
from priory.data.schema.codebook import read_codebook
from priory.data.schema.open import EXAMPLES, NEEDS, OpenColumn, OpenSchema, read_names
from priory.data.sources.containers import ARROW_SUFFIXES, PARQUET_SUFFIXES, STDIN, suffix_of
from priory.data.writing import written_whole
from priory.errors import OptionError, SchemaError
from priory.privacy.ledger import Ledger

HasHeader = Annotated[bool, typer.Option("--has-header", help="The first line of the file names the columns.")]
Columns = Annotated[str | None, typer.Option(help="The names, with commas, of a file whose first line does not.")]
Name = Annotated[str | None, typer.Option(help="The data set's name; default: the file's.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it; default: stdout.")]


def called(table: object) -> str:
    """What a data set is called by default: as its file."""
    if not isinstance(table, str):
        raise OptionError("--name", "a query has no name of its own: say what the data set is called")
    return "stdin" if table == STDIN else Path(table).name.split(".")[0]


def names_alone(
    table: object, *, has_header: bool, columns: str | None, name: str | None, output: Path | None, as_json: bool
) -> None:
    """Write a schema of names alone; nothing of the table but its header is read, and that only where there is one."""
    check_output(output)
    opened = _named(table, has_header=has_header, columns=columns, name=name)
    _write(opened.dump(), output, as_json=as_json, columns=[column.name for column in opened.columns])
    if output is not None and not as_json:
        say(f"Wrote {output}: names alone. Give every column a kind, or let priory schema discover learn it.")


def _named(table: object, *, has_header: bool, columns: str | None, name: str | None) -> OpenSchema:
    if not isinstance(table, str):
        if columns is None:
            raise OptionError("--columns", "name the columns of the query, with commas")
        return OpenSchema.of(name or called(table), _split(columns))
    has_names = suffix_of(table) in (*PARQUET_SUFFIXES, *ARROW_SUFFIXES)
    if not has_names and has_header == (columns is not None):
        raise OptionError(
            "--has-header",
            "say either that the first line names the columns (--has-header), or what the columns are called "
            "(--columns a,b): it is never guessed, for somebody's record would be published",
        )
    names = read_names(table) if columns is None else _split(columns)
    reading = Dialect.of(header=has_header or has_names)
    return OpenSchema.of(name or called(table), names, reading=reading)


def _split(columns: str) -> list[str]:
    return [each.strip() for each in columns.split(",")]


def discover(
    table: Annotated[str | None, typer.Argument(help="The private table.")] = None,
    *,
    adbc: Adbc = None,
    query: DatabaseQuery = None,
    driver: Driver = None,
    epsilon: Annotated[str, typer.Option(help="What may be spent on it.")],
    delta: Annotated[str | None, typer.Option(help="With epsilon; without it no levels are learnt.")] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            help="Names, with kinds of some columns: of schema init --header-only, or of a run that ended early."
        ),
    ] = None,
    has_header: HasHeader = False,
    columns: Columns = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="The kind of a column, as in age=integer; again for others.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The data set's name; default: the ledger's, or the file's.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="The book that pays; without one, nothing is remembered.")] = None,
    relation: Annotated[str | None, typer.Option(help="add-remove or replace-one; default: the ledger's.")] = None,
    unit: Unit = None,
    max_rows: Annotated[int | None, typer.Option(help="With --unit, how many rows of one person count.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The schema file to write; needed, for it is paid for.")
    ] = None,
    counts: Annotated[
        Path | None, typer.Option(help="Where to write the noisy counts it was learnt from, as JSON.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a schema from private rows, with noise, and pay for it."""
    with spending(output), working("reading the table", is_wanted=not as_json):
        if name is None and ledger is not None:
            name = Ledger.open(ledger).terms.dataset
        data = table_of(table, adbc, query, driver)
        opened = OpenSchema.load(schema) if schema else _named(data, has_header=has_header, columns=columns, name=name)
        if output is None:
            raise OptionError(
                "--output", "name the file of the schema: what is learnt is kept beside it as it is paid for"
            )
        learnt = learn(
            data,
            opened,
            epsilon=epsilon,
            delta=delta,
            kinds=_kinds(kind or []),
            name=name,
            ledger=ledger,
            relation=relation,
            unit=unit,
            max_rows=max_rows,
            output=output,
            counts=counts,
        )
    if as_json:
        write_json({"output": str(output), "cost": str(learnt.cost), "schema": learnt.dump()})
        return
    say(f"Spent {learnt.cost}.")
    say(f"Left out: {', '.join(learnt.left_out)}." if learnt.left_out else "Every open column is modelled.")
    say(f"Wrote {output}. Read it through; what you know to be public may be added.")


def _kinds(given: list[str]) -> dict[str, str]:
    """The kinds of columns that were declared as column=kind."""
    pairs = [each.rpartition("=") for each in given]
    if not all(name and kind for name, _, kind in pairs):
        raise OptionError("--kind", "give a column and its kind, as in age=integer")
    return {name: kind for name, _, kind in pairs}


def ask(
    table: Annotated[str, typer.Argument(help="The private table; nothing but its header is read.")],
    *,
    has_header: HasHeader = False,
    columns: Columns = None,
    name: Name = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Make a schema from answers in the terminal, about names alone."""
    check_output(output)
    opened = _named(table, has_header=has_header, columns=columns, name=name)
    say("For every column, what is publicly known of it. Nothing is read from the rows.")
    told = {column.name: _asked(column) for column in opened.open}
    whole = opened.whole(told)
    ids = [column.name for column in whole.columns if column.kind == "id"]
    if ids:
        person = _answer(f"Which of {', '.join(ids)} names the person of a row? (empty: none)")
        whole = Schema.of(whole.columns, name=whole.name, person=person or None, reading=whole.reading)
    _write(whole.dump(), output, as_json=as_json, columns=[column.name for column in whole.columns])


def from_codebook(
    codebook: Annotated[Path, typer.Argument(help="CSV of column, value, label; Frictionless JSON; DDI XML.")],
    *,
    name: Name = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Make a schema from the documentation of a table. No rows are read."""
    check_output(output)
    opened, comments = read_codebook(codebook, name=name)
    text = opened.dump(comments) if opened.open else schema_file.dump(opened.whole({}), comments)
    _write(text, output, as_json=as_json, columns=[column.name for column in opened.columns])
    if opened.open and not as_json:
        say(f"Still open: {', '.join(column.name for column in opened.open)}. Give each a kind, levels or bounds.")


def _asked(column: OpenColumn) -> Column:
    """A column from what a person answers; asked again until it can be one."""
    while True:
        kind = _answer(f"{column.name}: which kind? {', '.join(schema_file.WORDS)}")
        options = f"kind: {kind}"
        need = NEEDS.get(kind)
        if need is not None:
            example = next(each for each in EXAMPLES if f"kind: {kind.removesuffix('time')}" in each)
            answer = _answer(f"{column.name}: {need}? with commas, as in {example}")
            options += f", {need}: [{answer.strip('[]')}]"
        if kind in ("real", "date", "datetime"):
            options += f", bins: {_answer(f'{column.name}: bins? (empty: {_BINS[kind]})') or _BINS[kind]}"
        if kind not in ("id", "text"):
            options += ", nullable: true"
        try:
            return schema_file.column_of(column.name, options)
        except SchemaError as error:
            say(f"{error.reason}; please answer again.")


def _answer(question: str) -> str:
    """What a person types; the question goes to stderr, so that stdout has the schema alone."""
    say(question)
    line = sys.stdin.readline()
    if not line:
        raise typer.Abort
    return line.strip()


_BINS = {"real": "20", "date": "{every: year}", "datetime": "{every: month}"}


def _write(text: str, output: Path | None, *, as_json: bool, columns: list[str]) -> None:
    if output is not None:
        with written_whole(output) as draft:
            draft.write_text(text, encoding="utf-8", newline="\n")
    if as_json:
        write_json({"schema": text} if output is None else {"output": str(output), "columns": columns})
    elif output is None:
        write_data(text)
