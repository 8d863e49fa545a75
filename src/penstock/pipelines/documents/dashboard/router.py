"""All pages of the pipeline: `documents` under `/ui/documents`, `review` under `/ui/review`."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from penstock.pipelines.documents.dashboard import deciding, document, listing, queueing, reviewing
from penstock.service.dashboard.survey import counted

documents = APIRouter(dependencies=[Depends(counted)])
review = APIRouter(dependencies=[Depends(counted)])
# A router that is included must not have an empty path, and `/ui/documents/` is another address.
documents.add_api_route("", listing.documents_page, name="ui.documents")
documents.include_router(document.router)
review.add_api_route("", queueing.queue_page, name="ui.review")
for part in (queueing, deciding, reviewing):
    review.include_router(part.router)
