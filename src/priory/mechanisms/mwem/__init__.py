"""MWEM: the recipe and its two updates."""
