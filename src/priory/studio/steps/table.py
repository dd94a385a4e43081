"""Table: a step of the studio."""

from starlette.responses import Response

from priory.studio.visit import Visit


def show(visit: Visit) -> Response:
    """The page of the step."""
    return visit.page("table.html", title="Table")


ROUTES = [("/table", "GET", show)]
