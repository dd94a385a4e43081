"""History: a step of the studio."""

from starlette.responses import Response

from priory.studio.visit import Visit


def show(visit: Visit) -> Response:
    """The page of the step."""
    return visit.page("history.html", title="History")


ROUTES = [("/history", "GET", show)]
