"""Work: how far a long computation has come, for whoever waits for it; without a listener it costs next to nothing.

A loop over `tracked(things, "comparing pairs")` reports before each thing which share of the whole is done. Loops
inside it refine that share. What is reported depends on how many things there are, never on what is in them.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Things(Iterable[T_co], Sized, Protocol[T_co]):
    """Something whose length is known."""


# Called with the share of all work that is done, from 0 to 1, and what happens now, in the thread that works.
Listener = Callable[[float, str], None]


@dataclass(frozen=True)
class _Part:
    """Which part of the whole the innermost loop is, and who listens."""

    listener: Listener
    start: float = 0.0
    width: float = 1.0

    def within(self, first: float, last: float) -> "_Part":
        return _Part(self.listener, self.start + first * self.width, (last - first) * self.width)


# The work at hand; None where nobody listens.
at_hand: ContextVar[_Part | None] = ContextVar("part of the work", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let a listener hear of all work that is done inside."""
    before = at_hand.get()
    at_hand.set(_Part(listener))
    try:
        yield
    finally:
        at_hand.set(before)


def tracked(things: Things[T], note: str) -> Iterator[T]:
    """The things one by one, each an equal step of the work at hand."""
    whole = at_hand.get()
    if whole is None:
        yield from things
        return
    try:
        for number, thing in enumerate(things):
            part = whole.within(number / len(things), (number + 1) / len(things))
            whole.listener(part.start, note)
            at_hand.set(part)
            yield thing
    finally:
        at_hand.set(whole)


@contextmanager
def stage(first: float, last: float, note: str) -> Iterator[None]:
    """What takes about that part of the work at hand."""
    whole = at_hand.get()
    if whole is None:
        yield
        return
    part = whole.within(first, last)
    whole.listener(part.start, note)
    at_hand.set(part)
    try:
        yield
    finally:
        at_hand.set(whole)


def reached(share: float, note: str) -> None:
    """Report that a share of the work at hand is done."""
    whole = at_hand.get()
    if whole is not None:
        whole.listener(whole.start + share * whole.width, note)


@contextmanager
def measured_by(share: Callable[[], float], note: str) -> Iterator[None]:
    """Report of the work inside only that it goes on, and how far `share` says that all is."""
    whole = at_hand.get()
    if whole is None:
        yield
        return
    with heard_by(lambda *_: whole.listener(whole.start + share() * whole.width, note)):
        yield


@contextmanager
def meanwhile(task: Callable[[], object], pause: Callable[[], float]) -> Iterator[None]:
    """Do a task again and again while the work inside lasts, after a pause each time.

    A thread does it, which reports as if it were this one. `pause` gives seconds, and is asked anew each time.
    """
    ended, here = threading.Event(), copy_context()

    def repeat() -> None:
        while not ended.wait(pause()):
            here.run(task)

    thread = threading.Thread(target=repeat, name="priory-meanwhile", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
