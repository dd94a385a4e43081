"""Warming: what the pages of a release need, worked out in the background in the order in which they need it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from weakref import WeakKeyDictionary

from priory.answer.quality import Quality
from priory.release import Release
from priory.report.page import Html
from priory.studio import pictures
from priory.studio.later import waited

_lock = threading.Lock()
_known: WeakKeyDictionary[Release, dict[str, Future[Any]]] = WeakKeyDictionary()


def begin(release: Release) -> dict[str, "Future[Any]"]:
    """Begin with what a release is good for, its picture, and the errors that every answer needs; once."""
    with _lock:
        if release not in _known:
            futures: dict[str, Future[Any]] = {name: Future() for name in ("judged", "overview", "errors")}
            _known[release] = futures
            threading.Thread(target=_work, args=(release, futures), daemon=True, name="priory-warming").start()
        return _known[release]


def judged(release: Release, seconds: float | None) -> Quality:
    """What the release is good for; `Coming` if it is not known after so many seconds."""
    found: Quality = waited(begin(release)["judged"], seconds)
    return found


def overview(release: Release, seconds: float | None) -> Html:
    """The picture of all pairs; `Coming` if it is not drawn after so many seconds."""
    found: Html = waited(begin(release)["overview"], seconds)
    return found


def errors(release: Release, seconds: float | None) -> None:
    """Wait until answers come at once; `Coming` if they do not after so many seconds."""
    waited(begin(release)["errors"], seconds)


def _work(release: Release, futures: dict[str, "Future[Any]"]) -> None:
    parts: dict[str, Callable[[], object]] = {
        "judged": release.judged,
        "overview": lambda: pictures.overview(release) if len(release.domain) >= 2 else Html(""),
        "errors": lambda: release.marginal(next(iter(release.domain))),
    }
    for name, part in parts.items():
        try:
            futures[name].set_result(part())
        except Exception as error:  # noqa: BLE001 - whoever asks gets it
            futures[name].set_exception(error)
