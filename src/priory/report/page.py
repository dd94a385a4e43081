"""Page: one HTML file that loads and runs nothing, of elements whose texts are escaped by construction."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

# What is markup already; a plain text becomes it only through `escaped`.
Html = NewType("Html", str)

_VOID = frozenset({"meta", "br"})
MOST_LETTERS = 60
# Even if something slipped through as markup, a browser that reads this runs no script and fetches nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = Path(__file__).with_name("style.css")


class Text(str):
    """A text to be shown; anything in it that looks like markup is shown as it is spelled."""

    __slots__ = ()


def escaped(text: str) -> Html:
    """A text as markup."""
    return Html(html.escape(visible(text)))


def element(tag: str, *content: Html | Text, **attributes: str) -> Html:
    """An element; a trailing underscore of an attribute's name is dropped, others become hyphens.

    >>> element("p", Text("a < b"), class_="note", aria_label='"quoted"')
    '<p class="note" aria-label="&quot;quoted&quot;">a &lt; b</p>'
    """
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"' for name, value in attributes.items())
    inner = joined(*content)
    return Html(f"<{tag}{written}>" if tag in _VOID else f"<{tag}{written}>{inner}</{tag}>")


def joined(*content: Html | Text) -> Html:
    """Pieces one after another."""
    return Html("".join(escaped(piece) if isinstance(piece, Text) else piece for piece in content))


def visible(text: str) -> str:
    """The text with every character that cannot be seen, or turns others around, replaced by a sign that can."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "�" for letter in text)


def shortened(text: str, most: int = MOST_LETTERS) -> str:
    """The text as it fits a heading or an axis."""
    text = visible(text)
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading."""

    anchor: str  # its name in links; letters of ours, never of the data
    title: str  # its heading
    body: Html  # what follows
    entries: tuple[tuple[str, str], ...] = ()  # anchors and titles inside it that the table of contents lists, too


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str  # what it is about
    kicker: str  # a line above the title
    lead: Html  # what stands before the sections
    sections: tuple[Section, ...]  # the sections
    footer: Html  # what stands at the end
    stamp: str | None = None  # a warning on top and at every section, if there is one

    def __str__(self) -> str:
        head = joined(
            Html('<meta charset="utf-8">'),
            element("meta", http_equiv="Content-Security-Policy", content=POLICY),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("title", Text(f"{'' if self.stamp is None else 'NOT PRIVATE – '}{self.title}")),
            Html(f"<style>{STYLE.read_text(encoding='utf-8')}</style>"),
        )
        top = joined(
            element("a", Text("Skip to the content"), class_="skip", href="#content"),
            self._stamped(),
            element("p", Text(self.kicker), class_="kicker"),
            element("h1", Text(self.title)),
            self.lead,
            _contents(self.sections),
        )
        main = element("main", *(self._section(section) for section in self.sections), id="content")
        body = joined(element("header", top), main, element("footer", self._stamped(), self.footer))
        return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'

    def _stamped(self) -> Html:
        return Html("") if self.stamp is None else element("p", Text(self.stamp), class_="stamp", role="alert")

    def _section(self, section: Section) -> Html:
        title = f"{section.anchor}-title"
        heading = element("h2", Text(section.title), id=title)
        return element("section", heading, self._stamped(), section.body, id=section.anchor, aria_labelledby=title)


def paragraph(text: str, class_: str = "") -> Html:
    """A paragraph of plain text."""
    return element("p", Text(text), class_=class_) if class_ else element("p", Text(text))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: frozenset[int] = frozenset()) -> Html:
    """A table; the columns in `numbers` are set flush right."""

    def cells(tag: str, texts: Sequence[str]) -> Html:
        looks = [{"class_": "n"} if i in numbers else {} for i in range(len(texts))]
        return element("tr", *(element(tag, Text(text), **look) for text, look in zip(texts, looks, strict=True)))

    body = element("tbody", *(cells("td", row) for row in rows))
    return element("div", element("table", element("thead", cells("th", header)), body), class_="scroll")


def folded(summary: str, body: Html) -> Html:
    """Something that opens when asked for."""
    return element("details", element("summary", Text(summary)), body)


def tiles(facts: Sequence[tuple[str, str]]) -> Html:
    """Large figures with small words."""
    pairs = [(element("b", Text(figure)), element("span", Text(words))) for figure, words in facts]
    return element("div", *(element("div", *pair, class_="tile") for pair in pairs), class_="tiles")


def _contents(sections: Sequence[Section]) -> Html:
    items = [_link(section.anchor, section.title) for section in sections]
    listed = [section for section in sections if section.entries]
    links = [element("ul", *(_link(*entry) for entry in section.entries), class_="all") for section in listed]
    titles = [f"All {len(section.entries)} of “{section.title}”" for section in listed]
    inner = map(folded, titles, links)
    return element("nav", element("ol", *items), *inner, aria_label="Contents")


def _link(anchor: str, title: str) -> Html:
    return element("li", element("a", Text(title), href=f"#{anchor}"))
