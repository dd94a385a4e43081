"""Discover: learning the schema of a private table from its rows, paid for."""

from priory.app.discover.job import Discovery, discover

__all__ = ["Discovery", "discover"]
