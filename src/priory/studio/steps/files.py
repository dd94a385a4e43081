"""Files: what the studio made, to be saved elsewhere. Tables of the project and the ledger are never given out."""

from pathlib import PurePosixPath

from starlette.responses import Response

from priory.studio.project import NAME
from priory.studio.visit import Refusal, Visit

# The name of a page that shows private counts has this in it.
MARK = "not-private"
MEDIA_TYPES = {
    ".priory": "application/octet-stream",
    ".yaml": "application/yaml",
    ".ipynb": "application/x-ipynb+json",
    ".html": "text/html",
}


def download(visit: Visit) -> Response:
    """A file of the folder that is a release, a schema, a notebook or a report."""
    name = visit.names["name"]
    media_type = MEDIA_TYPES.get(PurePosixPath(name).suffix, "")
    settings = visit.studio.settings
    kept = (settings.private, settings.public, settings.ledger, NAME)
    if not media_type or MARK in name or name in kept:
        raise Refusal("This file is not given out; it lies in the folder.", 403)
    return visit.download(visit.studio.folder.file(name), PurePosixPath(name).name, media_type)


ROUTES = [("/files/{name:path}", "GET", download)]
