"""The API, call by call: what each reads from its request, which service does it, and how the answer is put."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.responses import Response

from penstock.gemini_local.calls import batches, caches, files, models
from penstock.gemini_local.calls.call import Call

CALLS: dict[str, Callable[[Call], Awaitable[Response]]] = {
    "upload_start": files.upload_start,
    "upload_chunk": files.upload_chunk,
    "upload_query": files.upload_query,
    "upload_cancel": files.upload_cancel,
    "file_get": files.file_get,
    "file_list": files.file_list,
    "file_delete": files.file_delete,
    "download": files.download,
    "create": batches.create,
    "get": batches.get,
    "list": batches.list_,
    "cancel": batches.cancel,
    "delete": batches.delete,
    "generate": models.generate,
    "stream": models.stream,
    "embed": models.embed,
    "count_tokens": models.count_tokens,
    "model_list": models.model_list,
    "model_get": models.model_get,
    "cache_create": caches.cache_create,
    "cache_get": caches.cache_get,
    "cache_list": caches.cache_list,
    "cache_update": caches.cache_update,
    "cache_delete": caches.cache_delete,
}
"""Who answers each of the operations of `routes.py`."""
