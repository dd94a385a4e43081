"""Checks: what is wrong with the settings of a project, by field, and what follows from them."""

import math
from fractions import Fraction
from typing import Any

from priory.data.schema.open import OpenSchema
from priory.errors import OptionError, PrioryError
from priory.privacy.budget import Budget, exact
from priory.privacy.ledger import Ledger
from priory.queries.sensitivity import Relation
from priory.studio.hub import Studio
from priory.studio.project import Settings
from priory.studio.schema_store import Columns

# δ, added over all persons, stays below one in so many.
PERSONS_A_DELTA = 1000
# Where nothing is known of the number of persons.
USUAL_DELTA = "1e-9"


def suggested_delta(rows: str) -> str:
    """A δ for a table of about so many rows: the largest power of ten below 1/(1000·rows).

    >>> suggested_delta("10000"), suggested_delta("12000"), suggested_delta("")
    ('1e-7', '1e-8', '1e-9')
    """
    try:
        count = int(rows.replace(",", "").replace(" ", ""))
    except ValueError:
        return USUAL_DELTA
    return f"1e-{math.ceil(math.log10(PERSONS_A_DELTA * count))}" if 0 < count < 10**15 else USUAL_DELTA


def total_delta(settings: Settings) -> str:
    """The δ of the ledger: what was typed, or the suggestion."""
    return settings.total_delta or suggested_delta(settings.rows)


def run_delta(settings: Settings, book: Ledger | None) -> str:
    """The δ of the next run: what was typed, or the ledger's own."""
    if settings.delta:
        return settings.delta
    return total_delta(settings) if book is None else _decimal(book.terms.total.delta)


def discover_delta(settings: Settings, book: Ledger | None) -> str:
    """The δ of a paid look at the columns."""
    return settings.discover_delta or run_delta(settings, book)


def _decimal(delta: Fraction | None) -> str:
    """A δ as people write it, exactly."""
    if delta is None or delta == 0:
        return ""
    text = f"{float(delta):.15g}"
    return text if Fraction(text) == delta else str(delta)


def rows_problem(settings: Settings) -> dict[str, str]:
    """What is wrong with the number of rows."""
    if not settings.rows:
        return {}
    is_whole = settings.rows.isascii() and settings.rows.isdecimal() and 0 < int(settings.rows) < 10**12
    return {} if is_whole else {"rows": "give a whole number above 0, such as 10000"}


def person_problems(settings: Settings, schema: Columns | None) -> dict[str, str]:
    """What is wrong with who is protected."""
    found = {}
    if settings.relation not in [each.value for each in Relation]:
        found["relation"] = "choose add-remove or replace-one"
    if settings.protects not in ("row", "person", "household"):
        found["protects"] = "choose who is protected"
    if settings.protects == "row":
        return found
    ids = person_columns(schema)
    if not settings.person:
        found["person"] = f"choose the column that names the {settings.protects}"
    elif settings.person not in ids:
        found["person"] = "this column is not of kind id; make it one in the step Columns"
    if not (settings.max_rows.isascii() and settings.max_rows.isdecimal() and 0 < int(settings.max_rows) < 10**6):
        found["max_rows"] = "give a whole number of at least 1"
    return found


def person_columns(schema: Columns | None) -> list[str]:
    """The columns that may name a person: those of kind id, and those of which nothing is known yet."""
    return [] if schema is None else [column.name for column in schema.columns if column.kind in ("id", None)]


def total_problems(settings: Settings) -> dict[str, str]:
    """What is wrong with what the ledger is to be made with."""
    fields = {"epsilon": "total_epsilon", "delta": "total_delta", "max_rows": "max_rows", "relation": "relation"}
    try:
        total_budget(settings)
    except OptionError as error:
        return {fields.get(error.argument, "total_epsilon"): str(error)}
    return {}


def total_budget(settings: Settings, *, discovers: bool = False) -> Budget:
    """What the ledger is to be made with; a tenth of δ is set aside where columns are to be learnt."""
    delta = total_delta(settings)
    return Budget.of(
        epsilon=settings.total_epsilon,
        delta=delta,
        relation=settings.relation,
        max_rows=person_rows(settings),
        additive=exact("delta", delta) / 10 if discovers else 0,
    )


def run_budget(settings: Settings, book: Ledger | None, epsilon: str | None = None, delta: str | None = None) -> Budget:
    """What the next run may spend, about the persons of the ledger."""
    return Budget.of(**run_terms(settings, book, epsilon, delta))


def run_terms(
    settings: Settings, book: Ledger | None, epsilon: str | None = None, delta: str | None = None
) -> dict[str, Any]:
    """The same as the options of `Budget.of`, of texts and numbers alone."""
    total = None if book is None else book.terms.total
    return {
        "epsilon": settings.epsilon if epsilon is None else epsilon,
        "delta": delta or run_delta(settings, book) or None,
        "relation": settings.relation if total is None else total.relation.value,
        "max_rows": person_rows(settings) if total is None else total.max_rows,
    }


def person_rows(settings: Settings) -> int:
    """How many rows of one person count, as was typed; 1 where each row is protected or it is no number."""
    return int(settings.max_rows) if settings.protects != "row" and settings.max_rows.isdecimal() else 1


def run_problems(settings: Settings, book: Ledger | None) -> dict[str, str]:
    """What is wrong with what the next run may spend."""
    try:
        budget = run_budget(settings, book)
        if book is not None and book.price(budget) > book.left():
            return {"epsilon": "this is more than is left in the ledger"}
    except OptionError as error:
        return {error.argument if error.argument in ("epsilon", "delta") else "epsilon": str(error)}
    except PrioryError as error:
        return {"epsilon": str(error)}
    return {}


def missing(studio: Studio, seconds: float | None = None) -> list[tuple[str, str]]:
    """What must be done before a run can start: the key of a step and what is missing there.

    Raises:
        Coming: the public table has not been read after so many seconds; by default it is waited for.
    """
    settings, found = studio.settings, []
    try:
        studio.folder.file(settings.private)
    except PrioryError:
        found.append(("table", "choose the private table"))
    found += _column_problems(studio) + _public_problems(studio, seconds)
    book = studio.ledger()
    if book is None:
        found.append(("budget", "make the ledger"))
    found += [("budget", words) for words in run_problems(settings, book).values()]
    return found


def _column_problems(studio: Studio) -> list[tuple[str, str]]:
    """What is missing of the schema, and whether the ledger is for it."""
    typed = [("columns", f"what was typed of {name!r} does not fit yet") for name in studio.drafts.read()]
    try:
        schema, book = studio.schema(), studio.ledger()
        if schema is None:
            return [("columns", "declare the columns"), *typed]
        if isinstance(schema, OpenSchema):
            return [("columns", "some columns are not known yet"), *typed]
        if book is not None:
            book.check(schema=schema.dump(), person=book.terms.person)
    except PrioryError as error:
        return [("columns", studio.folder.shown(str(error))), *typed]
    if book is None:
        return typed + [("persons", words) for words in person_problems(studio.settings, schema).values()]
    return typed


def _public_problems(studio: Studio, seconds: float | None) -> list[tuple[str, str]]:
    """How the public table does not fit; a run would be refused for it, before anything is spent."""
    try:
        wrong = [fit.column for fit in studio.misfits(seconds).values() if fit.wrong]
    except PrioryError as error:
        return [("table", f"the public table cannot be used: {studio.folder.shown(str(error))}")]
    return [("columns", f"the public table does not fit the columns {', '.join(wrong)}")] if wrong else []
