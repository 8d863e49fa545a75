"""Models and single answers, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from penstock.gemini_local.calls.call import Call, reply
from penstock.gemini_local.catalog import MODELS, Model, find_model
from penstock.gemini_local.errors import bad_request, error_body
from penstock.gemini_local.paging import page_size
from penstock.gemini_local.wire import Json, field

STREAM_PIECE = 120
"""Characters in one event of a stream."""


async def model_list(call: Call) -> Response:
    size = page_size(call.query.get("pageSize"), default=50, most=1000)
    token = call.query.get("pageToken") or "0"
    if not token.isdecimal() or len(token) > 9:
        raise bad_request("Page token is not valid.")
    first = int(token)
    models = list(MODELS.values())
    view: Json = {"models": [model.view() for model in models[first : first + size]]}
    if first + size < len(models):
        view["nextPageToken"] = str(first + size)
    return reply(view)


async def model_get(call: Call) -> Response:
    return reply(_model(call).view())


async def generate(call: Call) -> Response:
    return reply(await _generate(call))


async def stream(call: Call) -> Response:
    """The answer in pieces: server-sent events, or a JSON list where those were not asked for."""
    pieces = list(_pieces(await _generate(call)))
    if call.query.get("alt") == "sse":
        if (broken := call.fault("stream_error")) is not None:
            pieces = [*pieces[:1], error_body(int(broken.option("code")), broken.option("message"))]
        events = b"".join(b"data: " + to_json(piece) + b"\r\n\r\n" for piece in pieces)
        return Response(events, media_type="text/event-stream")
    return reply(pieces)


async def embed(call: Call) -> Response:
    model = _model(call)
    if not model.embeds:
        raise bad_request(f"models/{model.id} does not support {call.match.verb}.")
    requests = [call.body] if call.match.verb == "embedContent" else field(call.body, "requests", list, [])
    if not requests:
        raise bad_request("* BatchEmbedContentsRequest.requests: requests is required")
    if not all(isinstance(request, dict) for request in requests):
        raise bad_request("Invalid JSON payload received: a request is an object.")
    found = await call.services.answering.embed(model.id, requests, _faults(call))
    vectors = [{"values": values} for values, _ in found]
    usage = {"promptTokenCount": sum(tokens for _, tokens in found)}
    if call.match.verb == "embedContent":
        return reply({"embedding": vectors[0], "usageMetadata": usage})
    return reply({"embeddings": vectors, "usageMetadata": usage})


async def count_tokens(call: Call) -> Response:
    return reply(call.services.answering.count_tokens(_model(call).id, call.body))


async def _generate(call: Call) -> Json:
    model = _model(call)
    if model.embeds:
        raise bad_request(f"models/{model.id} does not support {call.match.verb}.")
    return await call.services.answering.generate(model.id, call.body, _faults(call))


def _faults(call: Call) -> tuple[Any, ...]:
    faults = call.services.faults.take(call.match.operation, call.match.id, ("row",))
    for fault in faults:
        call.entry.add_fault(fault.kind)
    return faults


def _model(call: Call) -> Model:
    return find_model(call.match.id, any_model=call.services.settings.any_model, version=call.match.version)


def _pieces(response: Json) -> Iterator[Json]:
    """Only the last piece says why it ended and what it cost."""
    candidates = response.get("candidates") or [{}]
    content = candidates[0].get("content")
    if content is None:
        yield response
        return
    text = content["parts"][0]["text"]
    cuts = [text[at : at + STREAM_PIECE] for at in range(0, len(text), STREAM_PIECE)]
    for cut in cuts[:-1]:
        piece = {"content": {"parts": [{"text": cut}], "role": "model"}, "index": 0}
        yield {"candidates": [piece], "modelVersion": response["modelVersion"], "responseId": response["responseId"]}
    last = {**candidates[0], "content": {"parts": [{"text": cuts[-1]}], "role": "model"}}
    yield {**response, "candidates": [last]}
