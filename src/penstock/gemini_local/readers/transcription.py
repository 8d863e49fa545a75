"""Plain transcription: the text of the images and PDFs of a request, in reading order."""

from __future__ import annotations

import json

from penstock.gemini_local.backend import Answer, CannotAnswer, Prompt
from penstock.gemini_local.readers.language import language
from penstock.gemini_local.readers.page import Documents, attachments, paged
from penstock.gemini_local.readers.registry import WAY_OUT, Reader
from penstock.gemini_local.readers.schema import Schema, shape
from penstock.gemini_local.wire import field

TEXT_FIELDS = frozenset({"text", "transcription"})
KNOWN_FIELDS = TEXT_FIELDS | {"language"}


def text_field(schema: Schema) -> str | None:
    """The one field that takes the text, if the schema asks for a transcription and nothing we cannot know."""
    whole = shape(schema)
    fields = whole.get("properties", {})
    taking = [name for name in fields if name in TEXT_FIELDS]
    strings = all(kind.get("type") == "string" and "enum" not in kind for kind in fields.values())
    return taking[0] if len(taking) == 1 and strings and set(fields) <= KNOWN_FIELDS else None


async def transcribe(prompt: Prompt, documents: Documents) -> Answer:
    """Pages are set apart by an empty line, in the order in which they were sent."""
    parts = attachments(prompt)
    if not parts:
        raise CannotAnswer("There is nothing to transcribe: the request holds no image and no PDF.")
    for part in parts:
        if not paged(part):
            raise CannotAnswer(f"The local backend transcribes images and PDFs, not {part.mime}. {WAY_OUT}", code=12)
    pages = [page for part in parts for page in await documents.pages(part)]
    text = "\n\n".join(page.text for page in pages)
    if prompt.schema is None:
        return Answer(text)
    wanted = shape(prompt.schema)["properties"]
    value = {text_field(prompt.schema): text} | ({"language": language(text)} if "language" in wanted else {})
    return Answer(json.dumps(value, ensure_ascii=False))


def _wants_text(prompt: Prompt) -> bool:
    if prompt.schema is not None:
        return text_field(prompt.schema) is not None
    mime = field(prompt.config, "responseMimeType") or "text/plain"
    return mime == "text/plain" and bool(attachments(prompt))


READERS = (Reader("transcription", transcribe, matches=_wants_text),)
