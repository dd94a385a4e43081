"""History: the releases, the lines of the ledger and what each was for; and the curator's own look at the truth."""

from dataclasses import dataclass

from starlette.responses import Response

from priory.errors import ReleaseError
from priory.privacy.budget import rounded_up
from priory.privacy.ledger import Entry, describe
from priory.privacy.statement import Statement
from priory.studio import commands, python_code
from priory.studio.hub import ReleaseFile, Studio
from priory.studio.jobs import Job
from priory.studio.later import PATIENCE, Coming
from priory.studio.steps.run import entry_of
from priory.studio.visit import Refusal, Visit


@dataclass(frozen=True)
class Released:
    """A release in the list."""

    file: ReleaseFile
    statement: Statement | None  # what it promises; None where the file cannot be read, or has not been yet
    problem: str  # why not, or ""
    job: Job | None  # the run that made it, where that was one of the studio


@dataclass(frozen=True)
class Line:
    """A line of the ledger."""

    entry: Entry
    asked: str
    charged: str
    job: Job | None


def show(visit: Visit) -> Response:
    """All of it."""
    studio = visit.studio
    jobs = studio.jobs.all()
    book = studio.ledger()
    try:
        statements, is_reading = studio.statements(PATIENCE), False
    except Coming:
        statements, is_reading = {}, True
    return visit.page(
        "history.html",
        title="History",
        is_coming=is_reading,
        releases=[_released(studio, file, statements.get(file.name), jobs) for file in studio.releases()],
        book=None if book is None else describe(book),
        lines=[] if book is None else lines(book.entries(), jobs),
        commands=[] if book is None else [commands.text(commands.history(studio.settings))],
        python=python_code.history(studio.settings),
    )


def lines(entries: tuple[Entry, ...], jobs: list[Job]) -> list[Line]:
    """The lines of the ledger, the newest first, each with the run that made it."""
    paid = [job for job in jobs if job.kind in ("fit", "discover")]
    made = {entry.number: job for job in paid if (entry := entry_of(job, entries)) is not None}
    return [
        Line(entry, rounded_up(entry.asked), rounded_up(entry.charged), made.get(entry.number))
        for entry in reversed(entries)
    ]


def _released(studio: Studio, file: ReleaseFile, found: Statement | ReleaseError | None, jobs: list[Job]) -> Released:
    job = next((job for job in jobs if job.output == file.name), None)
    if isinstance(found, ReleaseError):
        return Released(file, None, studio.folder.shown(str(found)), job)
    return Released(file, found, "", job)


def warn(visit: Visit) -> Response:
    """The warning before private rows are compared with a release."""
    name = visit.names["name"]
    visit.studio.release(name)
    settings = visit.studio.settings
    return visit.page(
        "truth.html",
        title="The truth, for the curator only",
        name=name,
        lines=[commands.text(commands.truth(settings, name))],
        python=python_code.truth(settings, name, commands.truth_name(name)),
    )


def truth(visit: Visit) -> Response:
    """The page of true errors, stamped NOT PRIVATE; it is shown, and stored nowhere."""
    from priory.report.evaluation import private_source
    from priory.report.truth import truth_page

    studio, settings = visit.studio, visit.studio.settings
    if visit.text("confirmed") != "yes":
        raise Refusal("It was not confirmed, and nothing was read.")
    release = studio.release(visit.names["name"])
    source = private_source(release, studio.folder.file(settings.private), studio.ledger())
    return visit.report(str(truth_page(release, source, confirmed=True)))


ROUTES = [
    ("/history", "GET", show),
    ("/history/truth/{name}", "GET", warn),
    ("/history/truth/{name}", "POST", truth),
]
