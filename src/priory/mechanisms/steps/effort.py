"""Effort: how much work a fit may take, in public units that are fixed before any row is read; never a clock."""

from typing import Protocol, Self, TypeVar, runtime_checkable

from priory.errors import OptionError

NORMAL = "normal"
# What the caps of a mechanism on its own work are multiplied by.
EFFORTS = {"low": 0.1, NORMAL: 1.0, "high": 5.0}


@runtime_checkable
class HasEffort(Protocol):
    """A mechanism with caps on the cells of its model, on what it looks at, or on the rows that it goes over."""

    def with_effort(self, factor: float) -> Self:
        """The same with all of its caps so many times higher."""


M = TypeVar("M")


def at_effort(mechanism: M, effort: str) -> M:
    """The mechanism with its caps set by a word of `EFFORTS`."""
    if effort not in EFFORTS:
        raise OptionError("effort", f"{', '.join(EFFORTS)}; got {effort!r}")
    if effort == NORMAL:
        return mechanism
    if not isinstance(mechanism, HasEffort):
        raise OptionError("effort", "this mechanism always takes the same; leave it out or take another mechanism")
    return mechanism.with_effort(EFFORTS[effort])
