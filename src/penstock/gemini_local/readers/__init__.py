"""How the local backend answers: readers, each for the response schemas it knows, over pages that were read for it."""

from penstock.gemini_local.readers.page import Documents, attachments, paged
from penstock.gemini_local.readers.registry import Reader, Registry, all_readers
from penstock.gemini_local.readers.schema import described, fingerprint, shape
from penstock.paper.page import Box, Line, Page, Word

__all__ = [
    "Box",
    "Documents",
    "Line",
    "Page",
    "Reader",
    "Registry",
    "Word",
    "all_readers",
    "attachments",
    "described",
    "fingerprint",
    "paged",
    "shape",
]
