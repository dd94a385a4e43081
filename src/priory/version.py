"""Version: the one place that says which version this is; looking it up needs no package metadata, and cannot fail."""

__version__ = "0.2.0.dev0"
