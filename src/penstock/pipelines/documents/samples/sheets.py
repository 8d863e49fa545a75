"""The paper an invoice is set on: text at places measured from the upper left corner in points, written as a PDF by
reportlab with the standard fonts, so that the same invoice gives the same bytes and nothing needs to be installed."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal

from reportlab.pdfbase.pdfmetrics import stringWidth  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

Align = Literal["left", "right", "centre"]
Colour = tuple[float, float, float]

BLACK: Colour = (0, 0, 0)
GREY: Colour = (0.4, 0.4, 0.4)
WHITE: Colour = (1, 1, 1)

_BOLD = {"Helvetica": "Helvetica-Bold", "Times-Roman": "Times-Bold", "Courier": "Courier-Bold"}


@dataclass(frozen=True)
class Face:
    """A family of type and its usual size."""

    name: Literal["Helvetica", "Times-Roman", "Courier"]
    size: float

    def width(self, text: str, *, size: float | None = None, bold: bool = False) -> float:
        return float(stringWidth(text, _BOLD[self.name] if bold else self.name, size or self.size))

    def wrapped(self, text: str, width: float) -> list[str]:
        """The text in lines of at most this width, broken at spaces."""
        lines: list[str] = []
        for word in text.split(" "):
            if lines and self.width(f"{lines[-1]} {word}") <= width:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        return lines


class Sheets:
    """The pages of one document. `y` is where the next thing goes, `pages` how many there are said to be."""

    def __init__(
        self, size: tuple[float, float], face: Face, *, title: str, pages: int = 1, compressed: bool = True
    ) -> None:
        self.width, self.height = size
        self.face = face
        self.page = 1
        self.pages = pages
        self.y = 0.0
        self._out = io.BytesIO()
        self._canvas = Canvas(self._out, pagesize=size, invariant=1, pageCompression=int(compressed))
        self._canvas.setTitle(title)
        self._canvas.setProducer("penstock samples")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float | None = None,
        bold: bool = False,
        align: Align = "left",
        colour: Colour = BLACK,
    ) -> None:
        name = _BOLD[self.face.name] if bold else self.face.name
        self._canvas.setFont(name, size or self.face.size)
        self._canvas.setFillColorRGB(*colour)
        draw = {
            "left": self._canvas.drawString,
            "right": self._canvas.drawRightString,
            "centre": self._canvas.drawCentredString,
        }[align]
        draw(x, self.height - y, text)

    def rule(self, x: float, y: float, right: float, *, weight: float = 0.6, colour: Colour = BLACK) -> None:
        self._line(x, y, right, y, weight, colour)

    def upright(self, x: float, y: float, bottom: float, *, weight: float = 0.6) -> None:
        self._line(x, y, x, bottom, weight, BLACK)

    def _line(self, x: float, y: float, right: float, bottom: float, weight: float, colour: Colour) -> None:
        self._canvas.setStrokeColorRGB(*colour)
        self._canvas.setLineWidth(weight)
        self._canvas.line(x, self.height - y, right, self.height - bottom)

    def fill(self, x: float, y: float, right: float, bottom: float, colour: Colour) -> None:
        self._canvas.setFillColorRGB(*colour)
        self._canvas.rect(x, self.height - bottom, right - x, bottom - y, stroke=0, fill=1)

    def disc(self, x: float, y: float, radius: float, colour: Colour) -> None:
        self._canvas.setFillColorRGB(*colour)
        self._canvas.circle(x, self.height - y, radius, stroke=0, fill=1)

    def turn(self) -> None:
        """On to the next page."""
        self._canvas.showPage()
        self.page += 1

    def written(self) -> bytes:
        self._canvas.showPage()
        self._canvas.save()
        return self._out.getvalue()
