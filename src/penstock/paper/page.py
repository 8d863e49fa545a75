"""A page as it is read: words with their boxes, in reading order, from OCR or from a PDF's own text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Box = tuple[int, int, int, int]
"""Left, top, right, bottom, in the page's own pixels, from the upper left corner."""


@dataclass(slots=True, frozen=True)
class Word:
    """`confidence` is from 0 to 100; a PDF's own text is certain."""

    text: str
    box: Box
    confidence: float = 100.0


@dataclass(slots=True, frozen=True)
class Line:
    """`block` and `paragraph` number the page's parts in reading order; a column is one block or several."""

    words: tuple[Word, ...]
    block: int
    paragraph: int

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def box(self) -> Box:
        boxes = [word.box for word in self.words]
        return (
            min(box[0] for box in boxes),
            min(box[1] for box in boxes),
            max(box[2] for box in boxes),
            max(box[3] for box in boxes),
        )


@dataclass(slots=True, frozen=True)
class Page:
    """One page. `turned` says by how many degrees, counter-clockwise, the picture was turned before it could be read;
    boxes are in the turned picture."""

    width: int
    height: int
    lines: tuple[Line, ...]
    source: Literal["ocr", "text"]
    turned: int = 0

    @property
    def text(self) -> str:
        """Lines as they stand, an empty line between paragraphs."""
        out: list[str] = []
        before: tuple[int, int] | None = None
        for line in self.lines:
            here = (line.block, line.paragraph)
            if before is not None and here != before:
                out.append("")
            out.append(line.text)
            before = here
        return "\n".join(out)

    @property
    def confidence(self) -> float:
        """The mean over the words, long words counting more; 0 on an empty page."""
        weighted = [(word.confidence, len(word.text)) for line in self.lines for word in line.words]
        letters = sum(length for _, length in weighted)
        return sum(confidence * length for confidence, length in weighted) / letters if letters else 0.0


def to_json(page: Page) -> dict[str, Any]:
    """A page for the way between processes: lines as `[block, paragraph, [[text, left, top, right, bottom,
    confidence], …]]`."""
    return {
        "width": page.width,
        "height": page.height,
        "source": page.source,
        "turned": page.turned,
        "lines": [
            [line.block, line.paragraph, [[word.text, *word.box, word.confidence] for word in line.words]]
            for line in page.lines
        ],
    }


def from_json(value: Mapping[str, Any]) -> Page:
    return Page(
        width=value["width"],
        height=value["height"],
        lines=tuple(Line(_words(words), block, paragraph) for block, paragraph, words in value["lines"]),
        source=value["source"],
        turned=value["turned"],
    )


def _words(words: Iterable[Sequence[Any]]) -> tuple[Word, ...]:
    return tuple(Word(text, (left, top, right, bottom), sure) for text, left, top, right, bottom, sure in words)
