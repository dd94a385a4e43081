"""Persons: the step that says who is protected."""

from starlette.responses import Response

from priory.errors import PrioryError
from priory.studio.checks import person_columns, person_problems
from priory.studio.steps.budget import ledger_steps
from priory.studio.visit import Visit

PROTECTS = (
    ("row", "Each row", "A row is the whole record of somebody, and nobody has two."),
    ("person", "Each person", "A person may have several rows; a column names the person of each."),
    ("household", "Each household", "A household has several rows; a column names the household of each."),
)
RELATIONS = (
    ("add-remove", "Whether somebody is in the table at all", "Even the number of rows is protected, and is paid for."),
    ("replace-one", "What the record of somebody says", "That they are in the table, and how many are, is public."),
)


def show(visit: Visit) -> Response:
    """Who is protected; fixed once there is a ledger."""
    studio, settings = visit.studio, visit.studio.settings
    try:
        schema = studio.schema()
    except PrioryError:
        schema = None
    book = studio.ledger()
    return visit.page(
        "persons.html",
        title="Who is protected?",
        protects=PROTECTS,
        relations=RELATIONS,
        ids=person_columns(schema),
        problems={} if book is not None else person_problems(settings, schema),
        terms=None if book is None else book.terms,
        relation=settings.relation if book is None else book.terms.total.relation.value,
        **(ledger_steps(studio) if book is None else {"commands": [], "python": ""}),
    )


def save(visit: Visit) -> Response:
    """Keep what was chosen."""
    fields = ("protects", "person", "max_rows", "relation")
    if visit.studio.ledger() is None:
        visit.studio.change(**{field: visit.text(field).strip() for field in fields})
    return visit.next("saved")


ROUTES = [("/persons", "GET", show), ("/persons", "POST", save)]
