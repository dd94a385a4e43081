"""Discovery: the paid look at the columns of a table of which nothing is public."""

from starlette.responses import Response

from priory.studio.visit import Visit


def show(visit: Visit) -> Response:
    """The page."""
    return visit.page("discover.html", title="Discover the columns")


ROUTES = [("/columns/discover", "GET", show)]
