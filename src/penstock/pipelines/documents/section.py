"""The place of the documents pipeline in the service: its routes, and its pages under `/ui/documents`."""

from __future__ import annotations

from penstock.pipelines.documents.api import router as api
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.service.sections import Section

section = Section(
    name="documents",
    title="Documents",
    api=api,
    workflows=(documents.name,),
    starts=(documents, export, many),
)
