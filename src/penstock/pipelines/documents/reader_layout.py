"""Pages as a person takes in an invoice: rows across the page, each in cells that a clear gap sets apart. Columns of
text that the page's own order keeps apart come back into one row here, since a label and its value often do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from penstock.paper.page import Box, Line, Page, Word

MOST_WORDS = 40_000
"""Of a document that are looked at; an invoice of thirty pages has half as many."""

LONGEST_WORD = 100
"""Letters of a word that are looked at: rules of dashes and what is written to annoy go on for thousands."""

GAP = 1.2
"""Heights of a row that a gap between two cells has at least. A space between words has less than half."""

LETTERS = 1.8
"""And as many widths of a letter: in type of equal widths a space is as wide as a letter, however high they are."""

UNEVEN = 1.7
"""A line taller than this many of its words holds words of several rows."""


@dataclass(frozen=True)
class Cell:
    """Words that stand together. `row` is the place of its row in the document."""

    words: tuple[Word, ...]
    page: int
    row: int = 0

    @cached_property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @cached_property
    def box(self) -> Box:
        return around(word.box for word in self.words)

    @property
    def height(self) -> int:
        return self.box[3] - self.box[1]

    def part(self, start: int, end: int) -> Box:
        """The box of the words that hold the letters from `start` to `end` of the text."""
        at, boxes = 0, []
        for word in self.words:
            if at < end and at + len(word.text) > start:
                boxes.append(word.box)
            at += len(word.text) + 1
        return around(boxes) if boxes else self.box


@dataclass(frozen=True)
class Row:
    cells: tuple[Cell, ...]
    page: int

    @cached_property
    def text(self) -> str:
        return "  ".join(cell.text for cell in self.cells)

    @cached_property
    def box(self) -> Box:
        return around(cell.box for cell in self.cells)


@dataclass(frozen=True)
class Sheet:
    """A document: its rows from top to bottom, page after page. `tall` is the ordinary height of a word."""

    rows: tuple[Row, ...]
    sizes: tuple[tuple[int, int], ...]
    tall: float
    scanned: bool

    @cached_property
    def text(self) -> str:
        return "\n".join(row.text for row in self.rows)

    def cells(self) -> Iterator[Cell]:
        for row in self.rows:
            yield from row.cells

    def down(self, cell: Cell) -> float:
        """How far down its page a cell stands, from 0 to 1."""
        return cell.box[1] / max(1, self.sizes[cell.page][1])

    def column(self, box: Box, row: int) -> Box:
        """A box made wider to the right, up to what comes next in its row: there its column ends. Amounts stand at the
        right of their column, their label often at the left."""
        edges = [word.box[0] for cell in self.rows[row].cells for word in cell.words if word.box[0] > box[2]]
        right = min(edges) - 2 if edges else box[2] + round(12 * self.tall)
        return box[0], box[1], max(box[2], right), box[3]

    def above(self, cell: Cell, *, rows: int = 3) -> Cell | None:
        """The nearest cell over a cell, of the rows just before."""
        for place in range(cell.row - 1, max(-1, cell.row - 1 - rows), -1):
            if self.rows[place].page != cell.page:
                return None
            for one in self.rows[place].cells:
                if beside(one.box, cell.box):
                    return one
        return None

    def below(self, box: Box, row: int, *, lines: float, rows: int = 3) -> Iterator[Cell]:
        """Cells of the next rows that stand under a box, the nearest first, not further down than `lines`."""
        page, bottom = self.rows[row].page, box[3]
        seen = 0
        for place in range(row + 1, len(self.rows)):
            later = self.rows[place]
            if later.page != page or later.box[1] - bottom > lines * max(self.tall, box[3] - box[1]) or seen >= rows:
                return
            under = [cell for cell in later.cells if cell.box[1] >= bottom - 0.4 * self.tall and beside(cell.box, box)]
            seen += bool(under)
            yield from under


def sheet(pages: Sequence[Page]) -> Sheet:
    rows: list[Row] = []
    left = MOST_WORDS
    heights: list[int] = []
    for number, page in enumerate(pages):
        lines = []
        for line in page.lines:
            if left <= 0:
                break
            left -= len(line.words)
            lines.append(line)
        lines = _levelled(lines) if page.source == "ocr" else lines
        tall = _tall(lines)
        heights += [word.box[3] - word.box[1] for line in lines for word in line.words]
        for words in _rows(lines, tall):
            rows.append(Row(_cells(words, number, len(rows), tall), number))
    return Sheet(
        tuple(rows),
        tuple((page.width, page.height) for page in pages),
        max(1.0, float(median(heights))) if heights else 1.0,
        any(page.source == "ocr" for page in pages),
    )


def around(boxes: Iterable[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def under(cell: Cell, box: Box) -> Cell:
    """The words of a cell that stand under a box, where columns run together."""
    words = tuple(word for word in cell.words if word.box[2] > box[0] - 5 and word.box[0] < box[2] + 5)
    return Cell(words, cell.page, cell.row) if words and len(words) < len(cell.words) else cell


def beside(one: Box, other: Box) -> bool:
    """Whether two boxes share a piece of the page's width."""
    return one[0] <= other[2] and other[0] <= one[2]


def _levelled(lines: Sequence[Line]) -> list[Line]:
    """The lines of a crooked scan as if it lay straight: by the slope that the middle one of its long lines has. What
    stands far apart in a row would come into different rows otherwise."""
    slopes = sorted(
        (_middle((line.words[-1],)) - _middle((line.words[0],))) / (line.words[-1].box[0] - line.words[0].box[0])
        for line in lines
        if len(line.words) > 2 and line.words[-1].box[0] - line.words[0].box[0] > 15 * _tall([line])
    )
    slope = slopes[len(slopes) // 2] if len(slopes) >= 3 else 0.0
    if abs(slope) < 0.001 or abs(slope) > 0.2:
        return list(lines)
    return [replace(line, words=tuple(_moved(word, slope) for word in line.words)) for line in lines]


def _moved(word: Word, slope: float) -> Word:
    left, top, right, bottom = word.box
    by = round(slope * (left + right) / 2)
    return replace(word, box=(left, top - by, right, bottom - by))


def _tall(lines: Sequence[Line]) -> float:
    heights = [word.box[3] - word.box[1] for line in lines for word in line.words if len(word.text) > 1]
    return max(1.0, float(median(heights))) if heights else 1.0


@dataclass
class _Growing:
    """A row while it is put together; `middle` and `tall` are of its tallest piece so far."""

    words: list[Word]
    middle: float
    tall: float


def _rows(lines: Sequence[Line], tall: float) -> list[list[Word]]:
    pieces = sorted((piece for line in lines if not _upright(line) for piece in _pieces(line)), key=_middle)
    rows: list[_Growing] = []
    for piece in pieces:
        middle, high = _middle(piece), max(_high(piece), 0.6 * tall)
        best: _Growing | None = None
        for row in rows[-6:]:
            near = abs(row.middle - middle)
            if near <= 0.45 * min(high, row.tall) and not _covers(row.words, piece):
                best = row if best is None or near < abs(best.middle - middle) else best
        if best is None:
            rows.append(_Growing(list(piece), middle, high))
            continue
        best.words += piece
        best.middle = (best.middle + middle) / 2
        best.tall = max(best.tall, high)
    rows.sort(key=lambda row: row.middle)
    return [sorted(row.words, key=lambda word: word.box[0]) for row in rows]


def _pieces(line: Line) -> list[tuple[Word, ...]]:
    """A line as it is, or word by word where it holds words of several rows."""
    highest = max(word.box[3] - word.box[1] for word in line.words)
    box = line.box
    return [line.words] if box[3] - box[1] <= UNEVEN * max(1, highest) else [(word,) for word in line.words]


def _upright(line: Line) -> bool:
    """Whether the words stand one above the other: print up the margin."""
    left, top, right, bottom = line.box
    return len(line.words) > 1 and bottom - top > 5 * (right - left)


def _covers(words: Sequence[Word], piece: Sequence[Word]) -> bool:
    return any(
        min(one.box[2], other.box[2]) - max(one.box[0], other.box[0]) > 0.3 * min(_wide(one), _wide(other))
        for one in words
        for other in piece
    )


def _wide(word: Word) -> int:
    return max(1, word.box[2] - word.box[0])


def _middle(piece: Sequence[Word]) -> float:
    box = around(word.box for word in piece)
    return (box[1] + box[3]) / 2


def _high(piece: Sequence[Word]) -> float:
    box = around(word.box for word in piece)
    return float(box[3] - box[1])


def _cells(words: Sequence[Word], page: int, row: int, tall: float) -> tuple[Cell, ...]:
    cells: list[list[Word]] = []
    for word in words:
        if cells:
            before = cells[-1][-1]
            high = max(min(before.box[3] - before.box[1], word.box[3] - word.box[1]), 0.9 * tall)
            wide = max(_wide(one) / max(1, len(one.text)) for one in (before, word))
            if word.box[0] - before.box[2] <= max(GAP * high, LETTERS * wide) or not re.search(r"\w", word.text):
                cells[-1].append(word)
                continue
        cells.append([word])
    return tuple(Cell(_clean(cell), page, row) for cell in cells)


def _clean(words: Sequence[Word]) -> tuple[Word, ...]:
    """Words without the marks that fonts of symbols leave behind, and none longer than a word can be."""
    cut = [replace(word, text=word.text.replace("�", "").strip()[:LONGEST_WORD]) for word in words]
    return tuple(word for word in cut if word.text) or tuple(cut)
