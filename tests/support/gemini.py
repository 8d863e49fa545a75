"""A real local Gemini, in a process of its own, for tests: looked into, told to misbehave, killed and started again."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from google import genai
from google.genai import types

from penstock.gemini_local.server import Running

PATIENCE = 30.0


class Gemini:
    """The server of a folder. `settings` are those of `read_settings`, flat."""

    def __init__(self, home: Path, *, backend: str, settings: Mapping[str, Any], seed: int, key: str | None) -> None:
        self.home = home
        self._backend = backend
        self._settings = dict(settings)
        self._seed = seed
        self._key = key
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.home / "server.log").read_text()

    def start(self) -> None:
        """Start it, on the port it had before."""
        reading, writing = os.pipe()
        command = [
            sys.executable, "-m", "penstock.gemini_local", "--home", str(self.home), "--backend", self._backend,
            "--port", str(self._port), "--seed", str(self._seed), "--settings", json.dumps(self._settings),
            "--ready-fd", str(writing),
        ]  # fmt: skip
        environment = os.environ | ({"PENSTOCK_GEMINI_KEY": self._key} if self._key else {})
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, pass_fds=(writing,))
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], PATIENCE)
        said = os.read(reading, 4096) if ready else b""
        os.close(reading)
        if not said:
            self.kill()
            raise AssertionError(f"the local Gemini did not start:\n{self.log}")
        self._port = Running(**json.loads(said)).port

    def kill(self) -> None:
        """As a power cut would end it."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        if self._process is not None:
            self.stop()
        self.start()

    def set(self, **settings: Any) -> None:
        """Settings for the next start."""
        self._settings |= settings

    def client(self, **options: Any) -> genai.Client:
        return genai.Client(
            api_key=self._key or "a key", http_options=types.HttpOptions(base_url=self.url, timeout=30_000, **options)
        )

    def journal(self, *, method: str = "", path: str = "", operation: str = "") -> list[dict[str, Any]]:
        query = urlencode({"method": method, "path": path, "operation": operation})
        entries: list[dict[str, Any]] = self.admin("GET", f"journal?{query}")["entries"]
        return entries

    def faults(self, faults: list[dict[str, Any]]) -> None:
        self.admin("POST", "faults", {"faults": faults})

    def script(self, rules: list[dict[str, Any]], default: dict[str, Any] | None = None) -> None:
        self.admin("POST", "script", {"rules": rules, "default": default or {}})

    def advance(self, seconds: float) -> None:
        self.admin("POST", "clock", {"advance": seconds})

    def reset(self) -> None:
        self.admin("POST", "reset")

    def health(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.admin("GET", "health")
        return answer

    def upload(self, content: bytes, *, mime: str = "application/jsonl", title: str = "") -> str:
        """Put a file there in one chunk; returns its name."""
        start = {
            "x-goog-api-key": self._key or "a key",
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(len(content)),
            "X-Goog-Upload-Header-Content-Type": mime,
        }
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
        try:
            connection.request("POST", "/upload/v1/files", json.dumps({"file": {"displayName": title}}), start)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            url = urlsplit(answer.headers["X-Goog-Upload-URL"])
            chunk = {"X-Goog-Upload-Command": "upload, finalize", "X-Goog-Upload-Offset": "0"}
            connection.request("POST", f"{url.path}?{url.query}", content, chunk)
            name: str = json.loads(connection.getresponse().read())["file"]["name"]
            return name
        finally:
            connection.close()

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.http(method, f"/_penstock/{path}", body, headers={"X-Penstock-Admin": "1"})
        assert status == 200, answer
        return answer

    def http(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """A request with nothing between: the code, and the answer's JSON where it is some."""
        status, content = self.raw(method, path, body, headers)
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content

    def raw(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
        try:
            raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
            connection.request(method, path, raw, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _end(self, how: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(how)
        code = self._process.wait(PATIENCE)
        self._process = None
        return code


@contextmanager
def running_gemini(
    home: Path | None = None, *, backend: str = "script", seed: int = 1, key: str | None = None, **settings: Any
) -> Iterator[Gemini]:
    """A server in `home` (or a folder that goes with it), with settings such as `pending_for=1`."""
    with tempfile.TemporaryDirectory(prefix="penstock-gemini-") as folder:
        gemini = Gemini(home or Path(folder), backend=backend, settings=settings, seed=seed, key=key)
        try:
            yield gemini
        finally:
            gemini.kill()
