"""The demo's inbox: ten invented invoices are extracted by the Gemini of this machine, three of them reviewed as one
would at the keyboard, and one added once more. A program of its own, as the examples are:
`python -m penstock.cli.demo_documents`."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from penstock.app import Penstock
from penstock.cli.documents_asked import PIPELINE, acting
from penstock.cli.main import run
from penstock.config import load
from penstock.pipelines.documents import queue, reading
from penstock.pipelines.documents.reading import QueueItem
from penstock.pipelines.documents.samples import Sample, make_samples
from penstock.pipelines.documents.workflow import export

KINDS = ("facturx", "pdf", "facturx", "facturx_conflict", "facturx", "facturx", "pdf", "facturx", "facturx", "facturx")
INBOX = Path("inbox")
ANNA = "anna"


def main() -> int:
    made = make_samples(INBOX, count=len(KINDS), kinds=KINDS)
    _say(f"{len(made)} invented invoices: penstock documents add {INBOX} --wait")
    told = _added(INBOX)
    if len(told) != len(made) or any(line["status"] != "completed" for line in told):
        return 1
    own = sum(line["result"]["source"] == "e-invoice" for line in told)
    _say(f"{len(told)} extracted: {own} brought their own data, {len(told) - own} were read here")
    corrected = asyncio.run(_reviewed({line["document_id"]: one for line, one in zip(told, made, strict=True)}))
    return _once_more(corrected)


def _once_more(corrected: Sample) -> int:
    """The same bytes again: nothing is read, and what was corrected stays so."""
    (again,) = _added(corrected.path)
    field, value = _printed(corrected)
    inherited = again["result"]["invoice_data"][field] == value
    cached = asyncio.run(_was_cached(again["document_id"]))
    read = "known, so not read again" if cached else "read again"
    locked = f"its {field} is {value}, as {ANNA} locked it" if inherited else f"its {field} is not what {ANNA} locked"
    _say(f"{corrected.path.name} once more: {read}; {locked}; a review waits")
    return 0 if inherited and cached else 1


def _added(path: Path) -> list[dict[str, Any]]:
    """What the command says of each document."""
    out = StringIO()
    with redirect_stdout(out):
        run(["documents", "add", str(path), "--wait", "--json", "--quiet"])
    return [json.loads(line) for line in out.getvalue().splitlines()]


async def _reviewed(truth: dict[str, Sample]) -> Sample:
    """What a reviewer decides about three of them; answers the one that was corrected."""
    async with acting(load()) as app:
        items = await reading.queue(app.engine)
        doubtful, sure, other = (
            next(item for item in items if truth[item.document].kind == kind)
            for kind in ("facturx_conflict", "facturx", "pdf")
        )
        told = truth[doubtful.document]
        field, value = _printed(told)
        await _decide(app, doubtful, "correct", corrections={field: value}, reason="as printed")
        _say(f"{_named(doubtful)}: c (claim)  j j … (to the {field})  e {value} ⏎  s (submit) → corrected, and locked")
        await _decide(app, sure, "approve")
        _say(f"{_named(sure)}: n (next)  c  a (approve) → approved")
        await _decide(app, other, "reject", reason="nobody ordered this")
        _say(f"{_named(other)}: n  c  r (reject) nobody ordered this ⏎ → rejected")
        await _exported(app)
    return told


async def _decide(app: Penstock, item: QueueItem, action: Any, **more: Any) -> None:
    await queue.claim(app.engine, item.id, actor=ANNA)
    await queue.submit(app.engine, item.id, action, actor=ANNA, **more)


async def _exported(app: Penstock) -> None:
    """The files of what was decided are written anew, here."""
    app.engine.claim_only(*(workflow.name for workflow in PIPELINE))
    async with app.worker():
        for job in await app.jobs(workflow=export.name, limit=50):
            await app.wait(job.id)


async def _was_cached(document: str) -> bool:
    async with acting(load()) as app:
        job = await app.job((await reading.document(app.engine, document)).document.job)
        return bool(job.result["cached"])


def _printed(told: Sample) -> tuple[str, str]:
    """What the page says, and its e-invoice does not."""
    field = "total" if "total" in told.contradicts else "date"
    return field, str(getattr(told.truth, field))


def _named(item: QueueItem) -> str:
    return f"{item.filename[:3]} ({item.vendor}, {item.confidence:.2f} sure)"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
