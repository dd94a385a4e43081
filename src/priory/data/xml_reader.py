"""XML reader: the elements of a small file, without document types, entities or anything outside of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from priory.errors import DataError


@dataclass
class Node:
    """An element of an XML file."""

    tag: str  # its name, without a namespace
    attributes: Mapping[str, str]  # by name
    children: list["Node"] = field(default_factory=list)  # the elements in it
    text: str = ""  # what is written in it, outside of those

    def children_of(self, tag: str) -> list["Node"]:
        """The elements of a name right below."""
        return [child for child in self.children if child.tag == tag]

    def text_of(self, tag: str) -> str:
        """The text of the first of them, in one line."""
        return " ".join(next((child.text for child in self.children_of(tag)), "").split())

    def all(self, tag: str) -> list["Node"]:
        """The elements of a name at any depth."""
        return [found for child in self.children for found in ([child] if child.tag == tag else child.all(tag))]


def read_xml(text: str, path: Path) -> Node:
    """The elements of an XML file, below a root without a name.

    Raises:
        DataError: it is no XML, or declares a document type or entities, which could reach other files.
    """
    from xml.parsers.expat import ExpatError, ParserCreate

    root = Node("", {})
    opened = [root]

    def start(tag: str, attributes: dict[str, str]) -> None:
        node = Node(tag.rpartition(" ")[2], attributes)
        opened[-1].children.append(node)
        opened.append(node)

    def data(part: str) -> None:
        opened[-1].text += part

    def refuse(*_: object) -> int:
        raise DataError(f"{path} declares a document type or entities, which are not read; remove the declaration")

    parser = ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.CharacterDataHandler = start, data
    parser.EndElementHandler = lambda _: opened.pop() and None
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = parser.ExternalEntityRefHandler = refuse
    try:
        parser.Parse(text, True)  # noqa: FBT003 - expat's own signature
    except ExpatError as error:
        raise DataError(f"{path} is not an XML file: line {error.lineno}") from None
    return root
