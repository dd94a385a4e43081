"""Connections: what somebody may hold open who has asked nothing, so that the curator's browser still gets in."""

import asyncio
from operator import attrgetter

from uvicorn.protocols.http.h11_impl import H11Protocol

# For how many seconds a connection may be open before its first request is there.
SECONDS_SILENT = 10.0
# How many may be open that long: a new one ends the oldest of more. A browser opens about six, and asks at once.
# With those that are accepted in two turns of the loop there are fewer than 256, the least that systems let be open.
# Half as many would still do for ten browsers; twice as many would not fit.
MOST_SILENT, BACKLOG = 128, 32


class Connection(H11Protocol):
    """A connection that is ended, unless it asks something before it is too old or too many newer ones are there.

    Whoever asks without the cookie is refused, and the connection ends; therefore only silent ones need a bound.
    """

    @property
    def is_silent(self) -> bool:
        """Whether nothing was asked yet."""
        return self.cycle is None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it: what came last, asks first."""
        super().connection_made(transport)
        self._opened = self.loop.time()
        self._end = self.loop.call_later(SECONDS_SILENT, self._end_if_silent)
        others = [each for each in self.connections if isinstance(each, Connection) and each.is_silent]
        for each in sorted(others, key=attrgetter("_opened"))[:-MOST_SILENT]:
            each.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._end.cancel()
        super().connection_lost(exc)

    def _end_if_silent(self) -> None:
        if self.is_silent:
            self.transport.abort()
