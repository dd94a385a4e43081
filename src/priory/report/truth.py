"""Truth: how far a release is from the private rows, for the curator's eyes only.

This reads private rows and pays nothing, so nothing here is covered by any promise. It is kept apart from the report:
nothing of it can be called from there, and its page says NOT PRIVATE at every section.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.data.sources.source import Source
from priory.errors import DomainError, OptionError
from priory.queries.domain import Clique
from priory.queries.factor import Array
from priory.release import Release
from priory.release.release import LEVEL
from priory.report import charts
from priory.report.answered import Answer, answered
from priory.report.contents import places_alone
from priory.report.evaluation import MOST_PAIRS, distance, spread
from priory.report.page import Html, Page, Section, element, joined, paragraph, shortened, table, tiles
from priory.report.sections import amount, card

STAMP = "NOT PRIVATE – true errors against the private rows. For the curator only: never publish, mail or upload this."


@dataclass(frozen=True, eq=False)
class Compared:
    """A marginal beside the truth."""

    answer: Answer  # its groups with their intervals
    truth: Array  # the true counts of the groups
    distance: float  # the total variation distance of the whole marginal; NaN where a side is empty

    @property
    def covered(self) -> tuple[int, int]:
        """How many intervals hold the truth, of how many there are."""
        known = np.isfinite(self.answer.low)
        # Half a record is nothing: the truth is whole, and estimates are not.
        inside = (self.truth >= self.answer.low - 0.5) & (self.truth <= self.answer.high + 0.5)
        return int((inside & known).sum()), int(known.sum())


@dataclass(frozen=True, eq=False)
class Comparison:
    """A release beside the truth."""

    estimated: float  # the number of records in the model
    counted: int  # the number of records that count
    columns: tuple[Compared, ...]  # every column
    pairs: tuple[tuple[Clique, float], ...]  # the total variation distance of pairs, the farthest first


def compared(release: Release, source: Source) -> Comparison:
    """Count the private rows, without paying, and put the release beside them."""
    if source.domain != release.domain:
        raise DomainError("the table's attributes are not the release's")
    model = release.model
    answers = answered(release, [(places,) for places in places_alone(release)])
    truths = [factor.values for factor in source.count([(name,) for name in release.domain])]
    columns = tuple(
        Compared(answer, answer.places[0].summed(truth), distance(model.project(name).values, truth))
        for name, answer, truth in zip(release.domain, answers, truths, strict=True)
    )
    pairs = spread(release, 2, MOST_PAIRS)
    distances = [
        (pair, distance(model.project(pair).values, truth.values))
        for pair, truth in zip(pairs, source.count(pairs), strict=True)
    ]
    distances.sort(key=lambda each: -np.nan_to_num(each[1], nan=-1.0))
    return Comparison(model.total, int(truths[0].sum()), columns, tuple(distances))


def truth_page(release: Release, source: Source, *, confirmed: bool = False) -> Page:
    """The page of true errors, once it is `confirmed` that private rows are read and shown, and nobody is protected."""
    if not confirmed:
        raise OptionError("confirmed", "this page shows true counts of private rows; nothing was read")
    found = compared(release, source)
    return Page(
        title=f"{release.statement.dataset}: true errors",
        kicker="For the curator only",
        lead=_lead(found),
        sections=(_what(), _columns(found), *([_pairs(found)] if found.pairs else [])),
        footer=paragraph("Delete this file when you have read it.", "quiet"),
        stamp=STAMP,
    )


def _lead(found: Comparison) -> Html:
    inside, known = (sum(each) for each in zip(*(column.covered for column in found.columns), strict=True))
    facts = [
        (f"{found.counted:,}", f"records that count; {amount(found.estimated)} estimated"),
        (_mean([column.distance for column in found.columns]), "mean total variation of single columns"),
        (_mean([distance for _, distance in found.pairs]), "mean total variation of pairs"),
        (f"{inside / known:.0%}" if known else "–", f"of {known:,} intervals hold the truth; {LEVEL:.0%} should"),
    ]
    return tiles(facts)


def _what() -> Section:
    warning = paragraph(
        "The released figures beside the true ones, counted from the private table without paying for it. Whoever sees "
        "this page sees private counts. Choosing a mechanism, a budget or a model by it, and then publishing, breaks "
        "the promise of the release: what is published would depend on private rows that nobody paid for."
    )
    opened = "the table must be opened with the ledger of the release for the same rows to count"
    same_rows = paragraph(f"Where a person has more rows than count, {opened}.")
    return Section("what", "What this is", joined(warning, same_rows))


def _columns(found: Comparison) -> Section:
    cards = []
    for number, column in enumerate(found.columns):
        [places] = column.answer.places
        name = shortened(places.attribute.name)
        inside, known = column.covered
        intervals = f"{inside} of {known} intervals hold the truth" if known else "no intervals"
        facts = f"total variation {column.distance:.4f} · {intervals}"
        words = f"NOT PRIVATE: {name}, released groups with true counts as diamonds"
        picture = charts.drawn(charts.column_chart(column.answer, truth=column.truth), words, f"truth-{number}")
        cards.append(card(name, facts, column.answer, picture, column.truth))
    return Section("columns", "Columns", element("div", *cards, class_="grid"))


def _pairs(found: Comparison) -> Section:
    rows = [[shortened(a), shortened(b), f"{distance:.4f}"] for (a, b), distance in found.pairs]
    caption = paragraph(f"The farthest first; at most {MOST_PAIRS} pairs are compared.", "quiet")
    body = joined(caption, table(["column", "column", "total variation"], rows, numbers=frozenset({2})))
    return Section("pairs", "Pairs of columns", body)


def _mean(values: Sequence[float]) -> str:
    known = [value for value in values if np.isfinite(value)]
    return f"{np.mean(known):.4f}" if known else "–"
