"""A document's fields as its pages show them: the value as text, how sure it is and why, who locked it, and where it
stands on the page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from penstock.pipelines.documents.dashboard.places import TITLES
from penstock.pipelines.documents.fields import RULES
from penstock.pipelines.documents.model import FIELDS, Check, Evidence, FieldName, LineItem
from penstock.pipelines.documents.reading import DocumentDetail, Lock
from penstock.pipelines.documents.values import money_text

Tone = Literal["locked", "sure", "unsure", "doubtful"]

COLUMNS = ("item", "quantity", "unit_price", "total")
UNSURE = 0.25
"""How far below its threshold a field may be and still be merely unsure."""


@dataclass(slots=True, frozen=True)
class Box:
    """Where a value stands, as SVG writes it: parts of the page's width and height."""

    x: str
    y: str
    width: str
    height: str


@dataclass(slots=True, frozen=True)
class Shown:
    """`typed` is what somebody wrote and could not be taken, to be shown again, and `problem` why."""

    name: FieldName
    title: str
    value: str
    lines: tuple[tuple[str, ...], ...]
    confidence: float
    evidence: Evidence | None
    box: Box | None
    passed: tuple[Check, ...]
    failed: tuple[Check, ...]
    lock: Lock | None
    differs: bool
    extracted: str
    typed: str | None = None
    typed_lines: tuple[tuple[str, ...], ...] | None = None
    problem: str = ""

    @property
    def required(self) -> bool:
        return RULES[self.name].required

    @property
    def threshold(self) -> float:
        return RULES[self.name].threshold

    @property
    def tone(self) -> Tone:
        return "locked" if self.lock else tone(self.confidence, self.threshold)


def tone(confidence: float, threshold: float) -> Tone:
    if confidence >= threshold:
        return "sure"
    return "unsure" if confidence >= threshold - UNSURE else "doubtful"


def fields(detail: DocumentDetail, *, typed: Mapping[str, Any] | None = None, problem: str = "") -> list[Shown]:
    """In the order of the invoice."""
    if detail.result is None or detail.document.data is None:
        return []
    known = {each.field_name: each for each in detail.result.field_confidences}
    locks = {lock.field: lock for lock in detail.locks}
    differing = {each.field for each in detail.differences}
    typed, (wrong, why) = typed or {}, blamed(problem)
    told = []
    for name in FIELDS:
        found = known.get(name)
        value = getattr(detail.document.data, name)
        lines = lines_of(value) if name == "line_items" else ()
        written = typed.get(name)
        told.append(
            Shown(
                name=name,
                title=TITLES[name],
                value="" if name == "line_items" else text_of(value),
                lines=lines,
                confidence=found.confidence if found else 0.0,
                evidence=found.evidence if found else None,
                box=box_of(found.evidence) if found else None,
                passed=tuple(check for check in found.checks if check.passed) if found else (),
                failed=tuple(check for check in found.checks if not check.passed) if found else (),
                lock=locks.get(name),
                differs=name in differing,
                extracted=text_of(getattr(detail.result.invoice_data, name)),
                typed=written if isinstance(written, str) else None,
                typed_lines=lines_of(written) if isinstance(written, list) else None,
                problem=why if name in wrong else "",
            )
        )
    return told


def blamed(problem: str) -> tuple[list[str], str]:
    """The fields that a refusal names before its colon, and its words: `vendor, total: required …`."""
    names, _, words = problem.partition(": ")
    told = names.split(", ")
    return (told, words) if words and all(name in FIELDS for name in told) else ([], "")


def least_sure_first(shown: Sequence[Shown]) -> list[Shown]:
    """What a person has locked needs the least attention."""
    return sorted(shown, key=lambda one: (one.lock is not None, one.confidence, FIELDS.index(one.name)))


def text_of(value: Any) -> str:
    """A value as it is shown, and as the field's own parser reads it back."""
    match value:
        case None:
            return ""
        case Decimal():
            return money_text(value)
        case date():
            return value.isoformat()
        case list() | tuple():
            return f"{len(value)} line{'' if len(value) == 1 else 's'}"
    return str(value)


def grouped(text: str | None) -> str:
    """An amount as it is read most easily: `35,213.77`."""
    told = text or ""
    whole, point, decimals = told.removeprefix("-").partition(".")
    if not whole.isdecimal():
        return told
    return ("\u2212" if told.startswith("-") else "") + f"{int(whole):,}{point}{decimals}"


def lines_of(value: Sequence[Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple(_cell(name, getattr(line, name) if isinstance(line, LineItem) else line.get(name)) for name in COLUMNS)
        for line in value
    )


def _cell(name: str, value: Any) -> str:
    """Quantities without the zeros that e-invoices write behind them."""
    return text_of(value.normalize() if name == "quantity" and isinstance(value, Decimal) else value)


def box_of(evidence: Evidence | None) -> Box | None:
    """Kept within the page: a box comes from a reader of foreign files."""
    if evidence is None or evidence.box is None:
        return None
    left, top, right, bottom = (min(max(part, 0.0), 1.0) for part in evidence.box)
    if right <= left or bottom <= top:
        return None
    return Box(*(f"{part * 100:.2f}%" for part in (left, top, right - left, bottom - top)))
