"""Budget: the step with the ledger, what the next run may spend, and what that means."""

from typing import Any

from starlette.responses import Response

from priory.data.schema import Schema
from priory.data.schema.open import OpenSchema
from priory.errors import OptionError, PrioryError
from priory.privacy.budget import Budget
from priory.privacy.even_noise import even_stddev
from priory.privacy.explain import explain
from priory.privacy.ledger import Ledger, Terms, describe
from priory.privacy.statement import cost_of, promises_of
from priory.studio import checks, commands, python_code
from priory.studio.hub import Studio
from priory.studio.later import PATIENCE, Coming
from priory.studio.project import Settings
from priory.studio.visit import Refusal, Visit

FIELDS = ("rows", "total_epsilon", "total_delta", "epsilon", "delta", "mechanism", "effort")
# Positions of the slider: four to a factor of ten.
POSITIONS = ("0.05", "0.1", "0.2", "0.3", "0.5", "0.75", "1", "1.5", "2", "3", "4", "6", "8", "10")
# How much work a rehearsal for the slider may be, in processor seconds. More of it averages more rehearsals; half of
# it is one rehearsal with all columns of the embedded town.
SECONDS = 4.0


def show(visit: Visit) -> Response:
    """The ledger, the fields, and what they mean."""
    studio, settings = visit.studio, visit.studio.settings
    book = studio.ledger()
    problems = checks.rows_problem(settings) | checks.run_problems(settings, book)
    if book is None:
        problems |= checks.total_problems(settings)
    schema = _schema(studio)
    return visit.page(
        "budget.html",
        title="What may it cost?",
        book=None if book is None else describe(book),
        is_used_up=book is not None and book.left() <= 0,
        problems=problems,
        suggestion=checks.suggested_delta(settings.rows),
        total_delta=checks.total_delta(settings),
        delta=checks.run_delta(settings, book),
        public_rows=_public_rows(studio),
        positions=_positions(settings.epsilon),
        words=meaning(settings, book, schema),
        facts={"noise": "…", "shared": ""} | _facts(settings, book, schema),
        can_forecast=isinstance(schema, Schema) and bool(settings.rows) and not checks.rows_problem(settings),
        is_open=isinstance(schema, OpenSchema),
        waits=[] if book is not None else list(checks.person_problems(settings, schema).values()),
        **_same(studio, settings, book),
    )


def save(visit: Visit) -> Response:
    """Keep what was typed; make the ledger where that was asked for."""
    given = {field: visit.text(field).strip() for field in FIELDS if visit.has(field)}
    visit.studio.change(**given)
    if visit.text("go") == "make":
        make_ledger(visit.studio)
        return visit.go("budget", note="made")
    return visit.next("saved")


def make_ledger(studio: Studio) -> Ledger:
    """Make the book, as `priory ledger init` does; a refusal changes nothing."""
    settings = studio.settings
    schema = _schema(studio)
    wrong = checks.person_problems(settings, schema) | checks.total_problems(settings)
    if wrong:
        raise Refusal("; ".join(wrong.values()))
    if not settings.name:
        raise Refusal("Give the data set a name in the first step.")
    total = checks.total_budget(settings, discovers=not isinstance(schema, Schema))
    person = settings.person if settings.protects != "row" else None
    return Ledger.create(studio.folder.path(settings.ledger), Terms(settings.name, "", total, person))


def forecast(visit: Visit) -> Response:
    """The forecast at an ε, as data for the slider."""
    studio, settings = visit.studio, visit.studio.settings
    book = studio.ledger()
    epsilon = visit.query.get("epsilon", settings.epsilon)
    delta = visit.query.get("delta") or checks.run_delta(settings, book)
    try:
        budget = checks.run_budget(settings, book, epsilon, delta)
        schema, public = studio.schema(), studio.public_path()
        words = explained(budget, schema)
    except PrioryError as error:
        return visit.json({"state": "wrong", "message": studio.folder.shown(str(error)), "epsilon": epsilon})
    known = {"epsilon": epsilon, "words": words, "facts": facts(schema, budget)}
    if not isinstance(schema, Schema) or not settings.rows or checks.rows_problem(settings):
        said = "Say about how many rows the table has, and declare all columns, for a forecast."
        return visit.json({"state": "wrong", "message": said, **known})
    question = {
        "table": {
            "schema": schema.dump(),
            "rows": int(settings.rows),
            "mechanism": settings.mechanism,
            "public": "" if public is None else str(public),
            "effort": settings.effort,
            "stamp": 0 if public is None else public.stat().st_mtime_ns,
        },
        "budget": checks.run_terms(settings, book, epsilon, delta),
        "seconds": SECONDS,
    }
    return visit.json({**studio.forecasts.asked(question), **known})


def facts(schema: Schema | OpenSchema | None, budget: Budget) -> dict[str, str]:
    """What is known without a rehearsal: how noisy counts are."""
    if not isinstance(schema, Schema) or not len(schema.domain):
        return {}
    columns = len(schema.domain)
    return {"noise": f"± {_spoken(even_stddev(budget, columns))}", "shared": f"{columns}"}


def _facts(settings: Settings, book: Ledger | None, schema: Schema | OpenSchema | None) -> dict[str, str]:
    try:
        return facts(schema, checks.run_budget(settings, book))
    except OptionError:
        return {}


def _spoken(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def meaning(settings: Settings, book: Ledger | None, schema: Schema | OpenSchema | None) -> list[str]:
    """What the next run's ε and δ mean for one person; empty where they are wrong."""
    try:
        return explained(checks.run_budget(settings, book), schema)
    except PrioryError:
        return []


def explained(budget: Budget, schema: Schema | OpenSchema | None) -> list[str]:
    """What a release of `budget` will promise, in words, with what it cost to learn the schema."""
    cost = None if schema is None else cost_of(schema.discovered)
    learnt = [] if cost is None else [f"Together with learning the schema, which cost {cost}:"]
    return [*learnt, *(line for each in promises_of(budget, cost) for line in explain(each).lines)]


def _schema(studio: Studio) -> Schema | OpenSchema | None:
    try:
        return studio.schema()
    except PrioryError:
        return None


def _public_rows(studio: Studio) -> int | None:
    """How many rows the public table has, for who may say that the private one has about as many."""
    try:
        seen = next(iter(studio.surveyed(PATIENCE).values()), None)
    except (Coming, PrioryError):
        return None
    return None if seen is None else seen.rows


def _positions(epsilon: str) -> list[str]:
    """The positions of the slider, with the typed ε among them."""
    try:
        typed = {epsilon} if 0 < float(epsilon) <= 1000 else set()
    except ValueError:
        typed = set()
    return sorted({*POSITIONS, *typed}, key=float)


def ledger_steps(studio: Studio) -> dict[str, Any]:
    """Making the ledger as a command line and as Python."""
    settings, delta = studio.settings, checks.total_delta(studio.settings)
    discovers = not isinstance(_schema(studio), Schema)
    code = python_code.ledger(settings, delta=delta, max_rows=checks.person_rows(settings), discovers=discovers)
    return {"commands": [commands.text(commands.ledger(settings, delta=delta, discovers=discovers))], "python": code}


def _same(studio: Studio, settings: Settings, book: Ledger | None) -> dict[str, Any]:
    """The step as command lines and as Python: the ledger where there is none yet, and the forecast."""
    found: dict[str, Any] = ledger_steps(studio) if book is None else {"commands": [], "python": ""}
    if not settings.rows:
        return found
    run = _run(settings, book)
    plan = commands.text(commands.plan(settings, **run))
    code = [each for each in (found["python"], python_code.plan(settings, **run)) if each]
    return {"commands": [*found["commands"], plan], "python": "\n\n".join(code)}


def _run(settings: Settings, book: Ledger | None) -> dict[str, Any]:
    """What the next run may spend, as the command line and Python want it."""
    terms = checks.run_terms(settings, book)
    return {**terms, "delta": terms["delta"] or ""}


ROUTES = [("/budget", "GET", show), ("/budget", "POST", save), ("/budget/forecast.json", "GET", forecast)]
