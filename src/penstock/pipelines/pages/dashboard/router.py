"""All pages of the pipeline, under `/ui/pages`."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from penstock.pipelines.pages.dashboard import acts, batches, book, failures, page, pictures, run, runs
from penstock.service.dashboard.survey import counted

router = APIRouter(dependencies=[Depends(counted)])
# A router that is included must not have an empty path, and `/ui/pages/` is another address.
router.add_api_route("", runs.runs_page, name="ui.pages")
for part in (run, book, batches, failures, page, pictures, acts):
    router.include_router(part.router)
