"""An office with documents in it: the real engine on a real store, time that a test moves, and documents that are put
before reviewers without having been read."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock import Penstock
from penstock.config import Settings
from penstock.pipelines.documents import rules
from penstock.pipelines.documents.fields import FIELD_RULES
from penstock.pipelines.documents.model import ExtractionResult, FieldConfidence, InvoiceData
from penstock.pipelines.documents.workflow import documents, export, many
from tests.support.house import HandClock

GOOD = InvoiceData.model_validate(
    {
        "vendor": "Larkspur Paper Ltd",
        "invoice_number": "INV-7",
        "date": "2026-03-01",
        "subtotal": "100.00",
        "tax_rate": "20",
        "tax_amount": "20.00",
        "total": "120.00",
        "currency": "GBP",
    }
)


class Office:
    def __init__(self, app: Penstock, settings: Settings, clock: HandClock) -> None:
        self.app, self.settings, self.clock = app, settings, clock
        self.engine = app.engine

    async def plant(
        self,
        *,
        data: InvoiceData = GOOD,
        confidence: float = 0.9,
        content: str = "one",
        tenant: str = "default",
        hours: float = 24.0,
        findings: Sequence[str] = (),
    ) -> tuple[str, str]:
        """A document whose extraction is stored and whose review is open: its id, and that of its review item."""
        engine, now = self.engine, self.clock.now()
        document, item = engine.new_id(), engine.new_id()
        digest = hashlib.sha256(content.encode()).hexdigest()
        result = ExtractionResult(
            document_id=document,
            filename=f"{content}.pdf",
            invoice_data=data,
            field_confidences=[FieldConfidence(field_name=rule.name, confidence=confidence) for rule in FIELD_RULES],
            overall_confidence=confidence,
            extracted_at=datetime.fromtimestamp(now, UTC),
            processing_time_seconds=1.0,
            content_hash=digest,
            model="local-rules",
            findings=tuple(findings),
        )
        weight = rules.weight(confidence, len(data.line_items), float(data.total or 0))
        stands = rules.standing(weight, deadline=now + hours * 3600, now=now)
        told: dict[str, Any] = {
            "id": document, "tenant": tenant, "filename": result.filename, "content": digest, "item": item,
            "now": now, "extraction": result.model_dump_json(), "data": data.model_dump_json(), "sure": confidence,
            "twin": rules.twin_key(data), "rising": stands.rising, "rank": stands.rank, "turns": stands.turns,
            "weight": weight, "deadline": now + hours * 3600, "lines": len(data.line_items),
            "total": float(data.total or 0), "approvable": int(not rules.missing(data) and not findings),
        }  # fmt: skip
        await engine.write(
            (
                "INSERT INTO documents (id, tenant, filename, content_hash, size, kind, pages, job, earlier, done,"
                " created, finished, folder, extraction, data, confidence, review_status, review_item, twin, revision,"
                " exported) VALUES (:id, :tenant, :filename, :content, 1, 'pdf', 1, '', '', 1, :now, :now,"
                " '2027/01/15', :extraction, :data, :sure, 'pending', :item, :twin, 1, 1)",
                told,
            ),
            (
                "INSERT INTO review_items (id, tenant, document, content_hash, status, rising, rank, turns, weight,"
                " deadline, confidence, line_count, total, approvable, created) VALUES (:item, :tenant, :id, :content,"
                " 'pending', :rising, :rank, :turns, :weight, :deadline, :sure, :lines, :total, :approvable, :now)",
                told,
            ),
        )
        return document, item


@asynccontextmanager
async def office(folder: Path, store: str | None = None) -> AsyncIterator[Office]:
    """Nobody works in it until a test says `async with office.app.worker()`."""
    clock = HandClock()
    settings = Settings(home=folder / "home")
    app = Penstock(workflows=(documents, export, many), store=store, clock=clock)
    await app.open(settings=settings)
    try:
        yield Office(app, settings, clock)
    finally:
        await app.close()


__all__ = ["GOOD", "Office", "office"]
