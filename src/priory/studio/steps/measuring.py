"""Measuring: one marginal of a release measured once more, as a new paid run, and combined with what there was."""

from urllib.parse import urlencode

import numpy as np
from starlette.responses import Response

from priory.app.fit import fit
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.errors import OptionError, PrioryError
from priory.privacy.ledger import Ledger
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import combine
from priory.studio import checks, commands, python_code
from priory.studio.hub import RELEASE_SUFFIX, Studio
from priory.studio.steps.run import Order, earlier, free_output, opened, priced, started
from priory.studio.visit import Refusal, Visit


def show(visit: Visit) -> Response:
    """The price of measuring some columns once more; what is asked for stands in the address."""
    studio, settings = visit.studio, visit.studio.settings
    release, columns = visit.query.get("release", ""), visit.query.getlist("columns")
    delta = visit.query.get("delta") or checks.run_delta(settings, studio.ledger())
    epsilon = visit.query.get("epsilon") or settings.epsilon
    order, problems = None, {}
    try:
        order = ordered(studio, release, columns, epsilon, delta)
    except OptionError as error:
        problems = {"delta" if error.argument == "delta" else "epsilon": str(error)}
    return visit.page(
        "more.html",
        title="Measure more here",
        release=release,
        columns=columns,
        epsilon=epsilon,
        delta=delta,
        purpose=visit.query.get("purpose", ""),
        order=order,
        problems=problems,
        lines=[] if order is None else [commands.text(each) for each in order.commands],
    )


def asked(visit: Visit) -> Response:
    """From the form of a release to the price, with all that was chosen in the address."""
    fields = ("release", "epsilon", "delta", "purpose")
    chosen = {field: visit.text(field).strip() for field in fields} | {"columns": visit.texts("columns")}
    return visit.go(f"/run/more?{urlencode(chosen, doseq=True)}")


def ordered(studio: Studio, release: str, columns: list[str], epsilon: str, delta: str) -> Order:
    """The run that measures the marginal of these columns, and then combines it with the release."""
    settings, book = studio.settings, opened(studio)
    known = studio.release(release).columns.domain
    if not columns:
        raise Refusal("Choose at least one column.")
    try:
        clique = known.clique(columns)
    except PrioryError:
        raise Refusal("The release has no such columns.") from None
    stem = release.removesuffix(RELEASE_SUFFIX)
    new = free_output(studio, f"{stem}-more")
    both = free_output(studio, f"{stem}-combined", also=new)
    arguments = (
        commands.more(settings, clique, epsilon=epsilon, delta=delta, output=new),
        commands.combine((release, new), both),
    )
    outputs = (release, new, both)
    code = python_code.more(settings, clique, epsilon=epsilon, delta=delta, outputs=outputs)
    return Order(arguments, both, *priced(book, checks.run_budget(settings, book, epsilon, delta)), code, paid=new)


def start(visit: Visit) -> Response:
    """Start what was confirmed; once, however often the form is sent."""
    if (job := earlier(visit)) is not None:
        return visit.go(f"/run/{job.name}")
    asked = (visit.text("release"), visit.texts("columns"), visit.text("epsilon"), visit.text("delta"))
    order = ordered(visit.studio, *asked)
    rehearse(visit.studio, *asked)
    return started(visit, order, "fit", "run")


def rehearse(studio: Studio, release: str, columns: list[str], epsilon: str, delta: str) -> None:
    """Do all of it with an empty table and a book of its own: whatever stops the real run stops this one, unpaid."""
    known, terms = studio.release(release), opened(studio).terms
    schema = Schema.load(studio.schema_path())
    book = Ledger.in_memory(
        terms.total, dataset=terms.dataset, schema=terms.schema or schema.dump(), person=terms.person
    )
    nobody = MemorySource(schema.domain, (np.zeros(0, dtype=np.uint8),) * len(schema.domain), 0)
    workload = Workload.of([Query.marginal(schema.domain, schema.domain.clique(columns))])
    more = fit(nobody, schema, epsilon=epsilon, delta=delta or None, mechanism="hdmm", workload=workload, ledger=book)
    combine([known, more])


ROUTES = [("/run/more", "GET", show), ("/run/more", "POST", asked), ("/run/more/start", "POST", start)]
