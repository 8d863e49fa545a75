"""The sample site, served on this machine as long as the demo's program needs it. It knows of conditional requests, and
can be told to keep whoever asks waiting."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from penstock.ingestion import Site
from penstock.pipelines.ingestion.samples import render_html

PATIENCE = 60.0
"""Seconds for which an answer is kept back at most."""


@dataclass(slots=True)
class Held:
    """A page for which there is no answer yet. The first time it is asked for, the server is busy: what came before is
    indexed then, and the page is asked for again."""

    path: str
    refused: bool = False
    _reached: threading.Event = field(default_factory=threading.Event)
    _free: threading.Event = field(default_factory=threading.Event)

    async def reached(self) -> None:
        """Until somebody waits for the page."""
        if not await asyncio.to_thread(self._reached.wait, PATIENCE):
            raise TimeoutError(f"nobody has asked for {self.path}")

    def let_go(self) -> None:
        self._free.set()

    def asked(self) -> bool:
        """Whether there is an answer now. Blocks until there is one."""
        if not self.refused:
            self.refused = True
            return False
        self._reached.set()
        self._free.wait(PATIENCE)
        return True


class ServedSite:
    """`given` counts how often each page was sent."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self.given: Counter[str] = Counter()
        self.held: Held | None = None
        self.pages: dict[str, bytes] = {}
        self._render()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="demo-website", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.held is not None:
            self.held.let_go()
        self._server.shutdown()
        self._server.server_close()

    def hold(self, number: int) -> Held:
        """Keep back the page that comes as number so-many, counted from 1."""
        self.held = Held(self._site.pages[number - 1].url_path)
        return self.held

    def change(self, page: str, old: str, new: str) -> None:
        path = self._site.folder / page
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
        self._render()

    def _render(self) -> None:
        self.pages = render_html(self._site, base=self.url.rstrip("/"))


def _handler(served: ServedSite) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            held = served.held
            if held is not None and self.path == held.path and not held.asked():
                self._answer(503)
                return
            body = served.pages.get(self.path)
            if body is None:
                self._answer(404)
                return
            tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            if self.headers.get("If-None-Match") == tag:
                self._answer(304, tag)
                return
            served.given[self.path] += not self.path.endswith((".txt", ".xml"))
            self._answer(200, tag, body)

        def _answer(self, status: int, tag: str = "", body: bytes = b"") -> None:
            self.send_response(status)
            if tag:
                self.send_header("ETag", tag)
            kind = "text/plain" if self.path.endswith((".txt", ".xml")) else "text/html; charset=utf-8"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    return Handler
