"""Columns: what a column of a public table is drafted as, and why."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.dialect import Dialect
from priory.data.drafting import texts
from priory.data.drafting.texts import Recognised
from priory.data.kinds import Boolean, Category, Column, ModelledColumn, Moment, Number, Unmodelled
from priory.data.kinds.drafting import draft_bins
from priory.data.kinds.moment_format import MomentFormat
from priory.data.kinds.numbers import PLAIN, NumberFormat
from priory.data.public import misfit
from priory.data.survey import Seen
from priory.data.visible import visible

# Categories keep this many levels, the most frequent ones.
MOST_LEVELS = 100
# Fewer rows say nothing about identifiers: in a short table any column may be without repetitions.
LEAST_ROWS = 20
ID_SHARE = 0.9
ID_NAME = re.compile(r"(.*[\W_])?(id|ids|uuid|guid|key|index|rownames?|unnamed: 0)|.*[a-z](Id|ID)", re.DOTALL)
NEARLY = 0.99
ZERO_HEAVY = 0.3
# Of so few numbers, such as 0 and 1, zero is one as any other.
FEW = 5
# A number of this many rows is drafted from all of them; more, and each distinct value counts once.
MOST_ROWS = 10_000_000
CLOCK_TIME = re.compile(r"[0-2]?[0-9]:[0-5][0-9](:[0-5][0-9])?( ?[AaPp][Mm])?")
TIMES_INSTEAD = "these are times of day: a column with the hour, as an integer, would be modelled better"
SHOWN = 30


@dataclass(frozen=True)
class ColumnDraft:
    """A column of a draft, and what there is to say of it."""

    column: Column
    decided: str
    instead: str  # what else could be chosen
    called: tuple[str, ...] = ()  # what kind of awkward column it is, such as "id-like"
    nulls: tuple[str, ...] = ()  # the texts that are taken for missing
    said: str = "texts"  # what its texts are


def draft_column(seen: Seen, reading: Dialect) -> ColumnDraft:
    """The first of the kinds that may suit a column whose own cells all fit it."""
    for drafted in _candidates(seen, reading):
        if not isinstance(drafted.column, ModelledColumn) or not misfit(drafted.column, seen).wrong:
            return replace(drafted, called=(*drafted.called, *_constancy(seen, drafted)))
    return _left_out(seen, "text", "its cells fit no kind", "convert it to numbers, dates or a few texts before")


def _candidates(seen: Seen, reading: Dialect) -> Iterator[ColumnDraft]:
    if not seen.rows - seen.missing:
        yield _left_out(seen, "text", "empty", "leave it so, or declare what you know it may hold")
    elif len(seen.typed):
        yield from _of_typed(seen)
    else:
        yield from _of_texts(seen, reading)


def _of_typed(seen: Seen) -> Iterator[ColumnDraft]:
    nulls = texts.null_texts(seen.texts, weak=True)
    kind = seen.typed.dtype.kind
    if len(nulls) < len(seen.texts) or kind == "V":
        why = "mixed types" if len(seen.texts) or kind == "V" else "a type that is not modelled"
        yield _left_out(seen, "text", why, "make all its cells numbers, all dates or all texts to model it")
        return
    found = Recognised(seen.typed, seen.typed_counts, nulls, None)
    if kind == "b":
        column = Boolean.of(seen.name, nullable=True, nulls=nulls)
        yield ColumnDraft(column, "boolean", "kind: category with texts for levels", nulls=nulls)
    elif kind == "M":
        yield _moment(seen, found)
    else:
        yield from _number(seen, found)


def _of_texts(seen: Seen, reading: Dialect) -> Iterator[ColumnDraft]:
    found = texts.booleans(seen)
    if found is not None:
        false, true = found.format
        is_usual = set(true) <= set(Boolean.TRUE) and set(false) <= set(Boolean.FALSE)
        words = {} if is_usual else {"true": true, "false": false}
        column = Boolean.of(seen.name, **words, nullable=True, nulls=found.nulls)
        yield ColumnDraft(
            column, "boolean, by the texts it has for true and false", "kind: category", nulls=found.nulls
        )
    moments = texts.moments(seen)
    numbers = texts.numbers(seen, reading)
    # Days written as eight digits are numbers, too.
    if moments is not None:
        yield _moment(seen, moments)
    if numbers is not None:
        yield from _number(seen, numbers)
    yield from _category(seen)


def _number(seen: Seen, found: Recognised) -> Iterator[ColumnDraft]:
    values = found.values[np.isfinite(found.values)] if found.values.dtype.kind == "f" else found.values
    counts = found.counts[np.isfinite(found.values)] if found.values.dtype.kind == "f" else found.counts
    if not len(values):
        return
    if _is_id(seen, values, counts):
        yield _left_out(seen, "id", "id-like", "kind: integer with bounds and bins, if it is a quantity", found.nulls)
        return
    every = np.repeat(values, counts) if counts.sum() <= MOST_ROWS else values
    form = found.format or PLAIN
    column = Number.of(seen.name, **vars(draft_bins(every)), nullable=True, nulls=found.nulls, format=form)
    zeros = int(counts[values == 0].sum()) / counts.sum()
    is_heavy = zeros >= ZERO_HEAVY and len(values) > FEW
    called = (f"zero-heavy: {zeros:.1%} of its numbers are 0",) if is_heavy else ()
    bounds = f"from {column.point_text(column.low)} to {column.point_text(column.high)}"
    decided = f"{column.kind} with {_bins(column)} {bounds}{_spelled(form)}{_odd(found)}"
    yield ColumnDraft(column, decided, _number_instead(column, form), called, found.nulls, "numbers")


def _number_instead(column: Number, form: NumberFormat) -> str:
    ways = ["the bounds that a codebook gives", "bins: 10 or {log: 10} or {edges: […]}", "spikes: [0]"]
    if column.whole and column.high - column.low < 10:
        ways = ["kind: ordinal or category with these numbers as levels", "the bounds that a codebook gives"]
    if (column.low, column.high, column.whole) == (0, 1, True):
        ways = ['kind: boolean with true: ["1"] and false: ["0"], where the cells are texts', *ways[1:]]
    if form.thousands in (",", "."):
        ways.append(f"decimal: {form.thousands!r} if that is what it means")
    return "; ".join(ways)


def _moment(seen: Seen, found: Recognised) -> ColumnDraft:
    form = found.format if isinstance(found.format, MomentFormat) else None
    column = replace(Moment.draft(seen.name, found.values), nulls=found.nulls, format=form.spelling if form else None)
    twin = _other_order(seen, column)
    doubt = f'format: "{twin}", which fits as well: make sure which it is; ' if twin else ""
    spelled = f', written "{column.format}"' if column.format else ""
    every = column.described()["bins"]
    unit = f"a bin for each {every['every']}" if isinstance(every, dict) and "every" in every else _bins(column)
    first, last = column.point_text(column.low)[:10], column.point_text(column.high)[:10]
    decided = f"{column.kind} with {unit} from {first} to {last}{spelled}{_odd(found)}"
    instead = f"{doubt}bins: {{every: day, week, month, quarter or year}}; the bounds that you know"
    return ColumnDraft(column, decided, instead, (), found.nulls, "moments")


def _other_order(seen: Seen, column: Moment) -> str | None:
    """The format with day and month exchanged, if all cells fit that, too."""
    if column.format is None or not {"%m", "%d"} <= set(re.findall("%.", column.format)):
        return None
    # Out of bounds is no matter here.
    twin = column.format.translate(str.maketrans("md", "dm"))
    wide = replace(column, format=twin, low=-(10**18), high=10**18)
    return None if misfit(wide, seen).wrong else twin


def _category(seen: Seen) -> Iterator[ColumnDraft]:
    nulls = texts.null_texts(seen.texts)
    is_level = ~np.isin(seen.texts, nulls)
    levels, counts = seen.texts[is_level], seen.text_counts[is_level]
    total = int(counts.sum())
    if not len(levels):
        yield _left_out(seen, "text", "empty", "leave it so, or declare what you know it may hold", nulls)
        return
    missing = bool(nulls) or seen.missing > 0
    other = next(label for label in ("other", "(other)", "((other))", "none of them") if label not in seen.texts)
    if len(levels) <= MOST_LEVELS and not (total >= LEAST_ROWS and len(levels) >= ID_SHARE * total):
        column = Category.of(seen.name, sorted(levels), other=other, nullable=missing, nulls=nulls)
        decided = f"category with {'its' if len(levels) > 1 else 'one'} {_many(len(levels), 'level')}"
        yield ColumnDraft(column, decided + _codes(levels), _category_instead(levels), (), nulls)
        return
    if total >= LEAST_ROWS and len(levels) >= ID_SHARE * total:
        yield _unrepeated(seen, levels, nulls)
        return
    share = counts[:MOST_LEVELS].sum() / total
    column = Category.of(seen.name, sorted(levels[:MOST_LEVELS]), other=other, nullable=missing, nulls=nulls)
    kept = f"{MOST_LEVELS} most frequent levels ({share:.1%} of its cells)"
    decided = f"category with its {kept}; the others go to {other!r}"
    called = (f"high-cardinality: {len(levels):,} levels",)
    yield ColumnDraft(column, decided + _codes(levels), _category_instead(levels), called, nulls)


def _unrepeated(seen: Seen, levels: NDArray[np.object_], nulls: tuple[str, ...]) -> ColumnDraft:
    """A column of texts that hardly ever come again."""
    instead = "kind: category with the levels that matter and other: other"
    if _are_times(levels):
        return _left_out(seen, "text", "times of day", TIMES_INSTEAD, nulls)
    if any(" " in text for text in levels[:SHOWN]):
        return _left_out(seen, "text", "free text", instead, nulls)
    return _left_out(seen, "id", "id-like", instead, nulls)


def _are_times(levels: NDArray[np.object_]) -> bool:
    return all(CLOCK_TIME.fullmatch(text) for text in levels[:SHOWN])


def _category_instead(levels: NDArray[np.object_]) -> str:
    if _are_times(levels):
        return TIMES_INSTEAD
    return "kind: ordinal if their order means something, with levels in that order; kind: text to leave it out"


def _codes(levels: NDArray[np.object_]) -> str:
    return "; as texts, for a number would lose some of their digits" if texts.has_codes(levels) else ""


def _is_id(seen: Seen, values: NDArray[Any], counts: NDArray[np.int64]) -> bool:
    """Whether whole numbers look like identifiers: none twice and numbered from 0 or 1, or called so and many."""
    is_whole = values.dtype.kind in "iu" or bool((np.floor(values) == values).all())
    if not is_whole or counts.sum() < LEAST_ROWS:
        return False
    is_distinct = len(values) >= ID_SHARE * counts.sum()
    is_numbering = counts.max() == 1 and values.min() in (0, 1) and values.max() - values.min() == len(values) - 1
    return bool(is_numbering or (ID_NAME.fullmatch(seen.name) and (is_distinct or len(values) > MOST_LEVELS)))


def _left_out(seen: Seen, kind: str, why: str, instead: str, nulls: tuple[str, ...] = ()) -> ColumnDraft:
    return ColumnDraft(
        Unmodelled.of(seen.name, kind=kind), f"kind {kind}: declared and left out", instead, (why,), nulls
    )


def _constancy(seen: Seen, drafted: ColumnDraft) -> tuple[str, ...]:
    counts = np.concatenate([seen.text_counts[~np.isin(seen.texts, drafted.nulls)], seen.typed_counts])
    if len(counts) == 1:
        return ("constant",)
    share = counts.max() / seen.rows if len(counts) else 0
    return (f"nearly constant: {share:.2%} of its cells are the same",) if share >= NEARLY else ()


def _bins(column: Number | Moment) -> str:
    return "a bin for each number" if not column.is_coarse else _many(column.places, "bin")


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _spelled(form: NumberFormat) -> str:
    marks = [f"decimal mark {form.decimal!r}"] if form.decimal != "." else []
    marks += [f"{form.thousands!r} between thousands"] if form.thousands else []
    marks += [f"{form.symbol!r} beside them"] if form.symbol else []
    marks += ["parentheses for negative numbers"] if form.parentheses else []
    return f"; read with {', '.join(marks)}" if marks else ""


def _odd(found: Recognised) -> str:
    if not found.odd:
        return ""
    shown = ", ".join(repr(visible(text)) for text in found.odd[:3]) + (", …" if len(found.odd) > 3 else "")
    return f"; {_many(len(found.odd), 'text')} that fit nothing ({shown}) count as missing"
