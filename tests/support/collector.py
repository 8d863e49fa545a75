"""A collector of traces on loopback: takes OTLP over HTTP as the real ones do, and keeps what it was told."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE = 30.0


@dataclass(frozen=True)
class Told:
    """One span."""

    service: str
    name: str
    kind: int
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    status: int
    events: tuple[dict[str, Any], ...]
    links: tuple[tuple[str, str], ...]
    began: int
    ended: int


class Collector:
    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self.paths: set[str] = set()
        self.spans: list[Told] = []

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def named(self, name: str) -> list[Told]:
        return [span for span in self.spans if span.name == name]

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"no {what} among {[span.name for span in self.spans]}"
            time.sleep(0.02)


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.paths.add(self.path)
            collector.spans.extend(spans_of(ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def spans_of(request: Any) -> Iterator[Told]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Told(
                    service=service,
                    name=span.name,
                    kind=span.kind,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    attributes=_attributes(span.attributes),
                    status=span.status.code,
                    events=tuple(_attributes(event.attributes) for event in span.events),
                    links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
