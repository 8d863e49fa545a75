"""The place of the pages pipeline in the service: its routes, and its pages under `/ui/pages`."""

from __future__ import annotations

from pathlib import Path

from penstock.pipelines.pages.api import router as api
from penstock.pipelines.pages.dashboard.needs import link_of, needs
from penstock.pipelines.pages.dashboard.router import router as dashboard
from penstock.pipelines.pages.workflow import pages
from penstock.service.sections import Section

section = Section(
    name="pages",
    title="Pages",
    api=api,
    pages=dashboard,
    templates=Path(__file__).parent / "dashboard" / "templates",
    workflows=(pages.name,),
    starts=(pages,),
    needs=needs,
    link_of=link_of,
)
