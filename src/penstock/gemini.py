"""What a step needs to talk to Gemini: requests for the remotes `gemini.batch`, `gemini.generate`, `gemini.embed` and
`gemini.cache`, and the rows that a batch brings home."""

from penstock.remote.gemini.batch_input import BatchRequest, BatchRow
from penstock.remote.gemini.caching import CacheRequest
from penstock.remote.gemini.requests import data, embed_request, file, generate_request, text
from penstock.remote.gemini.results import read_rows, rows_in
from penstock.remote.gemini.rows import Row, lost_file
from penstock.remote.gemini.settings import Transfers
from penstock.remote.gemini.single import EmbedRequest, GenerateRequest

__all__ = [
    "BatchRequest",
    "BatchRow",
    "CacheRequest",
    "EmbedRequest",
    "GenerateRequest",
    "Row",
    "Transfers",
    "data",
    "embed_request",
    "file",
    "generate_request",
    "lost_file",
    "read_rows",
    "rows_in",
    "text",
]
