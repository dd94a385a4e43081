"""Discovery: the paid look at the columns of a table of which nothing is public."""

from starlette.responses import Response

from priory.data.schema.open import OpenSchema
from priory.errors import OptionError, PrioryError
from priory.privacy.budget import Budget
from priory.privacy.outputs import partial_path
from priory.studio import checks, commands, python_code
from priory.studio.hub import Studio
from priory.studio.steps.columns import check_unbound
from priory.studio.steps.run import Order, earlier, free_output, opened, priced, started
from priory.studio.visit import Refusal, Visit


def show(visit: Visit) -> Response:
    """The price, and the button that starts it; or what is missing."""
    studio, settings = visit.studio, visit.studio.settings
    book = studio.ledger()
    missing = lacks(studio)
    order, problems = None, {}
    if not missing:
        try:
            order = ordered(studio)
        except OptionError as error:
            problems = {"discover_delta" if error.argument == "delta" else "discover_epsilon": str(error)}
        except PrioryError as error:
            problems = {"discover_epsilon": str(error)}
    return visit.page(
        "discover.html",
        title="Discover the columns",
        missing=missing,
        problems=problems,
        delta=checks.discover_delta(settings, book),
        order=order,
        lines=[] if order is None else [commands.text(each) for each in order.commands],
    )


def save(visit: Visit) -> Response:
    """Keep what was typed."""
    fields = ("discover_epsilon", "discover_delta")
    visit.studio.change(**{field: visit.text(field).strip() for field in fields})
    return visit.next() if visit.text("go") != "stay" else visit.go("/columns/discover", note="saved")


def lacks(studio: Studio) -> list[tuple[str, str]]:
    """What must be done before: the address and what is missing there."""
    found = []
    try:
        schema = studio.schema()
    except PrioryError:
        schema = None
    if not isinstance(schema, OpenSchema):
        found.append(
            ("/columns", "begin with names alone; where all columns are declared there is nothing to discover")
        )
    if studio.ledger() is None:
        found += [("/persons", words) for words in checks.person_problems(studio.settings, schema).values()]
        found.append(("/budget", "make the ledger, which pays for it"))
    return found


def ordered(studio: Studio) -> Order:
    """The look that the settings mean, with its price."""
    settings, book = studio.settings, opened(studio)
    delta = checks.discover_delta(settings, book)
    total = book.terms.total
    budget = Budget.of(
        epsilon=settings.discover_epsilon, delta=delta or None, relation=total.relation, max_rows=total.max_rows
    )
    output = free_output(studio, "schema-discovered", ".yaml")
    arguments = commands.discover(settings, delta=delta, output=output)
    code = python_code.discover(settings, delta=delta, output=output)
    return Order((arguments,), output, *priced(book, budget), code)


def start(visit: Visit) -> Response:
    """Start what was confirmed; once, however often the form is sent."""
    check_unbound(visit.studio)
    if (job := earlier(visit)) is not None:
        return visit.go(f"/run/{job.name}")
    if lacks(visit.studio):
        return visit.go("/columns/discover", note="changed")
    return started(visit, ordered(visit.studio), "discover", "/columns/discover")


def adopt(visit: Visit) -> Response:
    """Take what was learnt as the schema of the project, also of a look that ended early."""
    studio = visit.studio
    check_unbound(studio)
    job = next((job for job in studio.jobs.all() if job.kind == "discover" and job.state != "running"), None)
    if job is None:
        raise Refusal("Nothing was discovered.")
    path = studio.folder.path(job.output)
    for output in (path, studio.folder.path(commands.counts_name(job.output))):
        if not output.is_file() and partial_path(output).is_file():
            partial_path(output).replace(output)
    if not path.is_file():
        raise Refusal("It ended before anything was learnt.")
    studio.change(schema=job.output)
    studio.drafts.clear()
    return visit.go("columns", note="adopted")


ROUTES = [
    ("/columns/discover", "GET", show),
    ("/columns/discover", "POST", save),
    ("/columns/discover/start", "POST", start),
    ("/columns/adopt", "POST", adopt),
]
