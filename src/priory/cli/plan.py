"""Plan: the verb that rehearses a fit without the private table."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from priory.app.forecast import SECONDS, Forecast, Rehearsal, forecast
from priory.app.public_check import public_fitness
from priory.cli.fit import complete_mechanism
from priory.cli.output import AsJson, say, write, write_json
from priory.cli.privacy import Delta, Effort, RelationName
from priory.data.schema import Schema
from priory.data.table import text_table
from priory.errors import OptionError
from priory.mechanisms.steps.effort import NORMAL
from priory.privacy.budget import Budget
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
    mechanism: Annotated[
        str | None,
        typer.Option(help="Which recipe; default: aim, or prior with --public.", autocompletion=complete_mechanism),
    ] = None,
    public: Annotated[Path | None, typer.Option(help="A public table with the same columns, to rehearse on.")] = None,
    effort: Effort = NORMAL,
    seconds: Annotated[float, typer.Option(help="About how long the rehearsals may take.")] = SECONDS,
    runs: Annotated[int, typer.Option(help="How many rehearsals of each budget are averaged.")] = 1,
    check: Annotated[Path | None, typer.Option(help="A private table to check --public against; this is paid.")] = None,
    price: Annotated[str | None, typer.Option(help="With --check, what it may cost, in rho if --rho is given.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="With --check, the book that pays.")] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast time, memory and errors of a fit. Without --check no private table is opened and nothing is spent.

    The fit is rehearsed on a made-up table of that many rows: drawn from public data, or with uneven shares at random.
    """
    budgets = _budgets(epsilon, rho, delta, relation)
    if check is not None and (public is None or price is None):
        raise OptionError("--check", "it needs --public, and a --price that is paid for the look")
    if check is None and (price is not None or ledger is not None):
        raise OptionError(
            "--check", "name the private table that --price and --ledger pay a look at, or leave them out"
        )
    told = (lambda _: None) if as_json else say
    found = forecast(
        Schema.load(schema),
        rows,
        budgets,
        mechanism=mechanism,
        public=public,
        runs=runs,
        effort=effort,
        seconds=seconds,
        told=told,
    )
    fitness = None
    if check is not None:
        fitness = public_fitness(
            check,
            schema,
            public,
            epsilon=None if rho else price,
            delta=None if rho else delta,
            rho=price if rho else None,
            ledger=ledger,
            relation=None if ledger else relation,
        )
    if as_json:
        write_json(_as_json(found) | ({} if fitness is None else {"public_check": asdict(fitness)}))
        return
    write(str(found))
    if fitness is not None:
        write(f"\nFor {'rho' if rho else 'epsilon'} = {price}, {fitness}")
    last = found.rehearsals[-1]
    pairs = [[" × ".join(pair), f"{error:.4f}"] for pair, error in last.worst[:SHOWN]]
    if pairs:
        write(f"\nWorst pairs at {last.budget}")
        write(text_table(["pair", "error"], pairs, right=[False, True]))
    if public is None:
        say("A made-up table says what noise does; give --public to see what a model can express of one like yours.")
    else:
        say("Half of the public rows played the private table: one that differs by more than chance is farther off.")


def _budgets(epsilon: list[str] | None, rho: list[str] | None, delta: str | None, relation: str) -> list[Budget]:
    if rho and epsilon:
        raise OptionError("--rho", "give either --rho or --epsilon, not both")
    if not rho and not epsilon:
        raise OptionError("--epsilon", "say what may be spent; repeat it to compare several")
    if rho:
        return [Budget.of(rho=each, relation=relation) for each in rho]
    return [Budget.of(epsilon=each, delta=delta, relation=relation) for each in epsilon or []]


def _as_json(found: Forecast) -> dict[str, Any]:
    return {
        "schema": found.schema,
        "rows": found.rows,
        "mechanism": found.mechanism,
        "rehearsed_on": found.rehearsed_on,
        "columns": found.columns,
        "rehearsals": [_rehearsal(each) for each in found.rehearsals],
    }


def _rehearsal(each: Rehearsal) -> dict[str, Any]:
    return {
        "budget": str(each.budget),
        "cpu_seconds": each.seconds,
        "memory_in_bytes": each.memory_in_bytes,
        "mean_error": each.mean,
        "columns_rehearsed": each.rehearsed,
        "time_off": each.time_off,
        "error_off": each.error_off,
        "columns": [{"column": name, "error": error} for name, error in each.columns.items()],
        "pairs": [{"columns": list(pair), "error": error} for pair, error in each.worst],
    }
