"""Queries: what may be asked of a table, as data: its domain, tables over parts of it, and questions about them."""
