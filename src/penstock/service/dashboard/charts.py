"""The geometry of every picture: what stands where, in per cent of its width or pixels of its height. Pure.

Pictures are SVG with positions as attributes, so that they need no inline style and grow with the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 1_209_600, 2_592_000,
)  # fmt: skip


_SHORT = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
_REACHES = (60, 300, 900, 3600, 21_600, 86_400, 259_200, 604_800, 2_592_000, 7_776_000)


@dataclass(slots=True, frozen=True)
class Tick:
    """A mark on a time axis. `moment` is written by the browser in its own zone."""

    x: str
    moment: float
    label: str
    step: float = 0.0
    """Seconds to the next mark."""


@dataclass(slots=True, frozen=True)
class Axis:
    """A span of time laid out from 0 to 100 per cent."""

    start: float
    end: float
    zero: float = 0.0
    """What short times are counted from."""

    @classmethod
    def around(cls, moments: Sequence[float], now: float) -> Axis:
        """From the first to the last of them, with room so that nothing sticks to the edge."""
        first, last = (min(moments), max(moments)) if moments else (now - 60, now)
        room = max((last - first) * 0.02, 0.002)
        return cls(first - room, last + room, first)

    @classmethod
    def with_most_of(cls, spans: Sequence[tuple[float, float]], now: float) -> Axis:
        """The shortest usual length of time, back from the last of them, in which most of them began: one that is days
        older does not make dots of all the others."""
        if not spans:
            return cls.around((), now)
        last = max(end for _, end in spans)
        begun = sorted((last - start for start, _ in spans))
        reach = begun[min(int(len(begun) * 0.7), len(begun) - 1)]
        if begun[-1] <= reach * 3:
            reach = begun[-1]
        span = next((span for span in _REACHES if span >= reach), reach)
        room = span * 0.02
        return cls(last - min(span, begun[-1] * 1.02 + 1), last + room, last)

    @property
    def span(self) -> float:
        return max(self.end - self.start, 1e-6)

    def at(self, moment: float) -> float:
        return min(max((moment - self.start) / self.span * 100, 0.0), 100.0)

    def x(self, moment: float) -> str:
        return percent(self.at(moment))

    def width(self, start: float, end: float) -> str:
        return percent(max(self.at(end) - self.at(start), 0.0))

    def ticks(self, most: int = 6) -> list[Tick]:
        if self.span < 60:
            step = next(step for step in _SHORT if self.span / step <= most)
            return [self._since(self.zero + step * n, step) for n in range(most + 1) if self.zero + step * n < self.end]
        step = next((step for step in _STEPS if self.span / step <= most), 2_592_000 * math.ceil(self.span / 1.5e7))
        first = math.ceil(self.start / step) * step
        marks = [first + step * n for n in range(most + 1) if first + step * n < self.end]
        return [self._tick(mark, step) for mark in marks if 2 < self.at(mark) < 96]

    def _tick(self, moment: float, step: float) -> Tick:
        at = datetime.fromtimestamp(moment, UTC)
        of_day = step >= 86_400 or (self.span > 86_400 and moment % 86_400 == 0)
        written = f"{at.day} {at:%b}" if of_day else f"{at:%H:%M:%S}" if step < 60 else f"{at:%H:%M}"
        return Tick(self.x(moment), moment, written, step)

    def _since(self, moment: float, step: float) -> Tick:
        after = moment - self.zero
        return Tick(self.x(moment), moment, f"+{after * 1000:.0f} ms" if step < 0.5 else f"+{after:g} s")


def percent(amount: float) -> str:
    return f"{amount:.3f}".rstrip("0").rstrip(".") + "%"


@dataclass(slots=True, frozen=True)
class Bar:
    """A stretch of time on a track. `point`: it took none; `thin`: nobody worked; `mark`: a moment on another bar."""

    x: str
    width: str
    kind: str
    title: str
    point: bool = False
    thin: bool = False
    mark: bool = False


@dataclass(slots=True, frozen=True)
class Track:
    """One line of a timeline."""

    label: str
    bars: tuple[Bar, ...]
    note: str = ""
    href: str = ""
    kind: str = "step"
    earlier: bool = False
    """It lies before the axis begins."""


@dataclass(slots=True, frozen=True)
class Part:
    """A piece of a stacked bar or column: `y` and `height` in pixels for a column, `x` and `width` for a bar."""

    kind: str
    amount: float
    x: str = ""
    width: str = ""
    y: str = ""
    height: str = ""


def stacked(amounts: Sequence[tuple[str, float]], total: float | None = None) -> list[Part]:
    """A bar of parts, side by side, of the whole width (or of `total`)."""
    whole = total or sum(amount for _, amount in amounts)
    parts, x = [], 0.0
    for kind, amount in amounts:
        if amount > 0 and whole > 0:
            wide = amount / whole * 100
            parts.append(Part(kind, amount, x=percent(x), width=percent(wide)))
            x += wide
    return parts


@dataclass(slots=True, frozen=True)
class Column:
    """A column of a chart, and the words that belong to it."""

    x: str
    width: str
    parts: tuple[Part, ...]
    title: str


@dataclass(slots=True, frozen=True)
class Columns:
    """A chart of columns. `height` is that of the whole picture; `lines` are the grid's (y, amount)."""

    columns: tuple[Column, ...]
    height: int
    top: float
    lines: tuple[tuple[str, float], ...] = ()


def columns(
    amounts: Sequence[tuple[float, Mapping[str, float]]],
    *,
    kinds: Sequence[str],
    height: int,
    titles: Sequence[str],
    gap: float = 0.25,
    lines: int = 3,
) -> Columns:
    """Stacked columns, oldest first: (moment, kind → amount)."""
    top = rounded_up(max((sum(parts.values()) for _, parts in amounts), default=0.0))
    width = 100 / max(len(amounts), 1)
    made = []
    for n, ((_, parts), title) in enumerate(zip(amounts, titles, strict=True)):
        bottom = float(height)
        pieces = []
        for kind in kinds:
            amount = parts.get(kind, 0.0)
            if amount <= 0:
                continue
            tall = max(amount / top * (height - 4), 1.5)
            bottom -= tall
            pieces.append(Part(kind, amount, y=f"{bottom:.1f}", height=f"{tall:.1f}"))
        x, wide = n * width + width * gap / 2, width * (1 - gap)
        made.append(Column(percent(x), percent(wide), tuple(pieces), title))
    grid = tuple((f"{height - (height - 4) * n / lines:.1f}", top * n / lines) for n in range(1, lines + 1))
    empty = not any(parts for _, parts in amounts)
    return Columns(tuple(made), height, top, () if empty else grid)


def rounded_up(amount: float) -> float:
    """The next of 1, 2, 3, 4, 5, 6, 8, 10 times a power of ten."""
    if amount <= 0:
        return 1.0
    size: float = 10.0 ** math.floor(math.log10(amount))
    return next(size * step for step in (1, 2, 3, 4, 5, 6, 8, 10) if amount <= size * step * 1.0000001)


def line(amounts: Sequence[float], *, height: int = 28) -> str:
    """The points of a sparkline in a picture 100 wide, for `<polyline>`."""
    top = max(amounts, default=0.0) or 1.0
    step = 100 / max(len(amounts) - 1, 1)
    return " ".join(
        f"{n * step:.1f},{height - 2 - amount / top * (height - 4):.1f}" for n, amount in enumerate(amounts)
    )
