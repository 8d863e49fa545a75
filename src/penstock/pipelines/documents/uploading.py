"""Files that come over HTTP: parsed as they arrive, told apart by their first bytes, and written beside their place, in
threads. A request that breaks off, or of which one file is refused, leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from penstock.engine.engine import Engine
from penstock.engine.errors import CommitUnknown, StoreError, Transient
from penstock.pipelines.documents.contents import Kept, Receiving, display_name, receive
from penstock.pipelines.documents.kinds import HEAD, kind_of, refusal
from penstock.service.api.problems import Problem

MOST_FILES = 200
"""In one request."""

AT_ONCE = 256 * 1024
"""Bytes that are gathered before a thread is asked to write them."""

HARMLESS = frozenset({"csrf"})
"""Fields of a form that may come along with the files."""


class Incoming:
    """The files of one request. `feed` and `finish` are for threads, one at a time; after `abandon` nothing is written
    any more, and what was is gone."""

    def __init__(self, boundary: bytes, place: Callable[[str], Receiving], *, largest: int) -> None:
        self.kept: list[Kept] = []
        self._place = place
        self._largest = largest
        self._files = 0
        self._ended = False
        self._abandoned = False
        self._lock = threading.Lock()
        self._open = ExitStack()
        self._header = self._value = self._disposition = b""
        self._begin_part()
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._begin_file,
                "on_part_data": self._data,
                "on_part_end": self._end_part,
                "on_end": self._end,
            },
        )

    def feed(self, some: bytes) -> None:
        with self._lock:
            if not self._abandoned:
                self._parser.write(some)

    def finish(self) -> None:
        with self._lock:
            if not self._ended:
                raise broken_off()
            if not self.kept:
                raise Problem(400, "there is no file in the form: send each as a part with a filename")

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            self._open.close()
            remove([each.path for each in self.kept])

    def _begin_part(self) -> None:
        self._header = self._value = self._disposition = b""
        self._name: str | None = None
        self._head = bytearray()
        self._size = 0
        self._receiving: Receiving | None = None

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _begin_file(self) -> None:
        _, options = parse_options_header(self._disposition)
        filename = options.get(b"filename")
        if filename is not None:
            self._name = filename.decode(errors="replace")
        elif (field := options.get(b"name", b"").decode(errors="replace")) not in HARMLESS:
            raise Problem(400, f"the field {field[:80]!r} is no file: send files only, each as a part with a filename")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name is None:
            return
        some = data[start:end]
        self._size += len(some)
        if self._size > self._largest:
            words = f"{self._shown}: The file has more than {self._largest / 1e6:g} MB: send it smaller, or in parts."
            raise Problem(413, words, headers={"Connection": "close"})
        if self._receiving is not None:
            self._receiving.write(some)
            return
        self._head += some
        if len(self._head) >= HEAD:
            self._receive()

    def _receive(self) -> None:
        """What it is, is known: there is a place for it."""
        assert self._name is not None
        head = bytes(self._head)
        if kind_of(head[:HEAD]) is None:
            raise Problem(400, f"{self._shown}: {refusal(head[:HEAD])}")
        self._files += 1
        if self._files > MOST_FILES:
            raise Problem(
                413, f"at most {MOST_FILES} files are taken at once: send the others in a request of their own"
            )
        self._receiving = self._open.enter_context(self._place(self._name))
        self._receiving.write(head)

    def _end_part(self) -> None:
        # What a browser sends for a form in which no file was chosen.
        if self._name is None or (not self._name and not self._size):
            return
        if self._receiving is None:
            self._receive()
        assert self._receiving is not None
        self.kept.append(self._receiving.keep())
        self._open.close()

    def _end(self) -> None:
        self._ended = True

    @property
    def _shown(self) -> str:
        return display_name(self._name)


@asynccontextmanager
async def received(request: Request, engine: Engine, *, tenant: str, largest: int) -> AsyncIterator[Sequence[Kept]]:
    """The files of a request, durable. They go again if what is done with them fails, unless the store has rows of
    them, or may have."""
    incoming = Incoming(
        _boundary(request), lambda name: receive(engine, tenant, name, largest=largest), largest=largest
    )
    try:
        await _read(request, incoming)
    except BaseException:
        # Whatever ends this, a thread may be writing still.
        await asyncio.shield(asyncio.to_thread(incoming.abandon))
        raise
    try:
        yield incoming.kept
    except (CommitUnknown, asyncio.CancelledError):
        raise
    except Exception:
        if not await _may_have_rows(engine, incoming.kept):
            await asyncio.to_thread(incoming.abandon)
        raise


async def discard(kept: Sequence[Kept]) -> None:
    """Files that nobody needs after all."""
    await asyncio.to_thread(remove, [each.path for each in kept])


def remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


async def _read(request: Request, incoming: Incoming) -> None:
    gathered: list[bytes] = []
    size = 0
    try:
        async for some in request.stream():
            gathered.append(some)
            size += len(some)
            if size >= AT_ONCE:
                await asyncio.to_thread(incoming.feed, b"".join(gathered))
                gathered, size = [], 0
        await asyncio.to_thread(incoming.feed, b"".join(gathered))
        await asyncio.to_thread(incoming.finish)
    except ClientDisconnect as error:
        raise broken_off() from error
    except FormParserError as error:
        raise Problem(400, "the form cannot be read: it is not multipart/form-data as its head says") from error
    except Transient as error:
        raise Problem(503, str(error), headers={"Retry-After": "30"}) from error


def _boundary(request: Request) -> bytes:
    media, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if media != b"multipart/form-data" or not 1 <= len(boundary) <= 70:
        words = "send the files as multipart/form-data"
        raise Problem(415, words, title="The body must be a form with files")
    return boundary


async def _may_have_rows(engine: Engine, kept: Sequence[Kept]) -> bool:
    """All of them came in one commit, so the first stands for the rest."""
    try:
        return bool(await engine.read(("SELECT 1 FROM documents WHERE id = :id", {"id": kept[0].document_id})))
    except StoreError:
        return True


def broken_off() -> Problem:
    return Problem(400, "the upload broke off: nothing was stored")
