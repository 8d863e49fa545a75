"""Which sections of a Markdown text make a chunk together. A section stays whole with all that is below it, if it fits;
small ones are joined with their next siblings, and what belongs to different parents is kept apart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.pipelines.ingestion.chunking_markdown import Heading
from penstock.pipelines.ingestion.chunking_text import width


@dataclass(slots=True, frozen=True)
class Region:
    """A stretch of the text that is cut by itself, and the headings that its beginning stands under, with its own."""

    start: int
    end: int
    path: tuple[str, ...]


class Sections:
    """The parts of a text from each heading to the next. The first has no heading: it is what stands before them."""

    def __init__(self, text: str, headings: Sequence[Heading], most: int) -> None:
        self._most = most
        self._starts = [0, *(heading.start for heading in headings), len(text)]
        self._levels = [0, *(heading.level for heading in headings)]
        self._titles = ["", *(heading.title for heading in headings)]
        bodies = [0, *(heading.body for heading in headings)]
        self._bare = [not text[body:end].strip() for body, end in zip(bodies, self._starts[1:], strict=True)]
        """Whether there is nothing but the heading."""
        self._widths = [0]
        for start, end in zip(self._starts, self._starts[1:], strict=False):
            self._widths.append(self._widths[-1] + width(text, start, end))
        self._paths = _paths(self._levels, self._titles)
        # Several headings of the first level: several things in one text, which are not joined without need.
        self._apart = self._levels.count(1) > 1

    def regions(self) -> Iterator[Region]:
        count = len(self._levels)
        spans = [(0, count)] if self._fits(0, count) and not self._apart else self._packed(0, 0, count)
        for first, last in spans:
            named = first
            # A title over a single section is not where the reader is: the section is.
            while self._bare[named] and named + 1 < last and self._below(named + 1, last) == last:
                named += 1
            yield Region(self._starts[first], self._starts[last], self._paths[named])

    def path(self, at: int) -> tuple[str, ...]:
        """The headings above this place."""
        return self._paths[bisect_right(self._starts, at, hi=len(self._paths)) - 1]

    def _packed(self, begin: int, root: int, last: int) -> Iterator[tuple[int, int]]:
        """The section `root` with all that is below it, as spans that fit, or that are one section's own text. From
        `begin` on there is little more than headings, and it goes with what follows: alone it would be found for its
        titles, and say nothing."""
        enough = self._most // (8 if root == 0 and self._apart else 2)
        end = child = root + 1
        light = all(self._bare[begin:end]) or self._width(begin, end) <= self._most // 16
        while child < last:
            after = self._below(child, last)
            if begin < end and light and self._fits(begin, after):
                end = after
            elif begin < end and light:
                yield from self._packed(begin, child, after)
                begin = end = after
            elif begin < end and self._joins(begin, end, child, after, last, enough):
                end = after
            else:
                if begin < end:
                    yield begin, end
                begin, end = child, after
                if not self._fits(child, after):
                    yield from self._packed(child, child, after)
                    begin = after
            light = (light or begin == child) and all(self._bare[child:after])
            child = after
        if begin < end:
            yield begin, end

    def _joins(self, begin: int, end: int, child: int, after: int, last: int, enough: int) -> bool:
        """A small one goes with the next, and the last one, if small, with the one before."""
        return self._fits(begin, after) and (
            self._width(begin, end) < enough or (after == last and self._width(child, after) < enough // 2)
        )

    def _below(self, section: int, last: int) -> int:
        """Where the section ends with all that is below it."""
        level = self._levels[section]
        after = section + 1
        while after < last and self._levels[after] > level:
            after += 1
        return after

    def _width(self, first: int, last: int) -> int:
        return self._widths[last] - self._widths[first]

    def _fits(self, first: int, last: int) -> bool:
        return self._width(first, last) <= self._most


def _paths(levels: Sequence[int], titles: Sequence[str]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    path: list[tuple[int, str]] = []
    for level, title in zip(levels, titles, strict=True):
        while path and path[-1][0] >= level:
            path.pop()
        if title:
            path.append((level, title))
        found.append(tuple(name for _, name in path))
    return found
