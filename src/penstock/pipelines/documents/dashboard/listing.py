"""The list of documents, the newest first, and the place to drop new ones."""

from __future__ import annotations

from typing import get_args

from fastapi import Request
from starlette.responses import Response

from penstock.pipelines.documents import reading
from penstock.pipelines.documents.dashboard.places import DECIDED, DOCUMENTS, document_path, item_path
from penstock.pipelines.documents.dashboard.showing import grouped, text_of, tone
from penstock.pipelines.documents.kinds import SUPPORTED
from penstock.pipelines.documents.reading import DocumentStatus
from penstock.pipelines.documents.workflow import documents
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import link, render
from penstock.service.state import Serving

PAGE = 50
STATUSES: tuple[DocumentStatus, ...] = get_args(DocumentStatus)
COLOURS = {"processing": "running"}
"""Of a document's status, where it is not that of a job's status of the same name."""

SURE = 0.85
"""The confidence of a whole document from which its bar is green."""


async def documents_page(
    request: Request, service: Serving, principal: Reader, status: str = "", batch: str = "", before: str = ""
) -> Response:
    wanted: DocumentStatus | None = next((name for name in STATUSES if name == status), None)
    found = await reading.documents(
        service.penstock.engine,
        tenant=principal.tenant,
        status=wanted,
        batch=batch or None,
        before=before or None,
        limit=PAGE + 1,
    )
    filters = {"status": wanted or "", "batch": batch}
    told = service.settings.documents
    return render(
        request,
        "documents/list.html",
        principal=principal,
        rows=found[:PAGE],
        filters=filters,
        statuses=STATUSES,
        colours=COLOURS,
        decided=DECIDED,
        sure=SURE,
        tone=tone,
        grouped=grouped,
        text_of=text_of,
        document_path=document_path,
        item_path=item_path,
        supported=SUPPORTED,
        largest=told.largest_file,
        largest_mb=told.largest_mb,
        older=link(DOCUMENTS, **filters, before=found[PAGE - 1].id) if len(found) > PAGE else "",
        newest=link(DOCUMENTS, **filters) if before else "",
        feed=link("/ui/live", workflow=documents.name),
    )
