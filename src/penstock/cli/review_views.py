"""The review queue as people see it: by how urgent each item is now, one of them with its document, and its history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.cli.documents_views import in_room, show_fields
from penstock.cli.fitting import cut
from penstock.cli.output import Output, harmless, plain_table
from penstock.cli.sheets import show_sheet
from penstock.engine.model import DEFAULT_TENANT
from penstock.pipelines.documents.reading import AuditLine, DocumentDetail, QueueItem
from penstock.pipelines.documents.rules import OPEN
from penstock.times import ago, length, local, local_and_ago

BANDS = {"high": "bold red", "medium": "yellow", "low": "green"}
GIVEN_UP = ("released", "claim lapsed")
AUDIT = ("AT", "BY", "WHAT", "FIELD", "BEFORE", "AFTER", "REASON")


def depths_text(depths: Mapping[str, int]) -> str:
    """`3 pending, 1 in review`."""
    told = [f"{count} {status.replace('_', ' ')}" for status, count in depths.items() if count]
    return ", ".join(told) or "The queue is empty."


def left_text(item: QueueItem, now: float) -> str:
    """How long there is; of what is decided, nothing."""
    if item.status not in OPEN:
        return ""
    left = item.deadline - now
    return length(left) if left > 0 else f"{length(-left)} late"


def show_queue(out: Output, items: Sequence[QueueItem], now: float) -> None:
    columns: dict[str, list[str]] = {
        "ID": [item.id for item in items],
        "TENANT": [item.tenant for item in items],
        "PRIORITY": [f"{item.priority:.1f} {item.band}" for item in items],
        "STATUS": [item.status.replace("_", " ") for item in items],
        "LEFT": [left_text(item, now) for item in items],
        "REVIEWER": [item.decided_by or item.assigned_to or "" for item in items],
        "SURE": [f"{item.confidence:.2f}" for item in items],
        "FILE": [item.filename for item in items],
        "VENDOR": [item.vendor or "" for item in items],
        "NUMBER": [item.invoice_number or "" for item in items],
        "TOTAL": [" ".join(filter(None, (item.total, item.currency))) for item in items],
        "REASON": [" ".join((item.reason or "").split()) for item in items],
    }
    if all(item.tenant == DEFAULT_TENANT for item in items):
        del columns["TENANT"]
    if not out.fancy:
        if not any(columns["REASON"]):
            del columns["REASON"]
        out.result(plain_table(list(columns), list(zip(*columns.values(), strict=True))))
        return
    from penstock.cli.row_table import RowTable

    reasons = columns.pop("REASON")
    console = out.console()
    shown = in_room(columns, console.width, unless_needed=("NUMBER", "VENDOR", "SURE", "STATUS", "REVIEWER"))
    styles = [BANDS[item.band] if item.status in OPEN else "bright_black" for item in items]
    console.print(RowTable(shown, reasons, styled="PRIORITY", styles=styles))


def show_review(out: Output, item: QueueItem, found: DocumentDetail, now: float) -> None:
    style = BANDS[item.band] if item.status in OPEN else "bright_black"
    title = f"{harmless(item.filename)} · {item.id}"
    show_sheet(out, title, _facts(item, found, now), border=style, styles={"priority": style, "late": "red"})
    show_fields(out, found)


def _facts(item: QueueItem, found: DocumentDetail, now: float) -> list[tuple[str, str]]:
    late = item.status in OPEN and item.deadline < now
    facts: list[tuple[str, str | None]] = [
        ("item", item.id),
        ("document", item.document),
        ("file", item.filename),
        ("status", item.status.replace("_", " ")),
        ("priority", f"{item.priority:.1f} ({item.band})"),
        ("late" if late else "deadline", local_and_ago(item.deadline, now)),
        ("reviewer", item.assigned_to if item.status in OPEN else item.decided_by),
        ("claim ends", None if item.claim_until is None else ago(item.claim_until, now)),
        ("decided", None if item.decided is None else local_and_ago(item.decided, now)),
        ("reason", item.reason),
        ("confidence", f"{item.confidence:.2f}"),
        ("read by", _source(found)),
    ]
    return [(name, value) for name, value in facts if value]


def _source(found: DocumentDetail) -> str | None:
    if found.result is None:
        return None
    return "its own e-invoice" if found.result.source == "e-invoice" else found.result.model


def show_audit(out: Output, lines: Sequence[AuditLine]) -> None:
    rows = [
        (
            local(line.at)[:19].replace("T", " "),
            line.actor,
            _deed(line),
            line.field or "",
            _shown(line.before),
            _shown(line.after),
            "" if line.action in (*GIVEN_UP, "assigned") else " ".join((line.reason or "").split()),
        )
        for line in lines
    ]
    columns = {name: list(cells) for name, cells in zip(AUDIT, zip(*rows, strict=True), strict=True) if any(cells)}
    if columns:
        out.result(plain_table(list(columns), list(zip(*columns.values(), strict=True))))


def _deed(line: AuditLine) -> str:
    """What was done. Of an item that changed hands the audit has the other name in place of a reason."""
    if line.action == "assigned" and line.reason:
        return f"assigned to {line.reason}"
    if line.action in GIVEN_UP and line.reason not in (None, line.actor):
        return f"{line.action}, was {line.reason}'s"
    return line.action


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 60)
