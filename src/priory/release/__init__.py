"""Release: what is saved and shared."""

from priory.release.release import Release, load

__all__ = ["Release", "load"]
