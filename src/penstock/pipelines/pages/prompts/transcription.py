"""The plain text of a page, and nothing else."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Transcription(BaseModel):
    """One page."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(description="The text of the page as printed, an empty line between paragraphs.")
