"""Hooks: what a room asks of a room above it; the package itself, which knows all rooms, fills them when imported."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Write the report of a release to a path. Filled by `priory/__init__.py`, which runs before any module of the package.
write_report: Callable[[Any, str | Path], None]
# A chart of some columns of a release; filled likewise.
plot: Callable[[Any, Sequence[str]], Any]
