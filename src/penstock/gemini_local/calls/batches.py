"""Batches, call by call."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from penstock.gemini_local.batches import in_blob
from penstock.gemini_local.calls.call import Call, reply
from penstock.gemini_local.catalog import find_model
from penstock.gemini_local.errors import bad_request
from penstock.gemini_local.operations import CANCELLED
from penstock.gemini_local.paging import decode_token, page_size
from penstock.gemini_local.rows import scan
from penstock.gemini_local.wire import Json, field, file_name


async def create(call: Call) -> Response:
    services = call.services
    embeds = call.match.verb == "asyncBatchEmbedContent"
    model = find_model(call.match.id, any_model=services.settings.any_model, version=call.match.version)
    if model.embeds is not embeds:
        raise bad_request(f"models/{model.id} does not support {call.match.verb}.")
    about = field(call.body, "batch", dict)
    if about is None:
        raise bad_request("* BatchGenerateContentRequest.batch: batch is required")
    services.expire_batches()
    id = services.batches.new_id()
    path = services.state.blob(in_blob(id))
    inline = await _put_input(call, field(about, "inputConfig", dict, {}), path)
    try:
        rows, tokens = await services.in_thread(scan, path, services.settings.quotas.line_bytes)
        if not rows:
            raise bad_request("The batch has no requests.")
        title = field(about, "displayName", str, "")
        faults = services.faults.take("create", title, ("job", "row", "result"))
        for fault in faults:
            call.entry.add_fault(fault.kind)
        batch = services.batches.create(
            id,
            embeds=embeds,
            inline=inline,
            model=model.id,
            title=title,
            rows=rows,
            tokens=tokens,
            faults=faults,
            entry=call.entry,
        )
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    services.runner.start(batch)
    return reply(services.batches.view(batch))


async def get(call: Call) -> Response:
    call.services.expire_batches()
    return reply(call.services.batches.view(call.services.batches.get(call.match.id)))


async def list_(call: Call) -> Response:
    call.services.expire_batches()
    size = page_size(call.query.get("pageSize") or call.query.get("page_size"), default=50, most=1000)
    before = decode_token(call.query.get("pageToken") or call.query.get("page_token"))
    return reply(call.services.batches.page(before, size))


async def cancel(call: Call) -> Response:
    """What has ended stays as it is."""
    batch = call.services.batches.get(call.match.id)
    if call.services.batches.end(batch.id, CANCELLED):
        call.services.runner.stop(batch.id)
    return reply({})


async def delete(call: Call) -> Response:
    call.services.batches.delete(call.match.id)
    return reply({})


async def _put_input(call: Call, config: Json, path: Path) -> bool:
    """Bring the input to where the runner reads it. True: it came with the request."""
    services = call.services
    if (name := field(config, "fileName", str)) is not None:
        source = services.files.path(services.files.usable(file_name(name)))
        await services.in_thread(_link, source, path)
        return False
    requests = field(field(config, "requests", dict, {}), "requests", list)
    if requests is None:
        raise bad_request("* BatchGenerateContentRequest.batch.input_config: file_name or requests is required")
    if call.entry.size > services.settings.quotas.inline_bytes:
        raise bad_request(f"Request payload size exceeds the limit: {services.settings.quotas.inline_bytes} bytes.")
    await services.in_thread(_write_lines, path, requests)
    return True


def _link(source: Path, path: Path) -> None:
    """The input outlives the file it came from."""
    try:
        os.link(source, path)
    except OSError:
        shutil.copyfile(source, path)


def _write_lines(path: Path, rows: list[Any]) -> None:
    with path.open("wb") as file:
        for row in rows:
            file.write(to_json(row) + b"\n")
        file.flush()
        os.fsync(file.fileno())
