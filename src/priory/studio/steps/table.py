"""Table: the step in which files of the folder are chosen, the private one and a public one."""

from contextlib import suppress
from pathlib import PurePosixPath

from starlette.responses import Response

from priory.data.sources.containers import SUFFIXES
from priory.errors import DataError, PrioryError
from priory.studio.hub import Studio
from priory.studio.later import Coming
from priory.studio.visit import Visit


def show(visit: Visit) -> Response:
    """The files, and what is read of each."""
    studio = visit.studio
    return visit.page(
        "table.html",
        title="Which tables?",
        files=studio.folder.tables(),
        suffixes=", ".join((*SUFFIXES, ".zip")),
        problems=problems(studio),
    )


def save(visit: Visit) -> Response:
    """Keep what was chosen; the data set is called after its table until it has a name."""
    private, public, name = visit.text("private"), visit.text("public"), visit.text("name").strip()
    visit.studio.change(private=private, public=public, name=name or PurePosixPath(private).name.split(".")[0])
    begin_draft(visit.studio)
    return visit.next("saved")


def begin_draft(studio: Studio) -> None:
    """Begin to read the public table, where a schema is still to be drafted: the next step is likely to ask for it."""
    with suppress(Coming, PrioryError):
        if studio.settings.public and studio.schema_text() is None:
            studio.drafted(0)


def problems(studio: Studio) -> dict[str, str]:
    """What is wrong with what was chosen, by field."""
    found = {}
    try:
        if studio.settings.private:
            studio.folder.file(studio.settings.private)
    except DataError as error:
        found["private"] = str(error)
    try:
        studio.public_path()
    except DataError as error:
        found["public"] = str(error)
    return found


ROUTES = [("/table", "GET", show), ("/table", "POST", save)]
