"""Fit: the whole job, from a private table to a release."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from priory.app.account import accounted
from priory.app.recipe import choice_share, ordered, recipe_of
from priory.app.registry import Mechanism
from priory.data.schema import Schema
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source, checked_row_limit
from priory.errors import BudgetError, DomainError, PrioryError
from priory.privacy.budget import Budget, Number
from priory.privacy.curator import Curator
from priory.privacy.currency import budget_for
from priory.privacy.ledger import Ledger
from priory.privacy.progress import Progress, silent
from priory.privacy.randomness import Randomness, source_of
from priory.queries.sensitivity import Relation
from priory.queries.workload import Workload
from priory.release import Release
from priory.release.partial import Recorder


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
    progress: Progress = silent,
    randomness: Randomness | str | None = None,
) -> Release:
    """Make a release of private data.

    Everything that can be checked without the data is checked first; then the budget is reserved; only then are rows
    read. An error before the first count costs nothing. Every exception that leaves this function has what the run cost
    as its attribute `spent` (`priory.errors.Spent`), and what was answered until then as `partial`: None, or a
    `Partial` from which `recover` makes a release.

    Args:
        data: the private table: a path, a frame, a DuckDB relation, or a source (which then keeps `max_rows` itself).
        schema: what its columns are; a schema or the path of its file.
        epsilon: what may be spent, with `delta`; pure without it.
        delta: see `epsilon`.
        rho: or what may be spent in zCDP.
        mechanism: which recipe: a registered name, or one with custom settings. By default it is "aim", with `public`
            "prior", and with `by` "prior-update".
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
        progress: called with a `Step` as each round of the mechanism begins.
        randomness: who draws the noise: "priory", the default, or "opendp", which needs the extra `priory[opendp]` and
            has no rounded Gaussian noise. Anything else is for tests and stamps the release NOT PRIVATE.

    Raises:
        BudgetError: it costs more than is left. Nothing was looked at.
        LedgerError: the book cannot be used. Nothing was spent.
        DataError: the public table does not fit the schema, or has no rows. Nothing was spent.
    """
    with accounted() as account:
        entry, job = ordered(schema, mechanism, public, by, workload)
        text = job.schema.dump()
        noise = source_of(randomness)
        recipe = recipe_of(entry, job)
        book = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
        protected = _Protected.of(book, job.schema, relation, unit, max_rows)
        budget = budget_for(
            book,
            noise,
            choice_share=choice_share(recipe),
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            relation=protected.relation,
            max_rows=protected.max_rows,
        )
        if budget.is_pure and not entry.is_pure:
            raise BudgetError(f"{entry.name} needs Gaussian noise, which a pure epsilon cannot pay for; give a delta")
        book = _checked_book(book, budget, job.schema, text, protected.unit)
        checked_row_limit(row_limit)
        recorder = account.recording(Recorder(job) if output is None else Recorder.beside(output, job), output)
        with account.reserved(book, budget, entry.name) as reservation:
            if not book.terms.schema:
                book.bind(text)
            source = open_source(
                data, job.schema, unit=protected.unit, max_rows=budget.max_rows, key=book.secret, row_limit=row_limit
            )
            _check_domain(source, job.schema)
            curator = Curator(
                reservation,
                source,
                randomness=noise,
                progress=progress,
                impossible=job.schema.impossible(),
                journal=recorder,
            )
            recorder.begin(curator.statement(entry.name), reservation.number)
            release = recipe.run(curator, budget)
        release = _estimated(release.with_schema(job.schema))
        if output is not None:
            release.save(output)
            recorder.remove()
        return release


@dataclass(frozen=True)
class _Protected:
    """Whom the promise is about.

    Attributes:
        relation: which tables are neighbours.
        unit: the column of the person, or None where rows are protected.
        max_rows: how many rows of one person count.
    """

    relation: str | Relation
    unit: str | None
    max_rows: int

    @classmethod
    def of(
        cls,
        book: Ledger | None,
        schema: Schema,
        relation: str | Relation | None,
        unit: str | None,
        max_rows: int | None,
    ) -> "_Protected":
        """What was asked for; by default what the ledger says, or without one the schema."""
        if book is None:
            usual = cls(Relation.ADD_REMOVE, schema.person, 1)
        else:
            usual = cls(book.terms.total.relation, book.terms.person, book.terms.total.max_rows)
        return cls(
            usual.relation if relation is None else relation,
            usual.unit if unit is None else unit,
            usual.max_rows if max_rows is None else max_rows,
        )


def _checked_book(book: Ledger | None, budget: Budget, schema: Schema, text: str, unit: str | None) -> Ledger:
    """The book that pays, one in memory by default, once it is sure that it is about this table.

    Raises:
        LedgerError: it is about another schema or another person.
        SchemaError: there is no such column.
    """
    if book is None:
        book = Ledger.in_memory(budget, dataset=schema.name, schema=text, person=unit)
    book.check(schema=text, person=unit)
    if unit is not None:
        schema.column(unit)
    return book


def _estimated(release: Release) -> Release:
    """The release with a model, where one can be made: it is paid for, with or without."""
    try:
        return release.with_estimate()
    except PrioryError:
        return release


def _check_domain(source: Source, schema: Schema) -> None:
    if source.domain != schema.domain:
        raise DomainError("the source's attributes are not the schema's")
