"""`/api/documents` and `/api/batches`: take documents in, look at them, have them read anew, take them out. The queue's
routes are in `api_review`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from starlette.responses import StreamingResponse

from penstock.engine.errors import Conflict, KeyReused, NotFound, Permanent, Transient
from penstock.pipelines.documents import api_models as models
from penstock.pipelines.documents import asking, exporting, reading
from penstock.pipelines.documents.answers import batch_detail, document_detail, document_line, record_of
from penstock.pipelines.documents.api_review import router as review
from penstock.pipelines.documents.contents import Kept, content_path
from penstock.pipelines.documents.exporting import MEDIA_TYPES
from penstock.pipelines.documents.files import as_json, as_parquet
from penstock.pipelines.documents.parsing import PREVIEW_WIDTH, Parser
from penstock.pipelines.documents.reading import DocumentDetail
from penstock.pipelines.documents.uploading import discard, received
from penstock.pipelines.documents.workflow import many
from penstock.service.access.csrf import HEADER, needs_csrf
from penstock.service.access.guard import Operator, Reader, still_known
from penstock.service.access.headers import REVALIDATED
from penstock.service.access.refusal import Refused
from penstock.service.api import shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import Answers, problems
from penstock.service.api.limits import Taking, UploadRoute
from penstock.service.api.once import IdempotencyKey
from penstock.service.api.paging import DEFAULT_LIMIT, Limit
from penstock.service.api.problems import Problem, conflict
from penstock.service.api.tenancy import owner_for, seen_by
from penstock.service.state import Service, Serving
from penstock.store.protocol import Once

router = APIRouter(prefix="/api", route_class=JsonRoute)
router.include_router(review)

_TAG: dict[str, Any] = {"tags": ["documents"]}

_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "format": "binary"},
                            "description": "PDF, PNG, JPEG, WebP, GIF, TIFF or BMP; may be repeated.",
                        }
                    },
                }
            }
        },
    }
}


class _FileRoute(JsonRoute):
    """Where a form's secret is looked for in the form itself, all its files are read for it: here it comes in the
    header."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def with_secret_outside(request: Request) -> Response:
            if HEADER not in request.headers:
                principal = await still_known(request)
                if principal is not None and needs_csrf(request, principal):
                    raise Refused(403, "send what stands in our pages as csrf-token in the header X-CSRF-Token")
            return await handle(request)

        return with_secret_outside


class _UploadRoute(UploadRoute, _FileRoute):
    """Up to `service.upload_limit` bytes, from somebody who is known before any of them is read."""


def _refusals(path: str, *statuses: int) -> Answers:
    """Those of uploads say something else with the same numbers."""
    told = problems(*statuses, path=path)
    told[400] |= {"description": "A file is none that is read here, or is empty, or the form cannot be read."}
    told[413] |= {"description": "A file, or all of them together, are larger than the service takes."}
    told[415] |= {"description": "The body is no multipart/form-data."}
    return told


async def upload_documents(
    request: Request,
    principal: Operator,
    service: Serving,
    intake: Taking,
    tenant: shapes.OfTenant = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Each part with a filename is a document; what it is, its first bytes tell, not its name. All files are taken, or
    none: 400 names the one that is not read here. They are on the disk and in the store when this answers; the work
    begins after that. Several files are a batch."""
    owner, penstock = owner_for(principal, tenant), service.penstock
    key = None if idempotency_key is None else Once(f"{owner}/uploadDocuments", idempotency_key, "")
    await intake.admit(1, key)
    largest = service.settings.documents.largest_file
    async with received(request, penstock.engine, tenant=owner, largest=largest) as kept:
        if len(kept) > 1:
            await intake.admit(len(kept) - 1, key)
        once = key and Once(key.scope, key.key, _digest(kept))
        added = await asking.add(penstock, service.settings, kept, tenant=owner, actor=principal.actor, once=once)
    if added.repeated:
        await discard(kept)
    taken = [
        {"document_id": each.document_id, "job_id": each.job_id, "filename": each.filename, "status": "queued"}
        for each in added.documents
    ]
    alone = taken[0] if added.batch_id is None else {"document_id": None, "job_id": None}
    content = {
        "document_id": alone["document_id"],
        "job_id": alone["job_id"],
        "status": "queued",
        "batch_id": added.batch_id,
        "documents": taken,
    }
    place = f"documents/{alone['document_id']}" if added.batch_id is None else f"batches/{added.batch_id}"
    return answer(content, 202, Location=f"/api/{place}")


router.add_api_route(
    "/documents",
    upload_documents,
    methods=["POST"],
    operation_id="uploadDocuments",
    summary="Upload documents",
    status_code=202,
    response_model=models.Uploaded,
    responses=_refusals("/api/documents", 400, 404, 409, 413, 415, 429),
    openapi_extra=_FORM,
    route_class_override=_UploadRoute,
    **_TAG,
)


@router.get(
    "/documents",
    operation_id="listDocuments",
    summary="List documents",
    response_model=models.DocumentPage,
    responses=problems(path="/api/documents"),
    **_TAG,
)
async def list_documents(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    status: models.OfStatus = None,
    batch: models.OfBatch = None,
    before: models.Before = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Response:
    """Newest first. Send `before` of an answer for the next page."""
    found = await reading.documents(
        service.penstock.engine,
        tenant=seen_by(principal, tenant),
        status=status,
        batch=batch,
        before=before,
        limit=limit,
    )
    more = found[-1].id if len(found) == limit else None
    return answer({"items": [document_line(each) for each in found], "before": more})


@router.get(
    "/documents/export",
    operation_id="exportDocuments",
    summary="Export documents",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One row for each document, streamed.",
            "content": {
                media: {"schema": {"type": "string", "format": "binary"}} for media in MEDIA_TYPES.values()
            },
        },
        **problems(path="/api/documents/export"),
    },
    **_TAG,
)  # fmt: skip
async def export_documents(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    format: models.Exported = "csv",
    batch: models.OfBatch = None,
    review_status: models.Reviewed = [],  # noqa: B006
) -> Response:
    """All that were extracted, oldest first, with what counts now. In CSV, text that a spreadsheet would take for a
    formula has a `'` before it."""
    pages = exporting.records(
        service.penstock.engine, tenant=seen_by(principal, tenant), batch=batch, review_status=review_status
    )
    headers = {"Content-Disposition": f'attachment; filename="documents.{format}"'}
    return StreamingResponse(exporting.exported(format, pages), media_type=MEDIA_TYPES[format], headers=headers)


@router.get(
    "/documents/{document_id}",
    operation_id="getDocument",
    summary="Show a document",
    response_model=models.DocumentShown,
    responses=problems(404, path=models.DOCUMENT),
    **_TAG,
)
async def get_document(document_id: models.DocumentId, principal: Reader, service: Serving) -> Response:
    """What was extracted, what counts now, each field with its evidence, what is locked, and possible duplicates."""
    found = await reading.document(service.penstock.engine, document_id, tenant=principal.tenant)
    return answer(document_detail(found))


@router.get(
    "/documents/{document_id}/preview",
    operation_id="previewDocument",
    summary="Show a page as an image",
    response_class=Response,
    responses={
        200: {
            "description": "A JPEG, turned as the page was read; boxes of evidence are parts of its width and height.",
            "content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}},
        },
        304: {"description": "The image that has this `ETag` still holds."},
        **problems(404, path=f"{models.DOCUMENT}/preview"),
    },
    **_TAG,
)
async def preview(
    document_id: models.DocumentId,
    principal: Reader,
    service: Serving,
    page: models.PageNumber = 1,
    width: models.Width = PREVIEW_WIDTH,
    if_none_match: Annotated[str | None, Header(max_length=1000, description="The `ETag` that you have.")] = None,
) -> Response:
    """404 where there is no such page, or the file cannot be drawn."""
    found = await reading.document(service.penstock.engine, document_id, tenant=principal.tenant)
    turned = _turned(found, page)
    tag = _tag(found.document.content_hash, page, width, turned)
    headers = {"ETag": tag, "Cache-Control": REVALIDATED}
    if tag in (if_none_match or ""):
        return Response(status_code=304, headers=headers)
    return Response(await _drawn(service, found, page, width, turned), media_type="image/jpeg", headers=headers)


@router.get(
    "/documents/{document_id}/download/{format}",
    operation_id="downloadDocument",
    summary="Download a document's data",
    response_class=Response,
    responses={
        200: {
            "description": "The file.",
            "content": {
                "application/json": {"schema": {"type": "object"}, "example": {"document_id": shapes.EXAMPLE_ID}},
                MEDIA_TYPES["parquet"]: {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **problems(404, path=f"{models.DOCUMENT}/download/json"),
    },
    **_TAG,
)
async def download(
    document_id: models.DocumentId,
    format: models.Downloaded,
    principal: Reader,
    service: Serving,
) -> Response:
    """The same bytes that the outputs have, or will have in a moment where somebody has just corrected it."""
    found = await reading.document(service.penstock.engine, document_id, tenant=principal.tenant)
    record = record_of(found)
    if record is None:
        raise NotFound(f"document {document_id} has no data: it is {found.document.status}")
    made = await asyncio.to_thread(lambda: as_json(record) if format == "json" else as_parquet([record]))
    headers = {"Content-Disposition": f'attachment; filename="{document_id}.{format}"'}
    media = "application/json" if format == "json" else MEDIA_TYPES["parquet"]
    return Response(made, media_type=media, headers=headers)


@router.post(
    "/documents/{document_id}/re-extract",
    operation_id="reExtractDocument",
    summary="Extract a document anew",
    status_code=202,
    response_model=models.DocumentTaken,
    responses=problems(404, 409, 415, 429, path=f"{models.DOCUMENT}/re-extract"),
    **_TAG,
)
async def re_extract(document_id: models.DocumentId, principal: Operator, service: Serving, intake: Taking) -> Response:
    """It is paid for once more. Locked fields stay; where the new reading disagrees with one, the review shows both.
    409 while it is worked on."""
    await reading.document(service.penstock.engine, document_id, tenant=principal.tenant)
    await intake.admit(1)
    try:
        added = await asking.extract_again(
            service.penstock, service.settings, document_id, tenant=principal.tenant, actor=principal.actor
        )
    except Conflict as error:
        raise await _in_the_way(service, document_id, error) from error
    content = {"document_id": added.document_id, "job_id": added.job_id, "filename": added.filename, "status": "queued"}
    return answer(content, 202, Location=f"/api/documents/{document_id}")


@router.delete(
    "/documents/{document_id}",
    operation_id="deleteDocument",
    summary="Delete a document",
    status_code=204,
    response_class=Response,
    responses=problems(404, 409, 415, path=models.DOCUMENT),
    **_TAG,
)
async def delete_document(document_id: models.DocumentId, principal: Operator, service: Serving) -> Response:
    """Everything that is stored of it goes: the file, what was extracted, its review, its files; that it was deleted is
    audited. What is known of its content goes with the last document of that content. Work on it is cancelled; 409
    where a step is running that must end first."""
    try:
        await asking.forget(service.penstock, document_id, tenant=principal.tenant, actor=principal.actor)
    except Conflict as error:
        raise await _in_the_way(service, document_id, error) from error
    return Response(status_code=204)


@router.get(
    "/batches/{batch_id}",
    operation_id="getDocumentBatch",
    summary="Show a batch of documents",
    response_model=models.BatchShown,
    responses=problems(404, path=models.BATCH),
    **_TAG,
)
async def get_batch(batch_id: models.BatchId, principal: Reader, service: Serving) -> Response:
    """How many have ended and how, and when all have, what they gave together."""
    penstock = service.penstock
    missing = NotFound(f"there is no batch of documents {batch_id}")
    try:
        batch = await penstock.batch(batch_id)
        following = None if batch.follow_up is None else await penstock.job(batch.follow_up)
    except NotFound:
        raise missing from None
    is_ours = following is not None and following.workflow == many.name
    if not principal.sees(batch.tenant) or not (is_ours or await reading.documents(
        penstock.engine, tenant=batch.tenant, batch=batch_id, limit=1
    )):  # fmt: skip
        raise missing
    return answer(batch_detail(batch, following))


def _digest(kept: Sequence[Kept]) -> str:
    """What was asked: the same files under the same names, in the same order."""
    told = "\n".join(f"{each.content_hash} {each.filename}" for each in kept)
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


def _turned(found: DocumentDetail, page: int) -> int:
    """By how much a page was turned when it was read; `NotFound` where it is known that there is none."""
    pages = found.document.pages
    if pages is not None and page > pages:
        raise NotFound(f"document {found.document.id} has no page {page}: it has {pages}")
    turns = () if found.result is None else found.result.page_turns
    return turns[page - 1] if page <= len(turns) else 0


def _tag(content_hash: str, page: int, width: int, turned: int) -> str:
    return f'"{content_hash[:32]}-{page}-{width}-{turned}"'


async def _drawn(service: Service, found: DocumentDetail, page: int, width: int, turned: int) -> bytes:
    engine, document = service.penstock.engine, found.document
    parser = Parser((await engine.calls.ready("pool")).pool, most_pages=service.settings.documents.most_pages)
    try:
        return await parser.preview(
            content_path(engine.home, document.tenant, document.id), page, width=width, turned=turned
        )
    except Permanent as error:
        raise NotFound(f"page {page} of document {document.id} cannot be shown: {error}") from error
    except Transient as error:
        raise Problem(503, f"the page cannot be drawn now: {error}", headers={"Retry-After": "2"}) from error


async def _in_the_way(service: Service, document_id: str, error: Conflict) -> Problem:
    if isinstance(error, KeyReused):
        raise error
    found = await reading.document(service.penstock.engine, document_id)
    return conflict(error, id=document_id, state=found.document.status)
