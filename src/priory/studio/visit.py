"""Visit: one request of the browser, for the page that answers it."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response

from priory.studio.hub import Studio
from priory.studio.progress import NOTES, STEPS, standing
from priory.version import __version__

HERE = Path(__file__).parent
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


class Refusal(Exception):
    """A page that cannot be shown, with the words that are shown instead."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@cache
def templates() -> Environment:
    """The templates; every text that comes into one is escaped."""
    return Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


class Visit:
    """One request.

    Attributes:
        studio: the project.
        step: the key of the step that the address belongs to, or "".
        names: what stands in the address in the places of names.
        query: the parameters of the address.
    """

    def __init__(
        self,
        studio: Studio,
        step: str,
        names: Mapping[str, str],
        query: QueryParams | None = None,
        *,
        form: FormData | None = None,
        uploads: Mapping[str, bytes] | None = None,
    ) -> None:
        self.studio, self.step, self.names = studio, step, names
        self.query = query or QueryParams()
        self._form = form or FormData()
        self.uploads = uploads or {}

    def text(self, field: str) -> str:
        """What a field of the form says, with the line ends of this system; empty where it is missing."""
        return next(iter(self.texts(field)), "")

    def texts(self, field: str) -> list[str]:
        """All that fields of this name say."""
        given = [value for value in self._form.getlist(field) if not isinstance(value, UploadFile)]
        return [value.replace("\r\n", "\n").replace("\r", "\n") for value in given]

    def has(self, field: str) -> bool:
        """Whether the form has the field, as it has of a box that is ticked."""
        return field in self._form

    @property
    def note(self) -> str:
        """What is said of the action that led here."""
        return NOTES.get(self.query.get("note", ""), "")

    def page(self, template: str, *, title: str, status: int = 200, **variables: Any) -> Response:  # noqa: ANN401
        """A page made from a template."""
        settings = self.studio.settings
        shared = {
            "title": title,
            "step": self.step,
            "steps": standing(self.studio),
            "csrf": self.studio.keys.csrf,
            "folder": self.studio.folder.root.name,
            "version": __version__,
            "note": self.note,
            "running": self.studio.jobs.running(),
            "settings": settings,
        }
        return HTMLResponse(templates().get_template(template).render(shared | variables), status)

    def go(self, to: str, *, note: str = "") -> Response:
        """Send the browser to a step, by its key, or to an address of the studio."""
        address = next((step.url for step in STEPS if step.key == to), to)
        return RedirectResponse(address + (f"?note={note}" if note else ""), 303)

    def next(self, note: str = "") -> Response:
        """Send the browser where the button says that was pressed; by default back to this step."""
        wanted = self.text("go")
        known = {step.key for step in STEPS}
        return self.go(wanted if wanted in known else self.step, note="" if wanted in known else note)

    def json(self, data: Any) -> Response:  # noqa: ANN401 - whatever JSON can hold
        """Data for a script of the page."""
        return JSONResponse(json.loads(json.dumps(data)))

    def report(self, markup: str) -> Response:
        """A report, which has its style inside: it may show itself, and do nothing else."""
        return HTMLResponse(markup, headers={"content-security-policy": REPORT_POLICY})

    def download(self, content: Path | bytes | str, name: str, media_type: str) -> Response:
        """A file to be saved."""
        headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
        if isinstance(content, Path):
            return FileResponse(content, media_type=media_type, headers=headers)
        return Response(content, media_type=media_type, headers=headers)
