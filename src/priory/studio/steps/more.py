"""More: a form for a further release of some columns, to be combined with one that is there."""

from starlette.responses import Response

from priory.privacy.ledger import describe
from priory.studio import checks
from priory.studio.steps.explore import needed, shared
from priory.studio.visit import Visit

MISSING = (
    "This release was made without the ledger of this folder: more can be measured once steps 1 to 4 are done here."
)


def show(visit: Visit) -> Response:
    """Which columns, and what they may cost."""
    look = needed(visit)
    ledger, settings = visit.studio.ledger(), visit.studio.settings
    book = {} if ledger is None else describe(ledger)
    left = f"ε = {book['left_epsilon']} at δ = {book['delta']}" if "left_epsilon" in book else book.get("left", "")
    return visit.page(
        "explore-more.html",
        title="Explore: measure more",
        names=[column.name for column in look.release.columns.modelled],
        chosen=visit.query.getlist("columns"),
        left=f"The ledger has {left} left for one more run." if left else "",
        missing="" if ledger is not None and settings.private else MISSING,
        problems={},
        epsilon=settings.epsilon,
        delta=checks.run_delta(settings, ledger),
        **shared(visit, look, "more"),
    )


ROUTES = [("/explore/more", "GET", show)]
