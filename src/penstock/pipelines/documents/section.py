"""The places of the documents pipeline in the service: its routes, its pages under `/ui/documents`, and those of the
review queue under `/ui/review`, where other people work."""

from __future__ import annotations

from pathlib import Path

from penstock.pipelines.documents.api import router as api
from penstock.pipelines.documents.dashboard import router as pages
from penstock.pipelines.documents.dashboard.needs import link_of, needs
from penstock.pipelines.documents.exposing import families
from penstock.pipelines.documents.watching import snapshot, watch
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.service.sections import Section

section = Section(
    name="documents",
    title="Documents",
    api=api,
    pages=pages.documents,
    templates=Path(__file__).parent / "dashboard" / "templates",
    workflows=(documents.name,),
    starts=(documents, export, many, watch, snapshot),
    needs=needs,
    metrics=families,
    quiet=(watch.name, snapshot.name),
    link_of=link_of,
)

review = Section(name="review", title="Review", pages=pages.review)
