"""The backend for OpenAI-compatible servers, against a real HTTP server that speaks their wire."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from PIL import Image
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from penstock.gemini_local.backend import Answer, CannotAnswer, Part, Prompt, Turn
from penstock.gemini_local.backends import make_backend
from penstock.gemini_local.backends.openai import OpenAIBackend


@dataclass
class Server:
    """Keeps what it was asked, and answers what it was told to."""

    url: str = ""
    models: list[str] = field(default_factory=lambda: ["small-vision"])
    asked: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    reply: Callable[[], Awaitable[Response]] | None = None

    async def answer(self, request: Request) -> Response:
        body = json.loads(await request.body()) if request.method == "POST" else {}
        self.asked.append((request.url.path, body, dict(request.headers)))
        if self.reply is not None:
            return await self.reply()
        if request.url.path == "/v1/models":
            return JSONResponse({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})
        if request.url.path == "/v1/embeddings":
            rows = [{"index": n, "embedding": [3.0 + n, 4.0, 12.0]} for n, _ in enumerate(body["input"])]
            return JSONResponse({"object": "list", "data": rows[::-1]})
        return JSONResponse(completion("Hello."))

    def will(self, body: Any, status: int = 200) -> None:
        async def reply() -> Response:
            return JSONResponse(body, status) if not isinstance(body, bytes) else Response(body, status)

        self.reply = reply

    @property
    def body(self) -> dict[str, Any]:
        return self.asked[-1][1]


def completion(content: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 2}},
    }


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    server = Server()
    listening = socket.create_server(("127.0.0.1", 0))
    routes = [Route("/{path:path}", server.answer, methods=["GET", "POST"])]
    config = uvicorn.Config(Starlette(routes=routes), log_level="warning", ws="none", lifespan="off")
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
    thread.start()
    server.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    yield server
    serving.should_exit = True
    thread.join()
    listening.close()


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    running.reply, running.models = None, ["small-vision"]
    running.asked.clear()
    yield running


def generate(url: str, prompt: Prompt, **options: Any) -> Answer:
    async def run() -> Answer:
        backend = OpenAIBackend(url, **options)
        try:
            return await backend.generate(prompt)
        finally:
            await backend.close()

    return asyncio.run(run())


def embed(url: str, texts: list[str], dimensions: int | None = None, **options: Any) -> list[list[float]]:
    async def run() -> list[list[float]]:
        backend = OpenAIBackend(url, **options)
        try:
            return await backend.embed("gemini-embedding-001", texts, dimensions=dimensions, task="RETRIEVAL_QUERY")
        finally:
            await backend.close()

    return asyncio.run(run())


def asking(*parts: Part, **options: Any) -> Prompt:
    return Prompt("gemini-2.5-flash", (Turn("user", parts or (Part(text="Hi"),)),), **options)


def test_a_conversation_arrives_as_messages(server: Server) -> None:
    turns = (
        Turn("user", (Part(text="One"), Part(text="Two"))),
        Turn("model", (Part(text="Three"),)),
        Turn("user", (Part(text="Four"),)),
    )
    config = {
        "temperature": 0.0,
        "topP": 0.9,
        "max_output_tokens": 50,
        "stopSequences": ["END"],
        "seed": 7,
        "topK": 40,
    }
    answer = generate(
        server.url, Prompt("gemini-2.5-flash", turns, system="Be brief.", config=config), api_key="secret"
    )
    assert answer == Answer("Hello.", prompt_tokens=11, output_tokens=5, thought_tokens=2)
    path, body, headers = server.asked[-1]
    assert path == "/v1/chat/completions" and headers["authorization"] == "Bearer secret"
    assert body == {
        "model": "small-vision",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "One\nTwo"},
            {"role": "assistant", "content": "Three"},
            {"role": "user", "content": "Four"},
        ],
        "temperature": 0.0,
        "top_p": 0.9,
        "max_tokens": 50,
        "stop": ["END"],
        "seed": 7,
    }


def test_pictures_arrive_as_they_are_and_pdfs_as_pictures(server: Server, tmp_path: Path) -> None:
    png, pdf, page = io.BytesIO(), io.BytesIO(), Image.new("L", (300, 400), 255)
    page.save(png, "PNG")
    page.save(pdf, "PDF", save_all=True, append_images=[page])
    (tmp_path / "page.png").write_bytes(png.getvalue())
    generate(
        server.url + "/v1/",
        asking(
            Part(text="Read"),
            Part(mime="image/png", file=tmp_path / "page.png"),
            Part(mime="application/pdf", data=pdf.getvalue()),
            Part(mime="text/plain", data=b"attached"),
        ),
    )
    text, picture, first, second, attached = server.body["messages"][0]["content"]
    assert text == {"type": "text", "text": "Read"} and attached["text"] == "attached"
    assert picture["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(png.getvalue()).decode()
    for drawn in (first, second):
        head, _, data = drawn["image_url"]["url"].partition(",")
        assert head == "data:image/jpeg;base64"
        assert Image.open(io.BytesIO(base64.b64decode(data))).format == "JPEG"


class Row(BaseModel):
    name: str
    total: float | None


class Loose(BaseModel):
    note: str = ""


def test_a_schema_is_passed_on_as_json_schema(server: Server) -> None:
    gemini = {
        "type": "OBJECT",
        "title": "Row",
        "properties": {"total": {"type": "NUMBER", "nullable": True}, "name": {"type": "STRING"}},
        "property_ordering": ["name", "total"],
        "required": ["name", "total"],
    }
    generate(server.url, asking(schema=gemini))
    told = server.body["response_format"]
    assert told["type"] == "json_schema" and told["json_schema"]["strict"] is True
    assert told["json_schema"]["schema"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "total": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
        "required": ["name", "total"],
        "additionalProperties": False,
    }
    generate(server.url, asking(schema=Row.model_json_schema()))
    assert server.body["response_format"] == told, "the same model in two forms is passed on in two"
    generate(server.url, asking(schema=Loose.model_json_schema()))
    assert server.body["response_format"]["json_schema"]["strict"] is False
    generate(server.url, asking(config={"responseMimeType": "application/json"}))
    assert server.body["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (completion("cut", "length"), ("cut", "MAX_TOKENS", None)),
        (completion("half", "content_filter"), ("", "SAFETY", "SAFETY")),
        (completion(None, refusal="I will not."), ("", "SAFETY", "SAFETY")),
        (completion("", "stop"), ("", "STOP", None)),
        (completion("done", "eos_token"), ("done", "OTHER", None)),
    ],
)
def test_why_it_stopped_is_told_in_geminis_words(
    server: Server, body: Any, expected: tuple[str, str, str | None]
) -> None:
    server.will(body)
    answer = generate(server.url, asking(), model="m")
    assert (answer.text, answer.finish, answer.blocked) == expected


def test_an_answer_without_usage_leaves_the_counting_to_the_server(server: Server) -> None:
    server.will({"choices": [{"message": {"content": [{"type": "text", "text": "Hi"}]}}]})
    assert generate(server.url, asking(), model="m") == Answer("Hi")


@pytest.mark.parametrize(
    ("status", "body", "code", "says"),
    [
        (429, {"error": {"message": "slow down", "type": "rate"}}, 8, "429: slow down"),
        (503, b"loading model", 14, "503: loading model"),
        (500, {"detail": "out of memory"}, 14, "out of memory"),
        (400, {"error": "image too large"}, 3, "400: image too large"),
        (401, {"error": {"message": "bad key"}}, 3, "API key"),
        (404, {"error": {"message": "no such model"}}, 3, "the name of the model"),
        (200, b"<html>", 13, "did not answer with JSON"),
        (200, {"choices": []}, 13, "no choice"),
        (200, completion(None, "tool_calls"), 13, "tool_calls"),
    ],
)
def test_what_goes_wrong_there_is_told_here(server: Server, status: int, body: Any, code: int, says: str) -> None:
    server.will(body, status)
    with pytest.raises(CannotAnswer, match=says) as refused:
        generate(server.url, asking(), model="m")
    assert refused.value.code == code


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(CannotAnswer, match=f"Nothing answers at {url}/v1 .*Check that the server runs") as refused:
        generate(url, asking(), model="m")
    assert refused.value.code == 14


def test_a_server_that_does_not_answer_in_time_is_given_up(server: Server) -> None:
    async def never() -> Response:
        await asyncio.sleep(1.0)
        return JSONResponse({})

    server.reply = never
    with pytest.raises(CannotAnswer, match="did not answer in time") as refused:
        generate(server.url, asking(), model="m", timeout=0.1)
    assert refused.value.code == 4


def test_what_the_wire_has_no_word_for_is_refused(server: Server) -> None:
    for prompt in (asking(raw={"tools": [{"googleSearch": {}}]}), asking(Part(mime="video/mp4", data=b"x"))):
        with pytest.raises(CannotAnswer) as refused:
            generate(server.url, prompt, model="m")
        assert refused.value.code == 12
    assert server.asked == [], "something was sent"


def test_the_model_is_the_one_asked_for_or_the_only_one_or_the_one_configured(server: Server) -> None:
    server.models = ["other", "gemini-2.5-flash"]
    generate(server.url, asking())
    assert server.body["model"] == "gemini-2.5-flash"
    server.models = ["a", "b"]
    with pytest.raises(CannotAnswer, match=r"it has a, b\. Name one: openai:http.*#MODEL"):
        generate(server.url, asking())

    async def named() -> Answer:
        backend = make_backend(f"openai:{server.url}/v1#b")
        try:
            return await backend.generate(asking())
        finally:
            await backend.close()

    asyncio.run(named())
    assert server.body["model"] == "b"


def test_embeddings_come_in_the_order_of_the_texts_and_are_cut_here(server: Server) -> None:
    assert embed(server.url, ["a", "b"], model="e") == [[3.0, 4.0, 12.0], [4.0, 4.0, 12.0]]
    assert server.body == {"model": "e", "input": ["a", "b"], "encoding_format": "float"}
    assert embed(server.url, ["a"], 2, model="e") == [[0.6, 0.8]]
    assert math.isclose(math.hypot(*embed(server.url, ["a"], 3, model="e")[0]), 1.0)
    with pytest.raises(CannotAnswer, match="3 dimensions; 768"):
        embed(server.url, ["a"], 768, model="e")
    for wrong, says in (({"data": [{"index": 0}]}, "cannot be understood"), ({"data": []}, "0 embeddings for 1")):
        server.will(wrong)
        with pytest.raises(CannotAnswer, match=says):
            embed(server.url, ["a"], model="e")
