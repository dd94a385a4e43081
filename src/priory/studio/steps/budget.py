"""Budget: a step of the studio."""

from starlette.responses import Response

from priory.studio.visit import Visit


def show(visit: Visit) -> Response:
    """The page of the step."""
    return visit.page("budget.html", title="Budget")


ROUTES = [("/budget", "GET", show)]
