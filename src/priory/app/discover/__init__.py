"""Discover: learning the schema of a private table from its rows, paid for."""

from priory.app.discover.discovery import Discovery
from priory.app.discover.job import discover

__all__ = ["Discovery", "discover"]
