"""Fit: the verb that makes a release."""

import csv
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from priory.app.fit import fit as make_release
from priory.app.registry import MECHANISMS
from priory.cli.notebook import check_notebook, write_notebook
from priory.cli.output import AsJson, Stopped, say, write_json, write_statement
from priory.cli.privacy import Delta, Effort, Epsilon, Rho, Unit, check_release_name
from priory.cli.progress import shown
from priory.cli.tables import Adbc, DatabaseQuery, Driver, Engine, PublicQuery, public_of, table_of
from priory.data.schema import Schema
from priory.errors import NOTHING_SPENT, PrioryError, SizeError, Spent
from priory.mechanisms.steps.effort import NORMAL
from priory.privacy.encoding import encode_statement
from priory.privacy.outputs import check_apart
from priory.queries.query import Query
from priory.queries.workload import Workload


def complete_mechanism(incomplete: str) -> list[tuple[str, str]]:
    """The mechanisms whose names begin so, for shells."""
    return [(name, entry.summary) for name, entry in MECHANISMS.items() if name.startswith(incomplete)]


def fit(
    data: Annotated[
        str | None, typer.Argument(help="The private table, of any kind that can be opened; - is CSV from stdin.")
    ] = None,
    *,
    schema: Annotated[Path, typer.Option(help="The schema of the table.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The release file to write.")],
    adbc: Adbc = None,
    query: DatabaseQuery = None,
    driver: Driver = None,
    engine: Engine = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="Which recipe; default: weighing; prior with --public.",
            autocompletion=complete_mechanism,
        ),
    ] = None,
    public: Annotated[str | None, typer.Option(help="A public table with the same columns, to start from.")] = None,
    public_query: PublicQuery = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Columns, with commas, that make groups; again for finer.")
    ] = None,
    workload: Annotated[
        list[str] | None, typer.Option(help="Columns, with commas, whose marginal matters; again for more.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The book that pays; without one, nothing is remembered.")] = None,
    relation: Annotated[str | None, typer.Option(help="add-remove or replace-one; default: the ledger's.")] = None,
    unit: Unit = None,
    max_rows: Annotated[int | None, typer.Option(help="With --unit, how many rows of one person count.")] = None,
    randomness: Annotated[str, typer.Option(help="Who draws the noise: priory, or opendp (an extra).")] = "priory",
    row_limit: Annotated[
        int | None, typer.Option(help="How many rows the table may have at most; default: 2^32.")
    ] = None,
    effort: Effort = NORMAL,
    notebook: Annotated[
        Path | None, typer.Option(help="Also write a Jupyter notebook (.ipynb) that opens, asks and draws it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a release of a private table."""
    with spending(output), _spoken_warnings(), shown("reading the table", is_wanted=not as_json) as progress:
        check_release_name(output)
        if notebook is not None:
            check_notebook(notebook)
            check_apart({"--output": output, "--notebook": notebook})
        release = make_release(
            table_of(data, adbc, query, driver),
            schema,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            mechanism=mechanism,
            public=public_of(public, adbc, public_query, driver),
            by=[level.split(",") for level in by] if by else None,
            workload=_workload(schema, workload) if workload else None,
            ledger=ledger,
            output=output,
            relation=relation,
            unit=unit,
            max_rows=max_rows,
            row_limit=row_limit,
            engine=engine,
            effort=effort,
            progress=progress,
            randomness=randomness,
        )
    if notebook is not None:
        write_notebook(notebook, release, output)
    if as_json:
        write_json({"output": str(output), "statement": encode_statement(release.statement)})
        return
    write_statement(release.statement)
    say(f"Wrote {output}{'' if notebook is None else f' and {notebook}'}.")


def _workload(schema: Path, marginals: list[str]) -> Workload:
    """The marginals of columns that are named with commas; where a name has commas itself, it is quoted as in CSV."""
    domain = Schema.load(schema).domain
    return Workload.of(Query.marginal(domain, domain.clique(next(csv.reader([each])))) for each in marginals)


@contextmanager
def _spoken_warnings() -> Iterator[None]:
    """Say warnings in a sentence, without the line of code that they come from."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: say(f"Warning: {message}.")
        yield


@contextmanager
def spending(output: Path | None) -> Iterator[None]:
    """Let no end of a run leave the question open what was spent; SIGTERM ends it as Ctrl-C does."""
    is_terminated = threading.Event()
    try:
        with _terminable(is_terminated):
            yield
    except PrioryError as error:
        error.spent = error.spent or NOTHING_SPENT
        raise
    except KeyboardInterrupt as error:
        word, number = ("terminated", signal.SIGTERM) if is_terminated.is_set() else ("interrupted", signal.SIGINT)
        raise Stopped(word, _left_by(error, output), exit_code=128 + number) from None
    except MemoryError as error:
        raise Stopped("out of memory", _left_by(error, output), exit_code=SizeError.exit_code) from None


def _left_by(error: BaseException, output: Path | None) -> Spent | None:
    """What was spent; None where the output was written before the error came."""
    spent: Spent | None = getattr(error, "spent", None)
    return NOTHING_SPENT if spent is None and not (output and output.exists()) else spent


@contextmanager
def _terminable(is_terminated: threading.Event) -> Iterator[None]:
    """Let SIGTERM set the event and do what Ctrl-C does, where nobody has decided otherwise."""
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def terminate(_number: int, _frame: FrameType | None) -> None:
        is_terminated.set()
        # This very class: of another one, DuckDB would only say that a function has failed.
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
