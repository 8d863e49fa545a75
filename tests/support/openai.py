"""A small server that speaks OpenAI's protocol for embeddings, for tests: somebody else's paid cloud, which keeps what
it was asked, and misbehaves when it is told to."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSIONS = {"text-embedding-3-small": 1536, "nomic-embed-text": 768, "tiny": 8}

Json = dict[str, Any]


@dataclass
class Fault:
    """What is done in place of an answer: another one, none at all (`drop`), or none until `reset` (`hang`)."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "answer"


class OpenAIServer:
    def __init__(self, key: str | None) -> None:
        self.key = key
        self.asked: list[Json] = []
        self.paid = 0
        """Texts for which vectors were made, whether or not anybody got them."""
        self._faults: list[Fault] = []
        self._released = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def will(self, status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        """The next answer. Bytes are sent as they are."""
        written = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._faults.append(Fault(status, written, headers or {}))

    def refuses(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.will(status, {"error": {"message": message, "type": "some_error", "code": None}}, headers)

    def drop(self) -> None:
        """The next request is taken, and paid; its answer is lost."""
        self._faults.append(Fault(kind="drop"))

    def hang(self) -> None:
        self._faults.append(Fault(kind="hang"))

    def reset(self) -> None:
        self._released.set()
        self._released = threading.Event()
        self._faults.clear()
        self.asked.clear()
        self.paid = 0

    def answer(self, body: Json) -> Json:
        """Rows in no order, as the protocol allows: each has its place."""
        size = body.get("dimensions") or DIMENSIONS[body["model"]]
        rows = [
            {"object": "embedding", "index": place, "embedding": vector(text, size)}
            for place, text in enumerate(body["input"])
        ]
        used = sum(len(text.split()) for text in body["input"])
        usage = {"prompt_tokens": used, "total_tokens": used}
        return {"object": "list", "data": rows[::-1], "model": body["model"], "usage": usage}

    def run(self) -> None:
        self._http.serve_forever(poll_interval=0.02)

    def stop(self) -> None:
        self._released.set()
        self._http.shutdown()
        self._http.server_close()

    def _handler(server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
                if self.path != "/v1/embeddings":
                    return self.told(404, {"error": {"message": f"no such path {self.path}"}})
                if server.key is not None and self.headers.get("Authorization") != f"Bearer {server.key}":
                    return self.told(401, {"error": {"message": "Incorrect API key provided."}})
                fault = server._faults.pop(0) if server._faults else None
                if fault is not None and fault.kind == "answer":
                    return self.sent(fault.status, fault.body, fault.headers)
                if body["model"] not in DIMENSIONS:
                    return self.told(404, {"error": {"message": f"The model `{body['model']}` does not exist"}})
                if any(not text for text in body["input"]):
                    return self.told(400, {"error": {"message": "input cannot be an empty string"}})
                server.paid += len(body["input"])
                if fault is not None:
                    if fault.kind == "hang":
                        server._released.wait(30)
                    self.close_connection = True
                    return None
                return self.told(200, server.answer(body))

            def told(self, status: int, body: Json) -> None:
                self.sent(status, json.dumps(body).encode(), {})

            def sent(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Silent."""

        return Handler


def vector(text: str, size: int) -> list[float]:
    """The same for the same text, of no particular length."""
    digest = hashlib.sha256(text.encode()).digest()
    return [1.0 + digest[place % 32] + place / 7 for place in range(size)]


@contextmanager
def running_openai(key: str | None = None) -> Iterator[OpenAIServer]:
    server = OpenAIServer(key)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
