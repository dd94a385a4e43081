"""Job: the whole of a discovery, from the names of the columns to a schema with comments, paid for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from priory.app.account import accounted
from priory.app.discover import columns
from priory.app.discover.columns import Found
from priory.app.discover.discovery import Discovery
from priory.app.discover.first_look import FirstLook
from priory.app.discover.keeping import LearntSoFar
from priory.data.persons import PersonRule
from priory.data.probes import Spellings
from priory.data.schema.open import NEEDS, OpenSchema, read_names
from priory.data.sources.containers import PARQUET_SUFFIXES, suffix_of
from priory.data.sources.frames import held, names_of
from priory.data.sources.private import guarded
from priory.data.sources.raw import Probed, RawTable, open_raw
from priory.data.sources.source import checked_row_limit
from priory.errors import BudgetError, LedgerError, OptionError, SchemaError
from priory.privacy.budget import Budget, Currency, Number, epsilon_of, exact, positive
from priory.privacy.curator import Curator, NoisyValues
from priory.privacy.currency import in_mu_squared
from priory.privacy.ledger import DISCOVERY, Ledger, Reservation
from priory.privacy.measurement import Measurement
from priory.privacy.noise import RoundedGaussian
from priory.privacy.randomness import Randomness, is_private, source_of
from priory.privacy.statement import cost_of
from priory.queries.query import Query
from priory.queries.sensitivity import Relation
from priory.work import tracked

# Each column has the same budget. Of it, the first look has two parts, the grid and the values three.
FIRST, SECOND = Fraction(2, 5), Fraction(3, 5)


def discover(
    data: object,
    schema: OpenSchema | str | Path | None = None,
    *,
    epsilon: Number,
    delta: Number | None = None,
    columns: Sequence[str] | None = None,
    kinds: Mapping[str, str] | None = None,
    has_header: bool | None = None,
    name: str | None = None,
    ledger: Ledger | str | Path | None = None,
    relation: str | Relation | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
    row_limit: int | None = None,
    output: str | Path | None = None,
    counts: str | Path | None = None,
    randomness: Randomness | str | None = None,
) -> Discovery:
    """Learn the schema of a private table from its rows: levels, bounds, bins, spikes, and shares of missing cells.

    Everything is paid for before it is looked at. A value is told only where enough persons have it, so that a value of
    one person is told with a probability of at most half of `delta`; with a pure `epsilon` no values are told.

    Args:
        data: the private table: a path, a frame, or a DuckDB relation.
        schema: the names of its columns, with kinds of some of them; or the path of such a file.
        epsilon: what may be spent, with `delta`.
        delta: see `epsilon`.
        columns: instead of a schema, the names; where a CSV file has no header, those of its columns in order.
        kinds: the kinds of some columns, by the words of the schema file.
        has_header: for a CSV file without a schema, whether its first line names the columns: it is never guessed.
        name: what the data set is called; by default as the ledger, the schema or the file is.
        ledger: the book that pays, or the path of its file; one that was made without a schema will do.
        relation: which tables are neighbours; by default the ledger's, "add-remove" without one.
        unit: the column that says which person a row is about; by default the ledger's, else the schema's.
        max_rows: with `unit`, how many rows of one person count; by default the ledger's, 1 without one.
        row_limit: how many rows the table may have at most, as is publicly known; 2^32 by default.
        output: where to write the schema file. What is learnt is written to a file beside it, with ".partial" after its
            name, as it comes; a run that ends early leaves that file. Given as `schema`, it has another run learn the
            rest.
        counts: where to write the noisy counts it was learnt from, as JSON; in the same way.
        randomness: who draws the noise, as in `fit`.

    Raises:
        BudgetError: it costs more than is left. Nothing was looked at.
        SchemaError: names or kinds do not fit. Nothing was spent.
    """
    with accounted() as account:
        with guarded():
            data = held(data)
        noise = source_of(randomness)
        book = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
        known = schema if schema is not None else _names(data, columns, has_header=has_header)
        usual = Path(data).name.split(".")[0] if isinstance(data, str | Path) else "table"
        opened = _opened(known, name=usual, book=book, unit=unit)
        opened = (opened if name is None else replace(opened, name=name)).with_kinds(kinds or {})
        budget = _budget(book, noise, epsilon, delta, relation=relation, max_rows=max_rows)
        _check_before(opened, budget)
        if opened.person is None and budget.max_rows > 1:
            raise OptionError("max_rows", "it bounds the rows of a person: name the person column with unit, too")
        if book is None:
            book = Ledger.in_memory(budget, dataset=opened.name, person=opened.person)
        if book.terms.person != opened.person:
            raise LedgerError(f"this ledger protects {book.terms.unit}, so unit must be {book.terms.person!r}")
        limit = checked_row_limit(row_limit)
        rule = None if opened.person is None else PersonRule(opened.person, budget.max_rows, book.secret)
        begun = Discovery(opened, {}, budget, is_private(noise), is_whole=False)
        account.keeper = keeper = LearntSoFar.beside(begun, {"output": output, "counts": counts})
        account.asked = book, budget
        account.reservation = book.reserve(budget, DISCOVERY)
        with account.reservation as reservation:
            table = open_raw(
                data,
                [column.name for column in opened.open],
                rule,
                names=[column.name for column in opened.columns],
                reading=opened.reading,
                row_limit=limit,
            )
            found = looks(reservation, table, opened, noise, keeper)
        learnt = Discovery(opened, found, _cost(reservation), is_private(noise))
        keeper.finish(learnt)
        return learnt


def _opened(
    known: OpenSchema | str | Path | list[str], *, name: str, book: Ledger | None, unit: str | None
) -> OpenSchema:
    """What is known of the columns: a schema, or names."""
    unit = book.terms.person if unit is None and book is not None else unit
    if isinstance(known, list):
        opened = OpenSchema.of(book.terms.dataset if book else name, known, person=unit)
    else:
        opened = (known if isinstance(known, OpenSchema) else OpenSchema.load(known)).with_person(unit)
    for column in opened.open:
        if column.kind is not None and column.kind not in (*NEEDS, "boolean", "id", "text"):
            raise SchemaError(f"there is no kind {column.kind!r}", column=column.name)
    if not opened.open:
        raise SchemaError("every column is declared: there is nothing to discover")
    return opened


def _check_before(opened: OpenSchema, budget: Budget) -> None:
    """Refuse to add a cost to that of columns that were learnt before, where these promise something to others."""
    before = cost_of(opened.discovered)
    if before is not None and (before.relation, before.max_rows) != (budget.relation, budget.max_rows):
        who = f"{before.relation} neighbours with at most {before.max_rows} rows of a person"
        raise SchemaError(f"discovered: other columns were learnt about {who}; ask for the same")


def _names(data: object, names: Sequence[str] | None, *, has_header: bool | None) -> list[str]:
    """The names given, those of a frame, or those in a header where there is said to be one."""
    if names is not None:
        return list(names)
    if not isinstance(data, str | Path):
        with guarded():
            return names_of(data)
    if has_header is not True and suffix_of(data) not in PARQUET_SUFFIXES:
        raise OptionError(
            "has_header",
            "say that the first line names the columns (has_header=True, --has-header), or name them (columns, "
            "--columns): it is never guessed, for a record would be published",
        )
    return read_names(data)


def _budget(
    book: Ledger | None,
    noise: Randomness,
    epsilon: Number,
    delta: Number | None,
    *,
    relation: str | Relation | None,
    max_rows: int | None,
) -> Budget:
    """What may be spent; half of δ, or what the book has left of its own, is for thresholds."""
    total = None if book is None else book.terms.total
    relation = relation or (Relation.ADD_REMOVE if total is None else total.relation)
    rows = max_rows or (1 if total is None else total.max_rows)
    if delta is None or exact("delta", delta) == 0:
        return Budget.pure(epsilon, relation=relation, max_rows=rows)
    additive = positive("delta", delta) / 2
    if book is not None and total is not None and not total.is_pure:
        additive = min(additive, book.left_additive())
        if additive == 0:
            raise BudgetError(
                "this ledger has nothing set aside for thresholds, which levels need: make one without a schema, or "
                "with --additive, or give epsilon alone to learn kinds and bounds without levels"
            )
    is_exact = total is None or total.currency is Currency.GAUSSIAN
    draws_rounded = RoundedGaussian.kind in noise.kinds
    currency = Currency.GAUSSIAN if is_exact and draws_rounded else Currency.ZCDP
    budget = Budget.approximate(epsilon, delta, currency, relation=relation, max_rows=rows, additive=additive)
    return budget if is_exact or not draws_rounded else in_mu_squared(budget)


def looks(
    reservation: Reservation,
    table: RawTable,
    opened: OpenSchema,
    noise: Randomness,
    keeper: LearntSoFar | None = None,
) -> dict[str, Found]:
    """Look at every open column: first at what its cells can be read as, then at numbers, dates and values.

    What is learnt is kept after each look.
    """
    whole = reservation.budget
    each = whole.part(Fraction(1, len(opened.open)))
    additive = whole.additive / len(opened.open)
    asked = [column for column in opened.open if column.kind not in ("id", "text")]
    probe = Spellings(table.format)
    source = Probed(table, {column.name: probe for column in asked})
    curator = Curator(reservation, source, randomness=noise, journal=keeper)
    answers = _answered(curator, each.part(FIRST)) if asked else {}
    looks = {column.name: FirstLook.of(column, answers[column.name], table.format) for column in asked}
    grids = {name: grid for name, look in looks.items() if (grid := columns.grid_of(look)) is not None}
    source = Probed(table, {**dict.fromkeys(looks, probe), **grids})
    curator = Curator(reservation, source, randomness=noise, journal=keeper)
    finer: dict[str, Measurement] = {}
    values: dict[str, NoisyValues] = {}

    def found() -> dict[str, Found]:
        nothing = {column.name: FirstLook(column, {}, 0.0) for column in opened.open}
        learnt = {
            name: columns.found(look, grids.get(name), finer.get(name), values.get(name))
            for name, look in {**nothing, **looks}.items()
        }
        if keeper is not None:
            keeper.keep(learnt)
        return learnt

    learnt = found()
    if grids:
        finer |= _answered(curator, each.part(SECOND / 2), tuple(grids))
        learnt = found()
    for name, look in tracked(list(looks.items()), "looking at values"):
        if additive and look.kind in (*columns.LISTED, *columns.NUMBERS):
            is_number = look.kind in columns.NUMBERS
            share = each.part(SECOND / 2 if is_number else SECOND)
            values[name] = curator.values(name, "number" if is_number else "text", share, additive)
            learnt = found()
    return learnt


def _answered(curator: Curator, share: Budget, names: Sequence[str] | None = None) -> dict[str, Measurement]:
    """The noisy marginal of each column, or of some."""
    names = curator.domain.attributes if names is None else names
    queries = [Query.marginal(curator.domain, (name,)) for name in names]
    return dict(zip(names, curator.answer(queries, [share] * len(names)), strict=True))


def _cost(reservation: Reservation) -> Budget:
    """What was spent, as a budget: with the ε that it is at the δ that was asked for."""
    budget = reservation.budget
    spent = replace(budget, amount=reservation.spent, additive=reservation.spent_additive)
    if budget.delta is None:
        return spent
    return replace(spent, epsilon=epsilon_of(budget.currency, reservation.spent, budget.delta - spent.additive))
