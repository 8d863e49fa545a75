"""Foreign XML as a small tree: no document type, no entities, bounded in size, depth and number of elements. Expat does
the parsing; nothing is fetched, and nothing can grow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

LARGEST = 8 * 2**20
"""Bytes of XML that are parsed: an e-invoice has some ten thousand, one with two thousand lines a few million."""

MOST_ELEMENTS = 300_000
DEEPEST = 64
MOST_ATTRIBUTES = 64
LONGEST_TEXT = 100_000
"""Characters of one element's own text."""


class BadXml(Exception):
    """The bytes are no XML that is read here; the message says why, as part of a sentence."""


@dataclass(slots=True)
class Element:
    """`name` is the local name, `space` its namespace."""

    space: str
    name: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, path: str) -> list[Element]:
        """Every element at the path of local names, through all branches. Only elements of this element's family of
        namespaces count: what somebody else has put in is not ours to read."""
        here = [self]
        for step in path.split("/"):
            here = [child for each in here for child in each.children if child.name == step and child.kin(self)]
        return here

    def first(self, path: str) -> Element | None:
        return next(iter(self.all(path)), None)

    def value(self, path: str) -> str | None:
        """The text at the path; None where there is none, or only spaces."""
        return next((found for each in self.all(path) if (found := each.text.strip())), None)

    def kin(self, other: Element) -> bool:
        """Whether the namespaces are of one standard: `urn:un:unece:…`, `urn:oasis:names:…`; or one is of FeRD, which
        built on the former."""
        families = {_family(self.space), _family(other.space)}
        return len(families) == 1 or families == {"urn:ferd", "urn:un"}


def parsed(data: bytes) -> Element:
    """The root. `BadXml` for everything else than plain, well-formed XML within the bounds."""
    if len(data) > LARGEST:
        raise BadXml(f"it is larger than the {LARGEST // 2**20} MB that are read")
    builder = _Builder()
    parser = expat.ParserCreate(namespace_separator="\n")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartDoctypeDeclHandler = builder.doctype
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        why = expat.ErrorString(error.code) or "an error"
        raise BadXml(f"it is not well-formed XML ({why}, line {error.lineno})") from None
    except (ValueError, LookupError) as error:
        raise BadXml(f"its encoding is not one that is read ({error})") from None
    assert builder.root is not None
    return builder.root


class _Builder:
    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._lengths: list[int] = []
        self._elements = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > MOST_ELEMENTS:
            raise BadXml(f"it has more than {MOST_ELEMENTS} elements")
        if len(self._open) >= DEEPEST:
            raise BadXml(f"its elements are nested more than {DEEPEST} deep")
        if len(attributes) > MOST_ATTRIBUTES:
            raise BadXml(f"an element has more than {MOST_ATTRIBUTES} attributes")
        space, _, local = name.rpartition("\n")
        element = Element(space, local, {key.rpartition("\n")[2]: value for key, value in attributes.items()})
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])
        self._lengths.append(0)

    def end(self, _: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())
        self._lengths.pop()

    def characters(self, text: str) -> None:
        self._lengths[-1] += len(text)
        if self._lengths[-1] > LONGEST_TEXT:
            raise BadXml(f"an element holds more than {LONGEST_TEXT} characters")
        self._texts[-1].append(text)

    def doctype(self, *_: object) -> None:
        raise BadXml("it declares a document type, which an e-invoice never does and which is not read")


def walk(element: Element) -> Iterator[Element]:
    """The element and all below it."""
    pending = [element]
    while pending:
        each = pending.pop()
        yield each
        pending += reversed(each.children)


def _family(space: str) -> str:
    return ":".join(space.split(":")[:2])
