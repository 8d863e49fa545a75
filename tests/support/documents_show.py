"""Documents as a person sees them: made-up invoices, uploaded to a real service that reads them with the local Gemini,
some of them already decided by reviewers of different names."""

from __future__ import annotations

import io
import json
import secrets
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pypdfium2

from penstock import Penstock
from penstock.pipelines.documents.samples import Kind, make_samples
from tests.support.served import PATIENCE, Served

ENVIRON = {"PENSTOCK_LOCAL_GEMINI__USE": "always", "PENSTOCK_DOCUMENTS__REVIEWERS": "anna,ben,clara"}

MORNING: tuple[Kind, ...] = (
    "pdf", "facturx", "pdf", "scan", "facturx", "pdf", "facturx_conflict", "pdf", "facturx", "pdf", "facturx_conflict"
)  # fmt: skip

app = Penstock()
"""What such a service runs: nothing but the pipelines that come with Penstock."""


def upload(up: Served, files: Mapping[str, bytes]) -> list[str]:
    """The ids of the documents, in the order of the files."""
    edge = secrets.token_hex(8)
    body = b"".join(
        f'--{edge}\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n'
        f"Content-Type: application/octet-stream\r\n\r\n".encode()
        + content
        + b"\r\n"
        for name, content in files.items()
    )
    headers = {"Content-Type": f"multipart/form-data; boundary={edge}"}
    _, answer = ask(up, "POST", "/api/documents", body + f"--{edge}--\r\n".encode(), headers)
    return [one["document_id"] for one in answer["documents"]]


def ask(
    up: Served, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, who: str = ""
) -> tuple[int, Any]:
    """As somebody of that name."""
    connection = HTTPConnection("127.0.0.1", up.port, timeout=PATIENCE)
    told = dict(headers or {}) | ({"X-Penstock-As": who} if who else {})
    if body is not None and not isinstance(body, bytes):
        body, told["Content-Type"] = json.dumps(body), "application/json"
    try:
        connection.request(method, path, body, told)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status < 300, f"{method} {path}: {answer.status} {content!r}"
        return answer.status, json.loads(content) if content else None
    finally:
        connection.close()


def until_read(up: Served, documents: Sequence[str]) -> list[str]:
    """The ids of their reviews, when all have been read."""
    ended = ("completed", "failed", "canceled")
    found: dict[str, Any] = {}

    def all_ended() -> bool:
        for document in documents:
            if found.get(document, {}).get("status") not in ended:
                found[document] = up.get(f"/api/documents/{document}")["document"]
        return all(each["status"] in ended for each in found.values())

    up.until(all_ended, "the documents to be read")
    return [found[document]["review_item_id"] for document in documents]


def decide(up: Served, item: str, who: str, **decision: Any) -> None:
    ask(up, "POST", f"/api/queue/{item}/claim", who=who)
    if decision:
        ask(up, "PUT", f"/api/queue/{item}/submit", decision, who=who)


def fill(up: Served, folder: Path) -> tuple[list[str], list[str]]:
    """A morning's invoices, with reviews that are late, claimed and decided. The last document contradicts itself."""
    samples = make_samples(folder / "samples", count=len(MORNING), seed=3, kinds=MORNING)
    documents, items = list[str](), list[str]()
    for some in (samples[:6], samples[6:]):
        documents += upload(up, {one.path.name[4:]: one.path.read_bytes() for one in some})
        items += until_read(up, documents[len(items) :])
    of = {kind: [item for item, one in zip(items, samples, strict=True) if one.kind == kind] for kind in MORNING}
    decide(up, of["facturx"][0], "anna", action="approve")
    decide(up, of["facturx"][1], "ben", action="correct", corrections={"vendor": "Brandt & Söhne"})
    decide(up, of["pdf"][0], "ben", action="reject", reason="a receipt, no invoice")
    decide(up, of["pdf"][1], "anna")
    left = {of["pdf"][2]: -1.0, of["pdf"][3]: 1.2, of["scan"][0]: 3.0, of["facturx_conflict"][0]: 6.0, items[-1]: 0.7}
    hurry(up, left)
    ask(up, "POST", "/api/queue/auto-assign", {"limit": 4}, who="lead")
    return documents, items


def hurry(up: Served, hours: Mapping[str, float]) -> None:
    """Give reviews so many hours from now, and let decisions have taken minutes: nobody can wait for that."""
    with closing(sqlite3.connect(up.folder / ".penstock" / "penstock.db", timeout=PATIENCE)) as store, store:
        store.executemany(
            "UPDATE review_items SET deadline = ?, turns = 0 WHERE id = ?",
            [(time.time() + left * 3600, item) for item, left in hours.items()],
        )
        store.execute("UPDATE review_items SET claimed = claimed - 40 - 25 * length(decided_by) WHERE decided > 0")


def behind_a_cover(path: Path) -> bytes:
    """The same document with an empty page before it."""
    made, source = pypdfium2.PdfDocument.new(), pypdfium2.PdfDocument(path)
    made.new_page(595, 842)
    made.import_pages(source)
    out = io.BytesIO()
    made.save(out)
    source.close()
    made.close()
    return out.getvalue()
