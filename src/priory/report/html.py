"""Html: elements whose texts are escaped by construction, as names and labels of a release are not to be trusted."""

import html
from typing import NewType

# What is markup already; a plain text becomes it only through `escaped`.
Html = NewType("Html", str)

_VOID = frozenset({"meta", "br"})
MOST_LETTERS = 60


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
