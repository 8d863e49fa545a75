"""All pages of ingestion, under `/ui/knowledge`."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from penstock.pipelines.ingestion.dashboard import acts, contents, listing, run, searching, starting
from penstock.service.dashboard.survey import counted

router = APIRouter(dependencies=[Depends(counted)])
# A router that is included must not have an empty path, and `/ui/knowledge/` is another address.
router.add_api_route("", listing.bases_page, name="ui.knowledge")
for part in (starting, searching, contents, run, acts):
    router.include_router(part.router)
