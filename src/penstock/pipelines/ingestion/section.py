"""The place of ingestion in the service: its routes, and its pages under `/ui/knowledge`."""

from __future__ import annotations

from pathlib import Path

from penstock.pipelines.ingestion.api import router as api
from penstock.pipelines.ingestion.dashboard.needs import needs
from penstock.pipelines.ingestion.dashboard.places import link_of
from penstock.pipelines.ingestion.dashboard.router import router as dashboard
from penstock.pipelines.ingestion.exposing import families
from penstock.pipelines.ingestion.workflow import ALL, ingestion, purge, refresh
from penstock.service.sections import Section

section = Section(
    name="knowledge",
    title="Knowledge",
    api=api,
    pages=dashboard,
    templates=Path(__file__).parent / "dashboard" / "templates",
    workflows=(ingestion.name,),
    starts=ALL,
    needs=needs,
    metrics=families,
    quiet=(purge.name, refresh.name),
    link_of=link_of,
)
