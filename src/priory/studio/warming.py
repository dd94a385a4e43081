"""Warming: what the first picture and the first answer of a release need, worked out while people read."""

import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakKeyDictionary

from priory.errors import PrioryError
from priory.release import Release
from priory.studio import pictures

_lock = threading.Lock()
_threads: WeakKeyDictionary[Release, threading.Thread] = WeakKeyDictionary()


def draw() -> threading.Thread:
    """Start what draws, in the background."""
    return _started(pictures.warm)


def begin(release: Release) -> threading.Thread:
    """Begin to find the errors of a release's answers, once; every answer needs them."""
    with _lock:
        if release not in _threads:
            _threads[release] = _started(lambda: _ask(release))
        return _threads[release]


def is_ready(release: Release, seconds: float) -> bool:
    """Whether answers come at once; waits for that so long at most."""
    thread = begin(release)
    thread.join(seconds)
    return not thread.is_alive()


def _ask(release: Release) -> None:
    release.marginal(next(iter(release.domain)))


def _started(work: Callable[[], None]) -> threading.Thread:
    def quietly() -> None:
        # Whoever asks gets the same error, and can be told.
        with suppress(PrioryError):
            work()

    thread = threading.Thread(target=quietly, daemon=True, name="priory-warming")
    thread.start()
    return thread
