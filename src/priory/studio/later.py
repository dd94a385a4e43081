"""Later: what takes longer than a page may, worked out in a thread, and kept until something else is asked for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")
# How long a page waits for something before it is shown without it, in seconds.
PATIENCE = 0.12
# The same for the release that a page is about, without which there is nothing to show; most are read in a tenth of it.
PATIENCE_FOR_ALL = 1.0


class Coming(Exception):
    """It is still being worked out: ask again soon."""


class Later(Generic[T]):
    """One value, which depends on a key. Nobody waits twice for the same key, and an error is kept as a value is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: object = None
        self._future: Future[T] | None = None

    def value(self, key: object, work: Callable[[], T], seconds: float | None = None) -> T:
        """What `work` returns, which is called once for each new key.

        Args:
            key: what the value depends on.
            work: works it out.
            seconds: how long to wait at most; by default until it is there.

        Raises:
            Coming: it is not there after so many seconds.
        """
        with self._lock:
            if self._future is None or self._key != key:
                self._key, self._future = key, started(work)
            future = self._future
        return waited(future, seconds)


def started(work: Callable[[], T]) -> "Future[T]":
    """Begin to work something out. The process may end before it is there."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="priory-later").start()
    return future


def waited(future: "Future[T]", seconds: float | None) -> T:
    """What a future has, if it comes within so many seconds; `Coming` if it does not."""
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            return future.result()
        raise Coming from None
