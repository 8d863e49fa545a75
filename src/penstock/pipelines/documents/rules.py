"""Decisions about documents and the review queue as pure functions: who wins, how urgent a review is, who may do what.

Who wins, field by field: what a person locked, then the newer extraction, then the older one.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.documents.confidence import CONTRADICTS, overall
from penstock.pipelines.documents.fields import FIELD_RULES
from penstock.pipelines.documents.files import Record
from penstock.pipelines.documents.model import FIELDS, Check, ExtractionResult, FieldConfidence, InvoiceData

Status = Literal["pending", "in_review", "approved", "corrected", "rejected"]
STATUSES: tuple[Status, ...] = get_args(Status)
OPEN: tuple[Status, ...] = ("pending", "in_review")

Action = Literal["approve", "correct", "reject"]
DECIDES: dict[Action, Status] = {"approve": "approved", "correct": "corrected", "reject": "rejected"}

Band = Literal["high", "medium", "low"]

DAY = 86400.0
URGENT = 30.0
"""What the nearness of the deadline adds to a priority, in the end."""
SLOPE = URGENT / DAY
"""What it adds each second of the last day."""


def cache_key(content_hash: str, *, place: str, model: str, prompt: str, schema: str) -> str:
    """What an extraction depends on. Another model, prompt or schema makes another one; so does another Gemini that
    goes by the same model's name."""
    told = "\n".join((content_hash, place, model, prompt, schema))
    return hashlib.sha256(told.encode()).hexdigest()


def weight(confidence: float, lines: int, total: float) -> float:
    """The part of a priority that does not change: doubt, length, and value."""
    return (1 - confidence) * 40 + min(lines / 100, 1) * 20 + min(abs(total) / 10_000, 1) * 10


def priority(constant: float, *, deadline: float, now: float) -> float:
    """From 0 to 100, at this moment."""
    hours_left = max(0.0, (deadline - now) / 3600)
    return constant + max(0.0, (24 - hours_left) / 24) * URGENT


def band(value: float) -> Band:
    return "high" if value >= 70 else "medium" if value >= 40 else "low"


@dataclass(slots=True, frozen=True)
class Standing:
    """How an item is kept so that an index has it in the order of what its priority is at any moment: `rank` as it is,
    or while it is rising `rank + SLOPE · now`. `turns` is when it begins to rise, or has risen."""

    rising: int
    rank: float
    turns: float | None

    def priority(self, now: float) -> float:
        return self.rank + SLOPE * now * self.rising


def standing(constant: float, *, deadline: float, now: float) -> Standing:
    if now < deadline - DAY:
        return Standing(0, constant, deadline - DAY)
    if now < deadline:
        return Standing(1, constant + URGENT - SLOPE * deadline, deadline)
    return Standing(0, constant + URGENT, None)


def effective(extracted: InvoiceData, locked: Mapping[str, Any]) -> InvoiceData:
    """What counts: the extraction, with what people locked laid over it."""
    if not locked:
        return extracted
    return InvoiceData.model_validate({**extracted.model_dump(), **locked})


def certified(result: ExtractionResult, locked: Mapping[str, Any]) -> ExtractionResult:
    """The extraction with what people locked taken as certain, for whoever asks how sure the document is."""
    if not locked:
        return result
    counts = effective(result.invoice_data, locked).model_dump(mode="json")
    fields = tuple(
        each.model_copy(
            update={
                "value": counts[each.field_name],
                "confidence": 1.0,
                "checks": (Check(name="locked", passed=True, note="a person set this value"),),
            }
        )
        if each.field_name in locked
        else each
        for each in result.field_confidences
    )
    settled = tuple(CONTRADICTS.format(name.replace("_", " ")) for name in locked)
    findings = tuple(each for each in result.findings if not each.startswith(settled))
    return result.model_copy(
        update={"field_confidences": fields, "overall_confidence": overall(fields), "findings": findings}
    )


def record(result: ExtractionResult, locked: Mapping[str, Any], status: str) -> Record:
    """A document as it is exported."""
    return Record(certified(result, locked), effective(result.invoice_data, locked), status, tuple(locked))


@dataclass(slots=True, frozen=True)
class Seen:
    """What the queue knows of a document. `approvable`: many may be approved at once, and this one among them."""

    confidence: float
    lines: int
    total: float
    weight: float
    approvable: bool


def seen(record: Record) -> Seen:
    result, data = record.result, record.data
    total, lines = float(data.total or 0), len(data.line_items)
    return Seen(
        confidence=result.overall_confidence,
        lines=lines,
        total=total,
        weight=weight(result.overall_confidence, lines, total),
        approvable=not (missing(data) or result.findings or doubtful(result.field_confidences)),
    )


@dataclass(slots=True, frozen=True)
class Difference:
    """An extraction that disagrees with what a person locked."""

    field: str
    locked: Any
    extracted: Any


def differences(extracted: InvoiceData, locked: Mapping[str, Any]) -> list[Difference]:
    told = extracted.model_dump(mode="json")
    mine = effective(extracted, locked).model_dump(mode="json")
    return [Difference(name, mine[name], told[name]) for name in FIELDS if name in locked and mine[name] != told[name]]


def corrected(before: InvoiceData, corrections: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a person changes, checked, as JSON; `InvalidRequest` for what is no field or no value of it. A
    field that is given the value it has counts as none, unless nothing is changed at all."""
    if unknown := [name for name in corrections if name not in FIELDS]:
        raise InvalidRequest(f"there is no field {unknown[0]!r}: the fields are {', '.join(FIELDS)}")
    if not corrections:
        raise InvalidRequest("a correction needs a change: name at least one field and its value")
    told: dict[str, Any] = {}
    for name, value in corrections.items():
        try:
            told[name] = InvoiceData.model_validate({name: value}).model_dump(mode="json")[name]
        except ValueError as error:
            raise InvalidRequest(f"{name}: {_why(error)}") from error
    mine = before.model_dump(mode="json")
    changed = {name: value for name, value in told.items() if value != mine[name]}
    if not changed:
        raise InvalidRequest("a correction needs a change: these fields have these values already; approve instead")
    return changed


def missing(data: InvoiceData) -> list[str]:
    """Required fields without a value. Nothing to pay is one."""
    return [rule.name for rule in FIELD_RULES if rule.required and getattr(data, rule.name) is None]


def doubtful(confidences: Sequence[FieldConfidence]) -> list[str]:
    """Fields below their threshold."""
    thresholds = {rule.name: rule.threshold for rule in FIELD_RULES}
    return [each.field_name for each in confidences if each.confidence < thresholds[each.field_name]]


def check_reason(action: Action, reason: str | None) -> None:
    if action == "reject" and not (reason or "").strip():
        raise InvalidRequest("a rejection needs a reason")


def twin_key(data: InvoiceData) -> str | None:
    """The same for two documents that look like the same invoice; None where that cannot be told."""
    if data.vendor is None or data.invoice_number is None:
        return None
    vendor, number = _bare(data.vendor), _bare(data.invoice_number)
    return f"{vendor}|{number}" if vendor and number else None


def _bare(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).casefold()
    return re.sub(r"[^a-z0-9]", "", plain)


def _why(error: ValueError) -> str:
    told = getattr(error, "errors", None)
    return str(told()[0]["msg"]).removeprefix("Value error, ") if callable(told) else str(error)
