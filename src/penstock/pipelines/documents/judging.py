"""How a judgement crosses from the process that makes it: as JSON, which is checked on this side."""

from __future__ import annotations

from pydantic import TypeAdapter

from penstock.pipelines.documents.checks import Judgement, Source

__all__ = ["JUDGEMENT", "Judgement", "Source"]

JUDGEMENT = TypeAdapter(Judgement)
