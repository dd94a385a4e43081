"""Mechanisms: recipes of select, measure, estimate and answer."""
