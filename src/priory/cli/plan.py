"""Plan: the verb that rehearses a fit without the private table."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from priory.app.forecast import RUNS, SECONDS, Forecast, Planner, Rehearsal
from priory.app.public_check import public_fitness
from priory.cli.fit import complete_mechanism
from priory.cli.output import AsJson, json_text, say, write, write_json
from priory.cli.privacy import Delta, Effort, RelationName
from priory.cli.progress import working
from priory.cli.tables import Adbc, DatabaseQuery, Driver, Engine, PublicQuery, public_of, table_of
from priory.data.schema import Schema
from priory.data.sources.same import refuse_same
from priory.data.table import text_table
from priory.errors import OptionError
from priory.mechanisms.steps.effort import NORMAL
from priory.privacy.budget import Budget
from priory.privacy.even_noise import even_stddev
from priory.queries.sensitivity import Relation

SHOWN = 10


def plan(
    schema: Annotated[Path, typer.Option(help="The schema of the table.")],
    rows: Annotated[int, typer.Option("--rows", "-n", help="How many rows the private table has, as you may say.")],
    *,
    epsilon: Annotated[list[str] | None, typer.Option(help="What may be spent; repeat it to compare.")] = None,
    delta: Delta = None,
    rho: Annotated[list[str] | None, typer.Option(help="Or in zCDP; repeat it to compare.")] = None,
    relation: RelationName = Relation.ADD_REMOVE.value,
    max_rows: Annotated[int, typer.Option(help="How many rows of one person count.")] = 1,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="Which recipe; default: weighing; prior with --public.",
            autocompletion=complete_mechanism,
        ),
    ] = None,
    public: Annotated[str | None, typer.Option(help="A public table with the same columns, to rehearse on.")] = None,
    adbc: Adbc = None,
    public_query: PublicQuery = None,
    driver: Driver = None,
    effort: Effort = NORMAL,
    seconds: Annotated[float, typer.Option(help="About how much work rehearsals may be, in CPU seconds.")] = SECONDS,
    runs: Annotated[int, typer.Option(help="How many rehearsals of a budget are averaged, if there is time.")] = RUNS,
    check: Annotated[str | None, typer.Option(help="A private table to check the public one by; it is paid.")] = None,
    query: DatabaseQuery = None,
    engine: Engine = None,
    price: Annotated[str | None, typer.Option(help="With --check, what it may cost, in rho if --rho is given.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="With --check, the book that pays.")] = None,
    as_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print each forecast as a line of JSON, as it comes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Forecast time, memory and errors of a fit. Without --check no private table is opened and nothing is spent.

    The fit is rehearsed on a made-up table of that many rows: drawn from public data, or with typical dependences.
    """
    budgets = _budgets(epsilon, rho, delta, relation, max_rows)
    public_table = public_of(public, adbc, public_query, driver)
    private_table = _private_of(check, adbc, query, driver)
    if private_table is None:
        _check_no_look(price, ledger, engine)
    else:
        _check_look(public_table, price, as_lines=as_lines)
        refuse_same(private_table, public_table)
    described = Schema.load(schema)
    is_for_people = not (as_json or as_lines)
    with working("reading the public table", is_wanted=is_for_people):
        planner = Planner.of(described, rows, mechanism=mechanism, public=public_table, effort=effort)
    if is_for_people:
        write(_facts(described, rows, planner.mechanism.name, budgets))
        sys.stdout.flush()
    with working("rehearsing", is_wanted=is_for_people):
        write_one = _write_line if as_lines else _say_first if is_for_people else None
        rehearsals = _rehearsed(planner.forecasts(budgets, seconds=seconds, runs=runs), write_one)
    if as_lines:
        return
    forecast = Forecast.of(planner, rehearsals)
    fitness = None
    if private_table is not None:
        fitness = public_fitness(
            private_table,
            schema,
            public_table,
            epsilon=None if rho else price,
            delta=None if rho else delta,
            rho=price if rho else None,
            ledger=ledger,
            relation=None if ledger else relation,
            engine=engine,
        )
    if as_json:
        write_json(forecast.to_dict() | ({} if fitness is None else {"public_check": asdict(fitness)}))
        return
    write(f"\n{forecast}")
    if fitness is not None:
        write(f"\nFor {'rho' if rho else 'epsilon'} = {price}, {fitness}")
    _show_worst(forecast.rehearsals[-1])
    if public_table is None:
        say("No made-up table is like yours: columns that are more even, or depend more, have larger errors.")
        say("Give --public to rehearse on rows like yours.")
    else:
        say("Public rows, drawn anew, played the private table: one that differs by more than chance is farther off.")


def _private_of(check: str | None, adbc: str | None, query: str | None, driver: str | None) -> object | None:
    """The private table that is to be looked at; None where nothing is."""
    if check is None and query is None:
        return None
    # The database may have the public table alone.
    return table_of(check, adbc if query is not None else None, query, driver if query is not None else None)


def _check_look(public: object | None, price: str | None, *, as_lines: bool) -> None:
    """Refuse a paid look that lacks something."""
    if public is None or price is None:
        raise OptionError("--check", "it needs --public, and a --price that is paid for the look")
    if as_lines:
        raise OptionError("--json-lines", "it has forecasts alone; take --json with --check")


def _check_no_look(price: str | None, ledger: Path | None, engine: str | None) -> None:
    """Refuse options about a paid look where there is none."""
    if any(each is not None for each in (price, ledger, engine)):
        raise OptionError(
            "--check", "name the private table that --price, --ledger and --engine are about, or leave them out"
        )


def _rehearsed(forecasts: Iterable[Rehearsal], write_one: Callable[[Rehearsal], None] | None) -> list[Rehearsal]:
    """The last forecast of each budget; each one is written as it comes, where it is to be."""
    final = []
    for found in forecasts:
        if found.is_final:
            final.append(found)
        if write_one is not None:
            write_one(found)
    return final


def _say_first(found: Rehearsal) -> None:
    """Say a forecast that a better one follows."""
    if not found.is_final:
        say(_line(found))


def _write_line(found: Rehearsal) -> None:
    """Print a forecast as a line of JSON, at once."""
    sys.stdout.write(json_text(found.to_dict(), indent=None))
    sys.stdout.flush()


def _facts(schema: Schema, rows: int, mechanism: str, budgets: list[Budget]) -> str:
    """What is known before any rehearsal: the table's size, and how noisy counts are for what may be spent."""
    domain = schema.domain
    cells = f"{sum(domain.shape):,} values in all"
    lines = [f"{schema.name}: {rows:,} rows, {len(domain)} columns with {cells}; {mechanism}."]
    header = ["budget", "noise of a single count", f"of each of {len(domain)} columns' counts"]
    table = [[str(each), f"{even_stddev(each, 1):.1f}", f"{even_stddev(each, len(domain)):.1f}"] for each in budgets]
    return "\n".join([*lines, text_table(header, table, right=[False, True, True])])


def _line(found: Rehearsal) -> str:
    some = "" if found.rehearsed == found.of else f" (from {found.rehearsed} of {found.of} columns)"
    return f"{found.budget}: {found.seconds:.1f} CPU s, mean error {found.mean:.4f}{some}"


def _show_worst(last: Rehearsal) -> None:
    pairs = [[" × ".join(pair), f"{error:.4f}"] for pair, error in last.worst[:SHOWN]]
    if pairs:
        write(f"\nWorst pairs at {last.budget}")
        write(text_table(["pair", "error"], pairs, right=[False, True]))


def _budgets(
    epsilon: list[str] | None, rho: list[str] | None, delta: str | None, relation: str, max_rows: int
) -> list[Budget]:
    if rho and epsilon:
        raise OptionError("--rho", "give either --rho or --epsilon, not both")
    if not rho and not epsilon:
        raise OptionError("--epsilon", "say what may be spent; repeat it to compare several")
    if rho:
        return [Budget.of(rho=each, relation=relation, max_rows=max_rows) for each in rho]
    return [Budget.of(epsilon=each, delta=delta, relation=relation, max_rows=max_rows) for each in epsilon or []]
