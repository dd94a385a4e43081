"""Release: what is saved and shared."""

from priory.release.release import Release

__all__ = ["Release"]
