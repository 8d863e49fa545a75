"""What a reader is given besides the request: the pages of the files in it, read where they can do no harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from penstock.gemini_local.backend import Part, Prompt
from penstock.paper.page import Page


class Documents(Protocol):
    """What a reader may ask for. Whatever it costs is done in another process, with limits."""

    async def pages(self, part: Part) -> list[Page]:
        """The pages of an image or a PDF. `CannotAnswer` where it is neither, damaged or too large."""
        ...

    async def run(self, function: str, args: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> tuple[Any, list[bytes]]:
        """Call `module:function` of the reader's own in the pool, with JSON and bytes in and out."""
        ...


def attachments(prompt: Prompt) -> list[Part]:
    """The parts of a request that are not its text, in order."""
    return [part for part in prompt.parts if part.data is not None or part.file is not None]


def paged(part: Part) -> bool:
    """Whether the part says that it is an image or a PDF (or does not say what it is)."""
    mime = (part.mime or "").partition(";")[0].strip().lower()
    return mime.startswith("image/") or mime in ("application/pdf", "application/x-pdf", "application/octet-stream", "")
