"""Schema: what is publicly declared about a table; its file, its constraints, and drafts from public rows."""

from priory.data.schema.schema import Group, Schema, check_person

__all__ = ["Group", "Schema", "check_person"]
