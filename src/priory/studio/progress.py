"""Progress: the steps of the job, and how each stands in a project."""

from dataclasses import dataclass
from typing import Literal

from priory.data.schema import Schema
from priory.errors import PrioryError
from priory.studio.hub import Studio

Standing = Literal["done", "open", "problem", "later"]


@dataclass(frozen=True)
class StepName:
    """A step of the job."""

    key: str
    number: int
    title: str

    @property
    def url(self) -> str:
        """Its address."""
        return f"/{self.key}"


STEPS = tuple(
    StepName(key, number, title)
    for number, (key, title) in enumerate(
        {
            "table": "Table",
            "columns": "Columns",
            "persons": "Persons",
            "budget": "Budget",
            "run": "Run",
            "explore": "Explore",
            "history": "History",
        }.items(),
        start=1,
    )
)
# What is said on the page that follows an action.
NOTES = {
    "saved": "Saved.",
    "drafted": "A schema was drafted from the public table. Read it through: all of it must be publicly known.",
    "named": "The names of the columns were read, and nothing else.",
    "made": "The ledger was made. Keep it beside the data and back it up.",
    "cancelled": "The run was asked to end.",
    "changed": "The settings were changed since that page was shown. Nothing was started: look again and confirm.",
    "busy": "Another run goes on. Nothing was started: wait for its end, or cancel it.",
    "adopted": "The discovered schema is now the project's. Read it through.",
}


@dataclass(frozen=True)
class StepState:
    """How a step stands."""

    key: str
    number: int
    title: str
    url: str
    state: Standing
    says: str  # the state in words


_SAYS: dict[Standing, str] = {"done": "done", "open": "to do", "problem": "has a problem", "later": "later"}


def standing(studio: Studio) -> list[StepState]:
    """How every step stands."""
    states = _states(studio)
    return [
        StepState(step.key, step.number, step.title, step.url, states[step.key], _says(step.key, states[step.key]))
        for step in STEPS
    ]


def _says(key: str, state: Standing) -> str:
    return "ready" if state == "open" and key in ("explore", "history") else _SAYS[state]


def first_open(studio: Studio) -> str:
    """The key of the first step that is not done; the history, from which all releases are found, where all are."""
    states = _states(studio)
    steps = ("table", "columns", "persons", "budget", "run")
    return next((key for key in steps if states[key] in ("open", "problem")), "history")


def _states(studio: Studio) -> dict[str, Standing]:
    settings = studio.settings
    has_releases = bool(studio.releases())
    columns, book = _columns(studio), _ledger(studio)
    table: Standing = "done" if settings.private else "open"
    return {
        "table": table,
        "columns": columns,
        "persons": "done" if book == "done" else "open" if columns == "done" else "later",
        "budget": book if columns != "later" else "later",
        "run": "done" if has_releases else "open" if (columns, book) == ("done", "done") else "later",
        "explore": "open" if has_releases else "later",
        "history": "open" if has_releases or book == "done" else "later",
    }


def _columns(studio: Studio) -> Standing:
    try:
        schema = studio.schema()
    except PrioryError:
        return "problem"
    if isinstance(schema, Schema):
        return "done"
    return "open" if studio.settings.private or schema is not None else "later"


def _ledger(studio: Studio) -> Standing:
    try:
        return "open" if studio.ledger() is None else "done"
    except PrioryError:
        return "problem"
