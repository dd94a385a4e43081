"""Studio: the verb that opens the local page."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import say
from priory.errors import MissingExtra, OptionError

Folder = Annotated[Path, typer.Argument(help="The folder of the table, where everything that is made goes, too.")]


def studio(
    folder: Folder = Path(),
    *,
    port: Annotated[int, typer.Option(help="Where to listen on this machine; default: any port that is free.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    idle: Annotated[
        float | None, typer.Option(help="End after so many minutes without a request, unless a run goes on.")
    ] = None,
) -> None:
    """Open the local page: the whole job in a browser, on this machine alone."""
    if not 0 <= port < 65536:
        raise OptionError("--port", f"a port is 1 to 65535, or 0 for any that is free; got {port}")
    if idle is not None and not idle > 0:
        raise OptionError("--idle", "give a number of minutes above 0")
    try:
        from priory.studio.server import serve
    except ModuleNotFoundError as missing:
        raise MissingExtra(missing.name or "starlette", "priory[web]") from None
    from priory.studio.folder import Folder as ProjectFolder
    from priory.studio.hub import Studio

    project = Studio(ProjectFolder.of(folder))
    try:
        serve(
            project,
            port=port,
            opens_browser=not no_browser,
            is_terminal=sys.stderr.isatty(),
            idle_minutes=idle,
            say=say,
        )
    except KeyboardInterrupt:
        say("Ended. The project is in the folder, and a run that was started goes on.")
