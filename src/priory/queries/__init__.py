"""Queries: what may be asked of a table, as data."""
