"""One document: what it says and how sure that is, beside its pages, with all that was done about it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from penstock.pipelines.documents import asking, queue, reading
from penstock.pipelines.documents.dashboard.listing import COLOURS, SURE
from penstock.pipelines.documents.dashboard.places import (
    DECIDED,
    DOCUMENTS,
    TITLES,
    document_path,
    item_path,
    preview_path,
    title_of,
)
from penstock.pipelines.documents.dashboard.same import same_content
from penstock.pipelines.documents.dashboard.showing import COLUMNS, fields, text_of, tone
from penstock.pipelines.documents.workflow import documents
from penstock.service.access.guard import Operator, Reader, Reviewer
from penstock.service.dashboard.acting import asked
from penstock.service.dashboard.rendering import is_partial, link, render
from penstock.service.state import Serving

router = APIRouter()

Back = Annotated[str, Form(max_length=2000)]
Page = Annotated[int, Query(ge=1, le=1000)]


@router.get("/{document_id}", name="ui.documents.document")
async def document_page(
    request: Request, service: Serving, principal: Reader, document_id: str, page: Page = 1
) -> Response:
    engine = service.penstock.engine
    detail = await reading.document(engine, document_id, tenant=principal.tenant)
    found = detail.document
    return render(
        request,
        "documents/document.html",
        principal=principal,
        detail=detail,
        same=await same_content(engine, found),
        document=found,
        result=detail.result,
        title=title_of(found),
        fields=fields(detail),
        columns=COLUMNS,
        titles=TITLES,
        page=min(page, found.pages or 1),
        audit=list(reversed(await reading.audit(engine, document=document_id))),
        colours=COLOURS,
        decided=DECIDED,
        sure=SURE,
        tone=tone,
        text_of=text_of,
        document_path=document_path,
        item_path=item_path,
        preview=preview_path(document_id),
        feed=link("/ui/live", workflow=documents.name),
    )


@router.post("/{document_id}/re-extract", name="ui.documents.re_extract")
async def extract_again(
    request: Request, service: Serving, principal: Operator, document_id: str, back: Back = ""
) -> Response:
    doing = asking.extract_again(
        service.penstock, service.settings, document_id, tenant=principal.tenant, actor=principal.actor
    )
    return await asked(request, back or document_path(document_id), doing, "it is read once more")


@router.post("/{document_id}/delete", name="ui.documents.delete")
async def delete(
    request: Request,
    service: Serving,
    principal: Operator,
    document_id: str,
    confirmed: Annotated[str, Form(max_length=5)] = "",
) -> Response:
    """Asks first: in a dialog where there is a script, on a page where there is none."""
    if not confirmed:
        detail = await reading.document(service.penstock.engine, document_id, tenant=principal.tenant)
        return render(
            request, "documents/delete.html", principal=principal, document=detail.document, path=document_path
        )
    doing = asking.forget(service.penstock, document_id, tenant=principal.tenant, actor=principal.actor)
    answer = await asked(request, DOCUMENTS, doing, "the document and all that was stored of it are deleted")
    if is_partial(request):
        # The page it stood on is about nothing any more: the browser leaves it.
        answer.headers["HX-Redirect"] = answer.headers["location"]
        del answer.headers["location"]
        answer.status_code = 204
    return answer


@router.post("/{document_id}/fields/{name}/unlock", name="ui.documents.unlock")
async def unlock(
    request: Request, service: Serving, principal: Reviewer, document_id: str, name: str, back: Back = ""
) -> Response:
    doing = queue.unlock(service.penstock.engine, document_id, name, actor=principal.actor, tenant=principal.tenant)
    title = next((words for field, words in TITLES.items() if field == name), name)
    return await asked(request, back or document_path(document_id), doing, f"{title} is what was extracted again")
