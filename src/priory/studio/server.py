"""Server: the addresses of the studio, and the process that answers them on this machine alone."""

import socket
import sys
import threading
import time
import traceback
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from priory.data.writing import write_secret
from priory.errors import DataError, OptionError, PrioryError
from priory.studio.connections import BACKLOG, Connection
from priory.studio.hub import Studio
from priory.studio.later import PATIENCE, Coming, Later, started
from priory.studio.progress import STEPS, first_open
from priory.studio.security import CSRF_FIELD, CSRF_HEADER, ENTER, MOST_BYTES, Guard, is_form_own, leading_to
from priory.studio.steps import (
    budget,
    column,
    columns,
    discovery,
    files,
    history,
    measuring,
    persons,
    run,
    table,
)
from priory.studio.steps.run import resume
from priory.studio.steps.table import begin_draft
from priory.studio.visit import HERE, Refusal, Visit

HOST = "127.0.0.1"
# How long one thread may keep the interpreter from the others, in seconds; what is worked out in the background
# must not keep a page waiting. Python's own 0.005 adds up over the files that a page reads.
SWITCH_EVERY = 0.0005
MODULES = (table, columns, column, discovery, persons, budget, measuring, run, history, files)
# What explores a release takes longer to import than the first page may: it is, when it is first asked for.
LATER = ("explore", "rows", "more", "handing")
Handler = Callable[[Visit], Response]


def app_of(studio: Studio, port: int, *, entered: Callable[[], None] = lambda: None) -> ASGIApp:
    """The application of a project, behind its guard."""
    routes: list[BaseRoute] = [Route("/", _endpoint(studio, _home), methods=["GET"])]
    for module in MODULES:
        for path, method, handler in module.ROUTES:
            routes.append(Route(path, _endpoint(studio, handler), methods=[method]))
    routes.append(Route("/explore{rest:path}", _Later(studio), methods=["GET", "POST"]))
    routes.append(Mount("/static", StaticFiles(directory=HERE / "static")))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _missing(studio)})
    return Guard(app, studio.keys, port, entered=entered)


class _Later:
    """The addresses of modules that are imported when the first of them is asked for, or before."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._router: Later[Router] = Later()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp
        try:
            app = await run_in_threadpool(self._router.value, "", self._imported, PATIENCE)
        except Coming:
            visit = Visit(self._studio, _step(scope["path"]), {})
            app = await run_in_threadpool(_coming, visit)
        await app(scope, receive, send)

    def _imported(self) -> Router:
        modules = [import_module(f"priory.studio.steps.{name}") for name in LATER]
        found = [route for module in modules for route in module.ROUTES]
        return Router([Route(path, _endpoint(self._studio, each), methods=[method]) for path, method, each in found])


def _home(visit: Visit) -> Response:
    return visit.go(first_open(visit.studio))


def _endpoint(studio: Studio, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        form, uploads = FormData(), {}
        if request.method == "POST":
            form = await request.form(max_files=1, max_fields=20_000, max_part_size=MOST_BYTES)
            uploads = {name: await file.read() for name, file in form.items() if isinstance(file, UploadFile)}
            await form.close()
        visit = Visit(
            studio, _step(request.url.path), request.path_params, request.query_params, form=form, uploads=uploads
        )
        if request.method == "POST":
            token = request.headers.get(CSRF_HEADER) or visit.text(CSRF_FIELD)
            if not is_form_own(studio.keys, token):
                return await run_in_threadpool(_error, visit, "The form is of an earlier server; open it again.", 403)
        return await run_in_threadpool(_answer, visit, handler)

    return endpoint


def _step(path: str) -> str:
    first = path.strip("/").split("/")[0]
    return first if any(step.key == first for step in STEPS) else ""


def _answer(visit: Visit, handler: Handler) -> Response:
    """What the handler answers, or a page that says what went wrong, without a path or a line of code in it."""
    try:
        return handler(visit)
    except Coming:
        return _coming(visit)
    except Refusal as refusal:
        return _error(visit, str(refusal), refusal.status)
    except PrioryError as error:
        return _error(visit, str(error), 400)
    except OSError as error:
        # Its message may have a path in it; what went wrong has not.
        words = f"A file of the folder could not be read or written: {error.strerror or type(error).__name__}."
        return _error(visit, words, 500)
    except Exception as error:  # noqa: BLE001 - a page must not show what else it may hold
        _log(error)
        return _error(visit, "This is a bug of ours. Nothing was started, and nothing is lost.", 500)


def _coming(visit: Visit) -> Response:
    """A page that is shown anew when what it waits for is there."""
    return visit.page("coming.html", title="One moment", is_coming=True)


def _error(visit: Visit, message: str, status: int) -> Response:
    shown = visit.studio.folder.shown(message)
    try:
        return visit.page("error.html", title="That did not work", status=status, message=shown)
    except PrioryError:
        # The project's own file is wrong: no page can be made.
        return PlainTextResponse(shown + "\n", status)


def _missing(studio: Studio) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def missing(_request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        visit = Visit(studio, "", {})
        words = "There is no such page." if status == 404 else "This request was not understood."
        return await run_in_threadpool(_error, visit, words, status)

    return missing


def _log(error: Exception) -> None:
    """Say on the terminal what kind of error it was, and where in our code; its message may hold anything."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if "priory" in Path(frame.filename).parts]
    where = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
    sys.stderr.write(f"priory studio: {type(error).__name__}{where}: this is a bug of ours\n")


class _Idle:
    """Counts requests, and knows how long there was none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self.last = app, time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.last = time.monotonic()
        await self._app(scope, receive, send)
        self.last = time.monotonic()


def serve(
    studio: Studio,
    *,
    port: int = 0,
    opens_browser: bool = True,
    is_terminal: bool = False,
    idle_minutes: float | None = None,
    say: Callable[[str], None],
) -> None:
    """Serve the project until it is interrupted, or was idle for so long.

    Args:
        studio: the project.
        port: where; 0 is any that is free.
        opens_browser: whether to open a browser.
        is_terminal: whether `say` reaches a terminal, which is its user's own; a log is not.
        idle_minutes: after how many minutes without a request to end, while no run goes on; None never does.
        say: called with what is for the person at the terminal.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
            # From now on a browser waits to be answered; it is not refused.
            listening.listen()
        except OSError as error:
            raise OptionError(
                "--port", f"{port} cannot be used: {error.strerror}; leave it out for any that is free"
            ) from None
        port = listening.getsockname()[1]

        page = studio.folder.kept / f"enter-{port}.html"

        def entrance() -> str:
            """Where the next browser is let in; what leads there stands where its user alone can read it."""
            address = f"http://{HOST}:{port}{ENTER}?token={studio.keys.token}"
            if opens_browser or not is_terminal:
                write_secret(page, leading_to(address))
            return address if is_terminal else page.as_uri()

        def entered() -> None:
            with suppress(DataError):  # a full disk keeps nobody out who is in
                say(f"A browser was let in. For another one: {entrance()}")

        resume(studio)
        app = _Idle(_First(app_of(studio, port, entered=entered), lambda: _warm(studio)))
        sys.setswitchinterval(SWITCH_EVERY)
        server = server_of(app)
        say(f"Open {entrance()}")
        say("It works once, on this machine alone. Ctrl-C ends the server; a run that was started goes on.")
        if opens_browser:
            # Its command line, which others can read, has the name of the file, and not what is in it.
            threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        if idle_minutes is not None:
            threading.Thread(target=_end_when_idle, args=(server, app, studio, 60 * idle_minutes), daemon=True).start()
        try:
            server.run(sockets=[listening])
        finally:
            studio.forecasts.end()
            page.unlink(missing_ok=True)


class _First:
    """Begins something once the first page of the browser that was let in is out."""

    def __init__(self, app: ASGIApp, work: Callable[[], None]) -> None:
        self._app, self._work, self._is_begun = app, work, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if not self._is_begun and scope.get("path", ENTER) not in (ENTER, "/"):
            self._is_begun = True
            started(self._work)


def _warm(studio: Studio) -> None:
    """Do what the next pages need, in the order in which they are likely to be asked for."""
    with suppress(PrioryError):
        begin_draft(studio)
        studio.misfits()
    for name in LATER:
        import_module(f"priory.studio.steps.{name}")
    newest = next(iter(studio.releases()), None)
    if newest is not None:
        studio.warm(newest.name)
    studio.forecasts.warm()


def server_of(app: ASGIApp) -> uvicorn.Server:
    """A server that logs nothing, and says nothing of itself."""
    config = uvicorn.Config(
        app,
        http=Connection,
        backlog=BACKLOG,
        access_log=False,
        log_level="critical",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def _end_when_idle(server: uvicorn.Server, app: _Idle, studio: Studio, seconds: float) -> None:
    while not server.should_exit:
        time.sleep(min(1.0, seconds / 4))
        if time.monotonic() - app.last > seconds and studio.jobs.running() is None:
            server.should_exit = True
