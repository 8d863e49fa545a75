"""Cached contents, call by call."""

from __future__ import annotations

from starlette.responses import Response

from penstock.gemini_local.calls.call import Call, reply
from penstock.gemini_local.catalog import find_model
from penstock.gemini_local.paging import decode_token, page_size
from penstock.gemini_local.wire import field


async def cache_create(call: Call) -> Response:
    services = call.services
    model = find_model(field(call.body, "model", str, ""), any_model=services.settings.any_model)
    return reply(services.caches.create(model.id, call.body, services.answering.find_file).view())


async def cache_get(call: Call) -> Response:
    return reply(call.services.caches.get(_name(call)).view())


async def cache_list(call: Call) -> Response:
    size = page_size(call.query.get("pageSize"), default=50, most=1000)
    return reply(call.services.caches.page(decode_token(call.query.get("pageToken")), size))


async def cache_update(call: Call) -> Response:
    return reply(call.services.caches.prolong(_name(call), call.body).view())


async def cache_delete(call: Call) -> Response:
    call.services.caches.delete(_name(call))
    return reply({})


def _name(call: Call) -> str:
    return f"cachedContents/{call.match.id}"
