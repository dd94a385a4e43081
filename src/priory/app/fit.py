"""Fit: the whole job, from a private table to a release."""

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from priory.app.account import accounted
from priory.app.recipe import ordered, recipe_of
from priory.app.registry import Mechanism
from priory.data.schema import Schema
from priory.data.sources.opening import check_engine, open_source
from priory.data.sources.same import refuse_same
from priory.data.sources.source import checked_row_limit
from priory.data.sources.spark import is_spark_frame
from priory.errors import BudgetError, DomainError, PrioryError
from priory.mechanisms.steps.effort import NORMAL
from priory.privacy.budget import Budget, Number
from priory.privacy.cautions import warn_after
from priory.privacy.curator import Curator
from priory.privacy.currency import budget_for
from priory.privacy.ledger import Ledger
from priory.privacy.progress import Progress, Step, silent
from priory.privacy.randomness import Randomness, source_of
from priory.privacy.recorder import Recorder
from priory.privacy.statement import cost_of, promises_of
from priory.queries.sensitivity import Relation
from priory.queries.workload import Workload
from priory.release import Release
from priory.release.partial import Partial
from priory.work import heard_by


def fit(
    data: object,
    schema: Schema | str | Path,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    mechanism: str | Mechanism | None = None,
    public: object | None = None,
    by: Sequence[Sequence[str]] | None = None,
    workload: Workload | None = None,
    ledger: Ledger | str | Path | None = None,
    output: str | Path | None = None,
    relation: str | Relation | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
    row_limit: int | None = None,
    engine: str | None = None,
    effort: str = NORMAL,
    progress: Progress = silent,
    randomness: Randomness | str | None = None,
) -> Release:
    """Make a release of private data.

    Everything that can be checked without the data is checked first; then the budget is reserved; only then are rows
    read. An error before the first count costs nothing. Every exception that leaves this function has what the run cost
    as its attribute `spent` (`priory.errors.Spent`), and what was answered until then as `partial`: None, or a
    `Partial` from which `recover` makes a release.

    Args:
        data: the private table: a path, a frame, a DuckDB relation, a stream of Arrow batches, a `Database`, or a
            source (which then keeps `max_rows` itself).
        schema: what its columns are; a schema or the path of its file.
        epsilon: what may be spent, with `delta`; pure without it.
        delta: see `epsilon`.
        rho: or what may be spent in zCDP.
        mechanism: which recipe: a registered name, or one with custom settings. By default it is "weighing",
            with a `workload` "aim", with `public` "prior", and with `by` "prior-update".
        public: a public table with the same columns, for a registered mechanism that can start from one.
        by: for each level of groups within groups, the columns that it adds, such as [["state"], ["area", "year"]].
            Which groups there are is the schema's word where it declares groups by all of them, else all combinations.
        workload: the queries whose answers matter, for a mechanism that can aim at some; by default its own choice.
        ledger: the book that pays, or the path of its file; None for a book of exactly this much that is forgotten.
        output: where to write the release file. What is paid for is written to a file beside it, with ".partial" after
            its name, before anything is estimated from it; a run that ends early leaves that file for `recover` and
            `priory estimate`. Without an output nothing is written.
        relation: which tables are neighbours; by default the ledger's, "add-remove" without one.
        unit: the column that says which person a row is about; by default the ledger's, or without one the schema's.
            Where neither names a person, rows are protected, and the statement says so.
        max_rows: with `unit`, how many rows of one person count; by default the ledger's, 1 without one.
        row_limit: how many rows the table may have at most, as is publicly known; 2^32 by default. Answers have room
            for as many, and are cut off where there are more. A source declares its own.
        engine: where rows are counted: "memory", "duckdb" or "spark"; by default in memory where they fit it, else in
            DuckDB. Spark reads `data` as the name of a table or a path of its own.
        effort: "low", "normal" or "high": how large a model the mechanism may make, and how much it looks at; a cap in
            public units, never a clock. Not every mechanism has one.
        progress: called with a `Step` as each round of the mechanism begins.
        randomness: who draws the noise: "priory", the default, or "opendp", which needs the extra `priory[opendp]` and
            has no rounded Gaussian noise. Anything else is for tests and stamps the release NOT PRIVATE.

    Raises:
        BudgetError: it costs more than is left. Nothing was looked at.
        LedgerError: the book cannot be used. Nothing was spent.
        DataError: the public table does not fit the schema, has no rows, or is the private one. Nothing was spent.
    """
    with accounted() as account:
        refuse_same(data, public)
        entry, job = ordered(schema, mechanism, public, by, workload, effort=effort)
        schema, text = job.schema, job.schema.dump()
        checked_row_limit(row_limit)
        is_elsewhere = engine == "spark" or is_spark_frame(data)
        check_engine(engine)
        recipe = recipe_of(entry, job)
        book = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
        relation, unit, max_rows = _protected(book, schema, relation, unit, max_rows)
        # What part of the budget private choices cost; all of it where a mechanism does not say.
        choices = getattr(recipe, "choice_share", Fraction(1))
        noise = source_of(randomness)
        budget = budget_for(
            book,
            noise,
            choice_share=choices,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            relation=relation,
            max_rows=max_rows,
        )
        if budget.is_pure and not entry.is_pure:
            raise BudgetError(f"{entry.name} needs Gaussian noise, which a pure epsilon cannot pay for; give a delta")
        if book is None:
            book = Ledger.in_memory(budget, dataset=schema.name, schema=text, person=unit)
        book.check(schema=text, person=unit)
        # What a person may have edited is noticed before anything is paid: the statement needs the sum.
        promises_of(budget, cost_of(schema.discovered))
        if unit not in (None, schema.person):
            schema.column(unit)
        account.keeper = recorder = Recorder.beside(output, job)
        account.result = lambda recorded: Partial(*recorded)
        account.asked = book, budget
        account.reservation = book.reserve(budget, entry.name)
        with account.reservation as reservation:
            if not book.terms.schema:
                book.bind(text)
            # What is read elsewhere takes long, and reports how far it has come.
            reading = partial(_read_so_far, progress, budget)
            with heard_by(reading) if is_elsewhere else nullcontext():
                source = open_source(
                    data, schema, unit=unit, max_rows=max_rows, key=book.secret, row_limit=row_limit, engine=engine
                )
            if source.domain != schema.domain:
                raise DomainError("the source's attributes are not the schema's")
            zeros = schema.impossible()
            curator = Curator(
                reservation, source, randomness=noise, progress=progress, impossible=zeros, journal=recorder
            )
            unusual = "" if effort == NORMAL else effort
            statement = replace(curator.statement(entry.name), effort=unusual)
            recorder.begin(statement, reservation.number, source.row_limit)
            release = recipe.run(curator, budget)
        release = replace(release, statement=replace(release.statement, effort=unusual)).with_schema(schema)
        # What was measured is paid for, whether or not a model can be made of it.
        with suppress(PrioryError):
            release = release.with_estimate()
        if output is not None:
            release.save(output)
            recorder.remove()
        if release.estimate is not None:
            warn_after(release.statement.promises[0], release.estimate.total)
        return release


def _read_so_far(progress: Progress, budget: Budget, _share: float, note: str) -> None:
    progress(Step(0, None, Fraction(0), budget, note))


def _protected(
    book: Ledger | None, schema: Schema, relation: str | Relation | None, unit: str | None, max_rows: int | None
) -> tuple[str | Relation, str | None, int]:
    """Which tables are neighbours, the person's column, how many rows count; by default as ledger or schema says."""
    if book is None:
        usual: tuple[Relation, str | None, int] = Relation.ADD_REMOVE, schema.person, 1
    else:
        usual = book.terms.total.relation, book.terms.person, book.terms.total.max_rows
    relation, unit = usual[0] if relation is None else relation, usual[1] if unit is None else unit
    return relation, unit, usual[2] if max_rows is None else max_rows
