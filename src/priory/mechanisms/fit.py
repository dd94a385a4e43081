"""Fit: the whole job, from a private table to a release."""

from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import cast

from priory.data.opening import open_source
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.data.source import Source, checked_row_limit
from priory.errors import BudgetError, DomainError, OptionError, PrioryError
from priory.mechanisms.currency import budget_for
from priory.mechanisms.prior_update import PriorUpdate
from priory.mechanisms.registry import Mechanism, Registered, chosen
from priory.model.bases import PublicRows
from priory.privacy.budget import Number
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger, Reservation
from priory.privacy.progress import Progress, silent
from priory.privacy.randomness import Randomness, source_of
from priory.queries.sensitivity import Relation
from priory.queries.workload import Workload
from priory.release import Release
from priory.release.estimated import possible, uniform


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
    relation: str | Relation | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
    row_limit: int | None = None,
    progress: Progress = silent,
    randomness: Randomness | str | None = None,
) -> Release:
    """Make a release of private data.

    Everything that can be checked without the data is checked first; then the budget is reserved; only then are rows
    read. An error before the first count costs nothing.

    Args:
        data: the private table: a path, a frame, a DuckDB relation, or a source (which then keeps `max_rows` itself).
        schema: what its columns are; a schema or the path of its file.
        epsilon: what may be spent, with `delta`; pure without it.
        delta: see `epsilon`.
        rho: or what may be spent in zCDP.
        mechanism: which recipe: a registered name, or one with settings of one's own. Unless told it is "aim", with
            `public` "prior", and with `by` "prior-update".
        public: a public table with the same columns, for a registered mechanism that can start from one.
        by: for each level of groups within groups, the columns that it adds, such as [["state"], ["area", "year"]].
            Which groups there are is the schema's word where it declares groups by all of them, else all combinations.
        workload: the queries whose answers matter, for a mechanism that can aim at some; its own choice unless told.
        ledger: the book that pays, or the path of its file; None for a book of exactly this much that is forgotten.
        relation: which tables are neighbours; the ledger's unless told, "add-remove" without one.
        unit: the column that says which person a row is about; unless told, the ledger's, or without one the schema's.
            Where neither names a person, rows are protected, and the statement says so.
        max_rows: with `unit`, how many rows of one person count; the ledger's unless told, 1 without one.
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
    source_of_noise = source_of(randomness)
    schema = schema if isinstance(schema, Schema) else Schema.load(schema)
    usual = "prior-update" if by is not None and mechanism is None else mechanism
    entry = chosen(usual, has_public=public is not None)
    if by is not None:
        entry = _grouped(entry, schema, by, public)
    # Constraints that leave nothing are noticed now, before anything is paid.
    uniform(schema.domain, schema)
    recipe = entry.build(schema.domain) if public is None else _upon(entry, schema, public)
    recipe = recipe if workload is None else _aimed(entry, recipe, workload.checked(schema.domain))
    book = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
    if book is not None:
        terms = book.terms
        relation = terms.total.relation if relation is None else relation
        unit = terms.person if unit is None else unit
        max_rows = terms.total.max_rows if max_rows is None else max_rows
    elif unit is None:
        unit = schema.person
    budget = budget_for(
        recipe,
        book,
        source_of_noise,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        relation=Relation.ADD_REMOVE if relation is None else relation,
        max_rows=1 if max_rows is None else max_rows,
    )
    if budget.is_pure and not entry.is_pure:
        raise BudgetError(f"{entry.name} needs Gaussian noise, which a pure epsilon cannot pay for; give a delta")
    text = schema.dump()
    if book is None:
        book = Ledger.in_memory(budget, dataset=schema.name, schema=text, person=unit)
    book.check(schema=text, person=unit)
    if unit is not None:
        schema.column(unit)
    checked_row_limit(row_limit)
    reservation = book.reserve(budget, entry.name)
    try:
        with reservation:
            source = open_source(
                data, schema, unit=unit, max_rows=budget.max_rows, key=book.secret, row_limit=row_limit
            )
            _check_domain(source, schema)
            known = schema.impossible()
            curator = Curator(reservation, source, randomness=source_of_noise, progress=progress, impossible=known)
            release = recipe.run(curator, budget)
    except BaseException as error:
        error.add_note(_charged(book, reservation))
        raise
    try:
        return release.with_schema(schema).with_estimate()
    except PrioryError:
        # It is paid for: whoever reads its measurements may find a way to model them.
        return release.with_schema(schema)


def _grouped(entry: Registered, schema: Schema, by: Sequence[Sequence[str]], public: object | None) -> Registered:
    """The recipe for groups within groups, checked before anything is spent."""
    if entry.name != "prior-update" or public is None:
        raise OptionError("by", "groups within groups need public data and the mechanism prior-update")
    levels = tuple(tuple(level) for level in by)
    names = [name for level in levels for name in level]
    try:
        schema.domain.checked(names)
    except DomainError as error:
        raise OptionError("by", str(error)) from None
    declared = next((group for group in schema.groups if set(group.by) == set(names)), None)
    groups = None
    if declared is not None:
        order = [declared.by.index(name) for name in names]
        groups = tuple(tuple(codes[i] for i in order) for codes in declared.codes(schema.columns))

    def upon(rows: PublicRows) -> Mechanism:
        recipe = PriorUpdate(public=rows, by=levels, groups=groups)
        recipe.levels(schema.domain)
        return recipe

    return replace(entry, upon=upon)


def _check_domain(source: Source, schema: Schema) -> None:
    if source.domain != schema.domain:
        raise DomainError("the source's attributes are not the schema's. Nothing was spent")


def _charged(book: Ledger, reservation: Reservation) -> str:
    """What a run that did not end well has cost, for whoever reads its error."""
    if not reservation.events:
        return "Nothing was spent"
    what = f"the run had looked at private data, so that all it reserved stays charged: {reservation.budget}"
    return f"{what}, in memory only" if book.path is None else f"{what}, entry {reservation.number} of {book.path}"


def _aimed(entry: Registered, mechanism: object, workload: Workload) -> Mechanism:
    """The mechanism with another workload."""
    if not is_dataclass(mechanism) or isinstance(mechanism, type) or not hasattr(mechanism, "workload"):
        raise OptionError("workload", f"{entry.name} aims at nothing in particular; leave it out or take another")
    return cast(Mechanism, replace(mechanism, workload=workload))


def _upon(entry: Registered, schema: Schema, public: object) -> Mechanism:
    """The mechanism upon public rows, which are checked and encoded now."""
    if entry.upon is None:
        raise OptionError("public", f"{entry.name} has no use for public data; leave it out or take another mechanism")
    rows = PublicRows(public_codes(schema, public), schema.domain)
    possible(rows, schema.impossible())
    return entry.upon(rows)
