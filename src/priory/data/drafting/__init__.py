"""Drafting: a schema that fits a public table, with comments that say what was seen and decided."""

from priory.data.drafting.draft import Draft, draft_schema

__all__ = ["Draft", "draft_schema"]
