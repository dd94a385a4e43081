"""Release: what is saved and shared."""

from priory.release.combining import combine
from priory.release.release import Release, load

__all__ = ["Release", "combine", "load"]
