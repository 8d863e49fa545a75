"""What a knowledge base holds: its documents, one document chunk by chunk, and what could not be taken in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic_core import from_json
from starlette.responses import Response

from penstock.engine.engine import Engine
from penstock.engine.errors import NotFound
from penstock.pipelines.ingestion.dashboard.marking import address_of, clock, pages_of, seconds_of
from penstock.pipelines.ingestion.dashboard.seeing import LiveRoute, about, seen
from penstock.pipelines.ingestion.reading import errors
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import render
from penstock.service.state import Serving

router = APIRouter(route_class=LiveRoute)

PAGE = 50
CHUNKS = 20
LARGEST = 2**62
"""No number of a row is larger: what an address names beyond it is nothing."""

Number = Annotated[int, Query(ge=0, le=LARGEST)]
Text = Annotated[str, Query(max_length=4000)]

_DOCUMENT = "n, source, uri, title, metadata, chunks, indexed_at"


@dataclass(slots=True, frozen=True)
class Doc:
    """A document that can be found. `address`: where it can be opened, if on the web."""

    n: int
    source: str
    uri: str
    title: str
    metadata: dict[str, Any]
    chunks: int
    indexed_at: float

    @property
    def address(self) -> str:
        return address_of(self.uri)


@dataclass(slots=True, frozen=True)
class Piece:
    """A chunk in its place."""

    n: int
    seq: int
    text: str
    tokens: int
    headings: tuple[str, ...]
    page: str
    at: str
    address: str


@router.get("/bases/{name}/documents", name="ui.knowledge.documents")
async def documents_page(
    request: Request,
    service: Serving,
    principal: Reader,
    name: str,
    tenant: str = "",
    prefix: Text = "",
    source: Text = "",
    after: Text = "",
) -> Response:
    """`source` and `after`: those of the last document on the page before."""
    it = await seen(service.penstock, principal, name, tenant)
    prefix = prefix.strip()
    number = 0 if it.edition is None else it.edition.number
    found = await documents(service.penstock.engine, number, prefix=prefix, source=source, after=after)
    known = about(principal, it)
    path, last = known["path"], found[PAGE - 1] if len(found) > PAGE else None
    return render(
        request,
        "knowledge/documents.html",
        **known,
        tab="documents",
        rows=found[:PAGE],
        prefix=prefix,
        several=len(it.base.config.sources) > 1,
        following="" if last is None else path("documents", prefix=prefix, source=last.source, after=last.uri),
        first=path("documents", prefix=prefix) if after else "",
    )


async def documents(
    engine: Engine, edition: int, *, prefix: str = "", source: str = "", after: str = "", limit: int = PAGE + 1
) -> list[Doc]:
    """In the order of their addresses, those whose address or title begins so, whatever the capitals."""
    begins = " AND (LOWER(SUBSTR(uri, 1, :size)) = :prefix OR LOWER(SUBSTR(title, 1, :size)) = :prefix)"
    behind = " AND (source > :source OR (source = :source AND uri > :after))"
    values: dict[str, Any] = {"edition": edition, "limit": limit}
    values |= {"prefix": prefix.lower(), "size": len(prefix)} if prefix else {}
    values |= {"source": source, "after": after} if after else {}
    rows = await engine.read(
        (
            f"SELECT {_DOCUMENT} FROM kb_documents WHERE edition = :edition AND state = 'current'"
            f"{begins if prefix else ''}{behind if after else ''} ORDER BY source, uri LIMIT :limit",
            values,
        )
    )
    return [_doc(row) for row in rows]


def _doc(row: tuple[Any, ...]) -> Doc:
    n, source, uri, title, metadata, chunks, indexed_at = row
    told = from_json(metadata)
    return Doc(int(n), source, uri, title or uri, told if isinstance(told, dict) else {}, chunks, indexed_at)


@router.get("/bases/{name}/document", name="ui.knowledge.document")
async def document_page(
    request: Request,
    service: Serving,
    principal: Reader,
    name: str,
    tenant: str = "",
    uri: Text = "",
    n: Number = 0,
    chunk: Number = 0,
    start: Number = 0,
) -> Response:
    """By its number, or by its address: then the first that has it. `chunk` is shown, and stands out."""
    engine = service.penstock.engine
    it = await seen(service.penstock, principal, name, tenant)
    number = 0 if it.edition is None else it.edition.number
    which, value = ("n = :value", n) if n else ("uri = :value", uri)
    rows = await engine.read(
        (
            f"SELECT {_DOCUMENT} FROM kb_documents WHERE edition = :edition AND state = 'current' AND {which}"
            " ORDER BY n LIMIT 1",
            {"edition": number, "value": value},
        )
    )
    if not rows:
        raise NotFound(f"{it.base.id!r} has no such document, or not any more")
    found = _doc(rows[0])
    if chunk and not start:
        start = max(0, await _place(engine, number, found.n, chunk) - 1)
    pieces = await chunks(engine, number, found, start)
    known = about(principal, it)
    path = known["path"]
    return render(
        request,
        "knowledge/document.html",
        **known,
        tab="documents",
        document=found,
        pieces=pieces[:CHUNKS],
        chunk=chunk,
        following=path("document", n=found.n, start=pieces[CHUNKS].seq) if len(pieces) > CHUNKS else "",
        first=path("document", n=found.n) if start else "",
    )


async def _place(engine: Engine, edition: int, document: int, chunk: int) -> int:
    """Which of the document's chunks it is."""
    rows = await engine.read(
        (
            "SELECT MIN(seq) FROM kb_pieces WHERE edition = :edition AND document = :document AND chunk = :chunk",
            {"edition": edition, "document": document, "chunk": chunk},
        )
    )
    return int(rows[0][0] or 0)


async def chunks(engine: Engine, edition: int, document: Doc, start: int, *, limit: int = CHUNKS + 1) -> list[Piece]:
    rows = await engine.read(
        (
            "SELECT c.n, p.seq, c.text, c.tokens, p.position FROM kb_pieces p JOIN kb_chunks c"
            " ON c.edition = p.edition AND c.n = p.chunk WHERE p.edition = :edition AND p.document = :document"
            " AND p.seq >= :start ORDER BY p.seq LIMIT :limit",
            {"edition": edition, "document": document.n, "start": min(start, 2**31 - 1), "limit": limit},
        )
    )
    return [_piece(document, row) for row in rows]


def _piece(document: Doc, row: tuple[Any, ...]) -> Piece:
    n, seq, text, tokens, position = row
    told = from_json(position)
    headings, seconds = told.get("headings"), seconds_of(told)
    return Piece(
        int(n),
        seq,
        text,
        tokens,
        tuple(str(each) for each in headings) if isinstance(headings, list) else (),
        pages_of(told),
        "" if seconds is None else clock(seconds),
        "" if seconds is None else address_of(document.uri, seconds),
    )


@router.get("/bases/{name}/errors", name="ui.knowledge.errors")
async def errors_page(
    request: Request, service: Serving, principal: Reader, name: str, tenant: str = "", before: Text = ""
) -> Response:
    it = await seen(service.penstock, principal, name, tenant)
    base = it.base
    found = await errors(service.penstock.engine, base.tenant, base.id, before=before or None, limit=PAGE + 1)
    known = about(principal, it)
    path = known["path"]
    return render(
        request,
        "knowledge/errors.html",
        **known,
        tab="errors",
        rows=found[:PAGE],
        address_of=address_of,
        older=path("errors", before=found[PAGE - 1].id) if len(found) > PAGE else "",
        newest=path("errors") if before else "",
    )
