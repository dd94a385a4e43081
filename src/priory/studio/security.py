"""Security: who may talk to the studio: one browser on this machine, that was given the token.

Every request passes `Guard` before anything else sees it. What it refuses changes nothing. A page of another site that
runs in the same browser, or a name that was made to lead to this machine (DNS rebinding), has the wrong Host or Origin,
no cookie, and no token of a form.
"""

import hmac
import html
import re
import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTER = "/enter"
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
# Nothing that a form of the studio sends is larger; tables are never sent, they lie in the folder.
MOST_BYTES = 4 << 20
TOO_LARGE = f"At most {MOST_BYTES >> 20} MiB can be sent. Tables are not sent: put them in the folder."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), usb=()",
    # Not "no-referrer": with it browsers send no Origin with forms.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
SAFE = ("GET", "HEAD")
_TOKEN_BYTES = 32


class Keys:
    """The secrets of one server: the token that lets a browser in once, the cookie it gets, the token of its forms."""

    def __init__(self) -> None:
        self.session = secrets.token_urlsafe(_TOKEN_BYTES)
        self.csrf = secrets.token_urlsafe(_TOKEN_BYTES)
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)

    def used(self, token: str) -> bool:
        """Whether this is the token; if so it is not any more."""
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return False
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        return True


class Guard:
    """Lets pass what comes from the pages of this server, in the browser that was let in."""

    def __init__(self, app: ASGIApp, keys: Keys, port: int, *, entered: Callable[[], None] = lambda: None) -> None:
        self._app, self._keys = app, keys
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self._cookie = f"priory-{port}"
        self._entered = entered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        send = _with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        if scope["path"] == ENTER:
            await self._enter(scope)(scope, receive, send)
            return
        await self._bounded(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if headers.getlist("host") != [host] or host not in self._hosts:
            return _refused("This server answers on its own address alone.", 421)
        if not self._is_own(scope["method"], host, headers) and scope["path"] != ENTER:
            return _refused("This request comes from another page.", 403)
        if scope["method"] not in (*SAFE, "POST"):
            return _refused("There is no such method here.", 405)
        if scope["path"] != ENTER and not self._has_cookie(headers):
            return _refused(
                "Open the address or the file that priory studio names where it was started: it lets one browser in.",
                403,
            )
        length = headers.get("content-length", "0")
        if not re.fullmatch("[0-9]{1,15}", length) or int(length) > MOST_BYTES:
            return _refused(TOO_LARGE, 413)
        return None

    def _is_own(self, method: str, host: str, headers: Headers) -> bool:
        """Whether a page of this server, or nobody's page, asks; what changes something must say whose it is."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is None:
            return method in SAFE and site in (None, "same-origin", "none")
        return origin == f"http://{host}" and site in (None, "same-origin", "none")

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._keys.session.encode())

    def _enter(self, scope: Scope) -> Response:
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] != "GET" or not self._keys.used(token):
            return _refused(
                "This address was used already, or is of another server. The new one is named where it was started.",
                403,
            )
        # No redirect: a browser that comes from a file is of another site until a page of ours leads it on.
        response = HTMLResponse(leading_to("/"))
        response.set_cookie(self._cookie, self._keys.session, httponly=True, samesite="strict", path="/")
        self._entered()
        return response

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read all that is sent, as far as it is allowed, and pass it on."""
        body, is_more = b"", True
        while is_more:
            message = await receive()
            if message["type"] != "http.request":
                return  # it was cut off: half a form is none
            body += message.get("body", b"")
            is_more = message.get("more_body", False)
            if len(body) > MOST_BYTES:
                await _refused(TOO_LARGE, 413)(scope, receive, send)
                return
        first: Message | None = {"type": "http.request", "body": body}

        async def received() -> Message:
            nonlocal first
            if first is None:
                return await receive()
            given, first = first, None
            return given

        await self._app(scope, received, send)


def leading_to(address: str) -> str:
    """A page that goes on to an address by itself, without a script."""
    to = html.escape(address)
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>priory studio</title>\n'
        f'<link rel="icon" href="data:,">\n<meta http-equiv="refresh" content="0; url={to}">\n'
        f'<p><a href="{to}">Go on</a></p>\n</html>\n'
    )


def is_form_own(keys: Keys, token: str) -> bool:
    """Whether the token of a form is the one that the pages of this server have."""
    return hmac.compare_digest(token.encode(), keys.csrf.encode())


def _refused(words: str, status: int) -> Response:
    # The rest of what is sent is not read: the connection ends here.
    return PlainTextResponse(words + "\n", status, headers={"connection": "close"})


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent
