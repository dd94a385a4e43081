"""Handing on: what of a release goes to others: report, file, statement, registry entry, commands, notebook."""

import shlex
from pathlib import Path

from starlette.responses import HTMLResponse, Response

from priory.release.registry import registry_entry, yaml_text
from priory.report.notebook import notebook_text
from priory.report.page import POLICY
from priory.report.sections import page_of
from priory.studio.steps.explore import Opened, needed, shared
from priory.studio.visit import Visit


def show(visit: Visit) -> Response:
    """The list of what can be handed on."""
    look = needed(visit)
    statement, stem = look.release.statement, Path(look.name).stem
    commands = {
        "report": ["priory", "report", look.name, "--output", f"{stem}.html"],
        "statement": ["priory", "statement", look.name],
        "registry": ["priory", "statement", look.name, "--registry"],
    }
    return visit.page(
        "explore-handing.html",
        title="Explore: hand on",
        statement=[line.partition(": ")[::2] for line in statement.lines],
        blanks=registry_entry(look.release).blanks if statement.is_private else (),
        made=[shlex.join(["priory", *each]) for each in _made(visit, look)],
        command=[shlex.join(words) for words in commands.values()],
        python=f"import priory as pr\n\nrelease = pr.load({look.name!r})\nrelease.report({f'{stem}.html'!r})\n"
        "print(release.statement)",
        urls={name: look.url(f"/{name}") for name in ("report", "file", "statement", "registry", "notebook", "steps")},
        **shared(visit, look, "handing"),
    )


def report(visit: Visit) -> Response:
    """The report, to be looked at or kept."""
    look = needed(visit, None)
    text = str(page_of(look.release))
    if "keep" in visit.query:
        return visit.download(text, f"{Path(look.name).stem}.html", "text/html; charset=utf-8")
    # The report brings its style along, and runs and loads nothing.
    return HTMLResponse(text, headers={"content-security-policy": f"{POLICY}; sandbox"})


def file(visit: Visit) -> Response:
    """The release file."""
    look = needed(visit, None)
    return visit.download(visit.studio.folder.file(look.name), look.name, "application/octet-stream")


def statement(visit: Visit) -> Response:
    """The privacy statement as a text."""
    look = needed(visit, None)
    return _text(visit, "\n".join(look.release.statement.lines) + "\n", f"{Path(look.name).stem}-statement.txt")


def registry(visit: Visit) -> Response:
    """The entry for the public registry of deployments."""
    look = needed(visit, None)
    entry = registry_entry(look.release)
    return _text(visit, yaml_text(entry.fields), f"{Path(look.name).stem}-registry.yaml")


def notebook(visit: Visit) -> Response:
    """A notebook that opens, asks and draws the release, and says how it was made."""
    look = needed(visit, None)
    lines = [shlex.join(["priory", *each]) for each in _made(visit, look)]
    made = "The command lines; they are not run again here.\n\n```bash\n" + "\n".join(lines) + "\n```" if lines else ""
    name = f"{Path(look.name).stem}.ipynb"
    return visit.download(notebook_text(look.release, look.name, made=made), name, "application/x-ipynb+json")


def steps(visit: Visit) -> Response:
    """The command lines that made the release, as a shell script."""
    look = needed(visit, None)
    lines = [shlex.join(["priory", *each]) for each in _made(visit, look)]
    text = "\n".join(["#!/bin/sh", "# Running this again would be paid for again.", "set -eu", *lines, ""])
    return _text(visit, text, f"{Path(look.name).stem}.sh")


def _made(visit: Visit, look: Opened) -> list[tuple[str, ...]]:
    """What was called to make the release, as far as it was done here."""
    jobs = [job for job in visit.studio.jobs.all() if job.output == look.name and job.state == "ended"]
    return [each for job in reversed(jobs) for each in job.arguments]


def _text(visit: Visit, text: str, name: str) -> Response:
    return visit.download(text, name, "text/plain; charset=utf-8")


ROUTES = [
    ("/explore/handing", "GET", show),
    ("/explore/report", "GET", report),
    ("/explore/file", "GET", file),
    ("/explore/statement", "GET", statement),
    ("/explore/registry", "GET", registry),
    ("/explore/notebook", "GET", notebook),
    ("/explore/steps", "GET", steps),
]
