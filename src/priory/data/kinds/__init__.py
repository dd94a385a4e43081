"""Kinds of columns: one file for each, and the list of them.

`kind.py` says what a column of any kind can do; nothing else in the library asks which kind one is.
"""

from priory.data.kinds.binned import Binned
from priory.data.kinds.boolean import Boolean
from priory.data.kinds.category import Category
from priory.data.kinds.kind import Column, Listed, ModelledColumn, PublicValue, Span, Spans, Unmodelled
from priory.data.kinds.moment import Moment
from priory.data.kinds.number import Number

__all__ = [
    "KINDS",
    "Binned",
    "Boolean",
    "Category",
    "Column",
    "Listed",
    "ModelledColumn",
    "Moment",
    "Number",
    "PublicValue",
    "Span",
    "Spans",
    "Unmodelled",
]

# The kinds that are modelled, in the order in which they are named.
KINDS: tuple[type[ModelledColumn], ...] = (Category, Number, Moment, Boolean)
