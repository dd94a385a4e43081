"""Sections: the parts of a report in words and pictures."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from priory.data.writing import written_whole
from priory.privacy.explain import Explanation, explain, percent_up
from priory.privacy.statement import KEPT
from priory.queries.factor import Array
from priory.release import Release
from priory.release.release import LEVEL
from priory.report import charts
from priory.report.answered import Answer
from priory.report.contents import MOST_COMPARED, Contents, Item, spending
from priory.report.page import Html, Page, Section, Text, element, folded, joined, paragraph, shortened, table, tiles

MOST_ITEMS = 24
MOST_RANKED = 14
SOURCES = {
    "measured": "measured",
    "inferred": "inferred from what was measured",
    "independent by assumption": "independent by assumption",
    "drawn": "counted on rows drawn from the model",
    "prior": "not measured: as it was known before",
}
STAMP = "NOT PRIVATE: made with test randomness; do not publish"


def lead(contents: Contents) -> Html:
    """The figures on top."""
    release = contents.release
    promise, headline = release.statement.promise, release.statement.headline
    detail = promise.removeprefix(headline) if promise.startswith(headline) else ""
    facts = [
        (f"≈ {amount(release.model.total)}", "records, estimated"),
        (f"{len(contents.columns):,}", "columns"),
        (f"{len(release.measurements):,}", "noisy measurements"),
        (headline, f"privacy promise{detail}"),
    ]
    return tiles(facts)


def quality(contents: Contents) -> Section:
    """What can be relied on, and what is noise."""
    found = contents.quality
    judged = [*found.columns, *found.pairs]
    rows = [
        [
            " × ".join(map(shortened, each.names)),
            "" if each.strength is None else f"{each.strength:.2f}",
            "not known" if each.error is None else f"{each.error:.1%}",
            each.verdict,
        ]
        for each in judged
    ]
    body = [
        element("ul", *(element("li", Text(f"{note[:1].upper()}{note[1:]}.")) for note in found.notes)),
        paragraph(
            "A column is above the noise where most of its rows are in cells that are at least twice as large as their "
            "standard error; a pair where it departs from independence by more than noise would. The expected error is "
            "the share of rows in a wrong cell, if noisy counts were taken as they are; the estimates improve on them.",
            "quiet",
        ),
        folded(
            f"All {len(found.columns):,} columns and {len(found.pairs):,} pairs",
            table(["column or pair", "V", "expected error", "verdict"], rows, numbers=frozenset({1, 2})),
        ),
    ]
    return Section("quality", "Is it any good?", element("figure", *body, class_="wide"))


def privacy(contents: Contents) -> Section:
    """What is promised, to whom, and how to say so."""
    statement = contents.release.statement
    is_rows = statement.unit == "a row"
    who = "row of the table" if is_rows else "person in the table"
    body = [
        paragraph(
            f"The figures on this page come from a table about {_quoted(statement.dataset)} that is not public. They "
            f"were released under differential privacy: noise was added, so that what they tell about any single {who} "
            f"is limited as said here. The limit holds whatever is published elsewhere. Everything on this page was "
            f"worked out from the noisy measurements alone, so looking at it costs no more privacy."
        ),
        _meaning(contents),
        _terms(contents),
    ]
    if is_rows:
        body.append(paragraph("Rows are protected, not persons: somebody with several rows is protected less."))
    if statement.ledger == "memory":
        kept = "No ledger on disk was kept: other releases of the same data add to what is stated here."
        body.append(paragraph(kept))
    body += [element("h3", Text("How to cite this")), element("blockquote", Text(citation(contents)))]
    return Section("privacy", "What is promised", joined(*body))


def citation(contents: Contents) -> str:
    """The statement in one sentence, to be copied."""
    statement = contents.release.statement
    stamp = "" if statement.is_private else "NOT PRIVATE (test randomness): "
    learnt = "" if statement.discovered is None else ", learning the schema included"
    return (
        f"{stamp}Statistics of {_quoted(statement.dataset)}, released under differential privacy with "
        f"{statement.promise}{learnt}, for tables that differ in {statement.unit} ({statement.budget.relation} "
        f"neighbours), by the mechanism {_quoted(statement.mechanism)} of priory {statement.version}."
    )


def reading() -> Section:
    """How to read the figures."""
    points = [
        f"Bars and lines are estimates, in records. Thin dark lines are intervals that should hold the true figure of "
        f"the table {LEVEL:.0%} of the time.",
        "“Measured” means that noisy counts of just these columns were taken. “Inferred” figures follow from other "
        "measurements through the model; their intervals allow for what it assumes as far as other measurements can "
        "tell. “Independent by assumption” ones combine columns that nothing measured ties together: they show what "
        "follows if these have nothing to do with each other. “Not measured” ones are as they were known before: no "
        "interval is drawn where nothing is known.",
        "Grey bars are cells that were not given, and values too rare to be shown one by one.",
        "The table's own chance – it may be a sample of something larger – is not part of the intervals.",
    ]
    return Section("reading", "How to read it", element("ul", *(element("li", Text(point)) for point in points)))


def columns(contents: Contents) -> Section:
    """Every column with its distribution."""
    cards, entries = [], []
    for number, answer in enumerate(contents.columns):
        [places] = answer.places
        name, anchor = places.attribute.name, f"column-{number}"
        picture = charts.drawn(charts.column_chart(answer), _spoken(answer), anchor)
        codes = len(places.targets)
        facts = f"{places.attribute.kind} · {codes:,} {'value' if codes == 1 else 'values'}"
        facts += f" · {contents.means[name]}" if name in contents.means else ""
        cards.append(card(shortened(name), facts, answer, joined(picture, _rest(answer)), id=anchor))
        entries.append((anchor, shortened(name)))
    return Section("columns", "Columns", element("div", *cards, class_="grid"), tuple(entries))


def card(title: str, facts: str, answer: Answer, picture: Html, truth: Array | None = None, **attributes: str) -> Html:
    """A picture with its heading, where its figures come from, and those; `truth` is for the curator's own page."""
    source = element("span", Text(SOURCES[answer.source]), class_="tag")
    meta = element("p", Text(f"{facts} · "), source, class_="meta")
    figures = folded("Figures", _figures(answer, truth))
    return element("figure", element("h3", Text(title)), meta, picture, figures, **attributes)


def pairs(contents: Contents) -> Section | None:
    """How columns go together."""
    compared = contents.associations
    if len(compared.names) < 2:
        return None
    strongest = ", ".join(" and ".join(map(shortened, pair)) for pair in compared.strongest(3, 0.1))
    summary = f"the strongest are {strongest}" if strongest else "none is above 0.1"
    words = f"Cramér's V of all pairs of {len(compared.names)} columns; {summary}"
    overview = charts.drawn(charts.overview_chart(compared), words, "overview")
    cards = [_pair_card(number, answer, contents) for number, answer in enumerate(contents.pairs)]
    body = [
        paragraph(
            "Cramér's V says how much one column tells about another in the released model: 0 for nothing, 1 where one "
            "follows from the other. Columns with many values were grouped first."
        ),
        element("figure", element("div", overview, _ranked(contents), class_="beside"), class_="wide"),
    ]
    if compared.left_out:
        left_out = f"Only {MOST_COMPARED} columns are compared; {compared.left_out:,} others are left out."
        body.append(paragraph(left_out, "quiet"))
    if cards:
        words = "Shades are shares within each column of the picture. A ring marks a cell whose interval reaches zero"
        body += [element("h3", Text("The strongest pairs")), paragraph(f"{words}: it may be empty.", "quiet")]
        body.append(element("div", *cards, class_="grid"))
    return Section("pairs", "Pairs of columns", joined(*body))


def _ranked(contents: Contents) -> Html:
    compared = contents.associations
    pairs = compared.strongest(MOST_RANKED)
    rows = [[shortened(a, 24), shortened(b, 24), f"{compared.strength(a, b):.2f}"] for a, b in pairs]
    return table(["column", "column", "V"], rows, numbers=frozenset({2}))


def structure(contents: Contents) -> Section | None:
    """Which columns the model ties together."""
    names = [answer.places[0].attribute.name for answer in contents.columns]
    if len(names) < 2:
        return None
    cliques = contents.cliques
    if not cliques:
        summary = "Columns were measured one by one: the model treats them as independent."
        return Section("model", "The model", paragraph(summary))
    if len(charts.edges_of(cliques)) == len(names) * (len(names) - 1) // 2 > 3:
        summary = f"All {len(names)} columns were measured together with each other, in {len(cliques):,} sets."
        return Section("model", "The model", paragraph(summary))
    together = "; ".join(" and ".join(map(shortened, clique)) for clique in cliques[:5])
    words = f"{len(cliques):,} sets of columns were measured or modelled together, such as {together}"
    picture = charts.drawn(charts.graph_chart(names, cliques), words, "graph")
    listed = element("ul", *(element("li", Text(" × ".join(map(shortened, clique)))) for clique in cliques))
    sets = folded("All sets of columns", element("div", listed, class_="scroll"))
    lines = "Lines join columns whose combinations were measured, or that a declared constraint ties together."
    others = (
        "What is not joined, directly or through others, is as it was known before: independent, where nothing was."
    )
    meaning = paragraph(f"{lines} {others}")
    return Section("model", "The model", joined(meaning, element("figure", picture, sets, class_="wide")))


def spent(contents: Contents) -> Section:
    """What the budget went to."""
    everything = spending(contents.release)
    if not everything:
        notice = paragraph("The noise of these measurements was declared by whoever made them; its price is not known.")
        return Section("budget", "What was spent on what", notice)
    items = _few(everything)
    words = "Shares of the budget: " + ", ".join(f"{item.what} {item.share:.1%}" for item in items[:6])
    picture = charts.drawn(charts.budget_chart(items), words, "budget")
    letter = contents.release.statement.budget.currency.letter
    learnt = "" if contents.release.statement.discovered is None else " Learning the schema was paid apart."
    meaning = paragraph(
        f"Shares of the run's budget, in {letter}, which adds up. More budget means less noise.{learnt}"
    )
    return Section("budget", "What was spent on what", joined(meaning, element("figure", picture, class_="wide")))


def estimated(contents: Contents) -> Section | None:
    """Where the estimate stopped."""
    diagnostics = contents.release.model.diagnostics
    if diagnostics is None or not diagnostics.solver or diagnostics.solver == "none":
        return None
    drawable = any(math.isfinite(point.discrepancy) and point.discrepancy > 0 for point in diagnostics.path)
    words = f"The path of the estimate over {diagnostics.oracle_calls:,} evaluations of the model. {diagnostics.reason}"
    dots = " Dots mark where each stage ended." if drawable else ""
    start = "The model starts from what was known before and moves towards the noisy answers as long as its estimated"
    further = f"error falls. Going further would fit the noise.{dots} {diagnostics.reason}"
    body = [paragraph(f"{start} {further}")]
    if drawable:
        picture = charts.drawn(charts.path_chart(diagnostics), words, "path")
        body.append(element("figure", picture, class_="wide"))
    body += [paragraph(note, "quiet") for note in diagnostics.notes]
    return Section("estimate", "Where the estimate stopped", joined(*body))


def footer(contents: Contents) -> Html:
    """What made the page."""
    maker = f"Made by priory {contents.release.statement.version} from the release file alone."
    return paragraph(f"{maker} This page loads nothing, runs no script and can be kept, mailed and printed.", "quiet")


def amount(value: float) -> str:
    """A number of records for people."""
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 20 or value == 0 else f"{value:,.1f}"


def _meaning(contents: Contents) -> Html:
    """How far a suspicion can grow, as a table, and the rest of the explanation."""
    statement = contents.release.statement
    return joined(*(_explained(explain(each, is_declared=statement.is_declared)) for each in statement.promises))


def _explained(explanation: Explanation) -> Html:
    first, *rest = explanation.lines[1:]
    rows = [[f"{100 * belief.before:.3g} %", f"at most {percent_up(belief.after)}"] for belief in explanation.beliefs]
    others = element("ul", *(element("li", Text(line)) for line in rest if not line.startswith("- ")), class_="quiet")
    return joined(paragraph(first), table(["belief without it", "belief with it"], rows), others)


def _terms(contents: Contents) -> Html:
    statement = contents.release.statement
    lines = [line.partition(": ") for line in statement.lines if ": " in line]
    terms = [(name, value.removesuffix(f"; {KEPT[statement.ledger]}")) for name, _, value in lines]
    return element("dl", *(joined(element("dt", Text(name)), element("dd", Text(value))) for name, value in terms))


def _pair_card(number: int, answer: Answer, contents: Contents) -> Html:
    # The attribute with more groups goes across, where there is more room.
    answer = answer.turned if len(answer.places[0].labels) > len(answer.places[1].labels) else answer
    down, across = (places.attribute.name for places in answer.places)
    title = f"{shortened(down)} by {shortened(across)}"
    words = f"{title}: shares of {shortened(down)} within each {shortened(across)}, as shades"
    picture = charts.drawn(charts.pair_chart(answer), words, f"pair-{number}")
    return card(title, f"V = {contents.associations.strength(down, across):.2f}", answer, picture)


def _figures(answer: Answer, truth: Array | None) -> Html:
    """The figures behind a chart, as a table."""
    sides = {"estimate": answer.estimate, "low": answer.low, "high": answer.high}
    sides |= {} if truth is None else {"truth": truth}
    header = [*(shortened(places.attribute.name) for places in answer.places), *sides]
    rows = []
    for cell in np.ndindex(answer.estimate.shape):
        labels = [places.labels[i] for places, i in zip(answer.places, cell, strict=True)]
        rows.append([*labels, *(amount(float(side[cell])) for side in sides.values())])
    return table(header, rows, numbers=frozenset(range(len(answer.places), len(header))))


def _rest(answer: Answer) -> Html:
    """A sentence about what is too much for the picture."""
    [places] = answer.places
    if places.rest is None or not answer.rest_dwarfs:
        return Html("")
    count = amount(float(answer.estimate[places.rest]))
    return paragraph(f"Not drawn: {places.labels[places.rest]}, with about {count} records together.", "meta")


def _spoken(answer: Answer) -> str:
    [places] = answer.places
    largest = [int(i) for i in np.argsort(-answer.estimate, kind="stable")[:3]]
    said = ", ".join(f"{places.labels[i]} {amount(float(answer.estimate[i]))}" for i in largest)
    return f"{shortened(places.attribute.name)}: {len(places.labels)} groups with intervals; the largest are {said}"


def _few(items: Sequence[Item]) -> list[Item]:
    """The dearest one by one, others together where there are many, and what bought no answers last."""
    bought = [item for item in items if not item.is_choice]
    few = bought if len(bought) <= MOST_ITEMS else _grouped(bought)
    few, many = few[:MOST_ITEMS], few[MOST_ITEMS:]
    if many:
        few.append(_together(many, f"{len(many):,} others"))
    return [*few, *(item for item in items if item.is_choice)]


def _grouped(items: list[Item]) -> list[Item]:
    """Several sets of columns that got the same become one item."""
    grouped: list[Item] = []
    for share, group in itertools.groupby(items, key=lambda item: round(item.share, 6)):
        same = list(group)
        grouped += same if len(same) < 4 else [_together(same, f"{len(same):,} sets of columns, {share:.1%} each")]
    return grouped


def _together(items: list[Item], what: str) -> Item:
    return Item(what, sum(item.share for item in items), sum(item.measurements for item in items))


def _quoted(text: str) -> str:
    return f"“{shortened(text, 120)}”"


def page_of(release: Release) -> Page:
    """The report of a release, worked out from the release alone."""
    contents = Contents.of(release)
    first = (quality(contents), privacy(contents), reading(), columns(contents), pairs(contents))
    optional = (*first, structure(contents), spent(contents), estimated(contents))
    return Page(
        title=release.statement.dataset,
        kicker="A release under differential privacy",
        lead=lead(contents),
        sections=tuple(section for section in optional if section is not None),
        footer=footer(contents),
        stamp=None if release.statement.is_private else STAMP,
    )


def write_report(release: Release, path: str | Path) -> None:
    """Write the report of a release to `path`, whole or not at all."""
    text = str(page_of(release))
    with written_whole(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")
