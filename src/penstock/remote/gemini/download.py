"""A result from Gemini to the disk: streamed, resumed where it broke off, put in its place only when it is whole."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import httpx2

from penstock.engine.errors import Transient
from penstock.remote.gemini.client import GeminiClient, failed
from penstock.remote.gemini.errors import Refused
from penstock.remote.gemini.lines import whole

_BUFFER = 4 * 1024 * 1024
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)\Z")


@dataclass(slots=True)
class _Progress:
    """What is on the disk so far. `total` is None until Gemini says how much there is."""

    file: BinaryIO
    written: int = 0
    total: int | None = None
    etag: str | None = None
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def begin(self) -> None:
        self.file.seek(0)
        self.file.truncate()
        self.written, self.total, self.digest = 0, None, hashlib.sha256()

    def add(self, content: bytes) -> None:
        self.file.write(content)
        self.digest.update(content)
        self.written += len(content)


@dataclass(slots=True, frozen=True)
class Downloaded:
    """`proved`: Gemini said how long it is, and that much came."""

    sha256: str
    size: int
    proved: bool


async def download(client: GeminiClient, name: str, target: Path) -> Downloaded:
    """The file, once it is in its place. `Permanent` where Gemini does not give it."""
    deadline = client.clock.monotonic() + client.settings.transfer_timeout
    async with whole(target, client.token(), client.in_thread) as file:
        progress = _Progress(file)
        failures = 0
        while True:
            before = progress.written
            try:
                await _rest(client, name, progress, deadline)
                return Downloaded(progress.digest.hexdigest(), progress.written, progress.total is not None)
            except Transient as error:
                # Only failures without any progress count: a line that breaks often still gets there.
                failures = 1 if progress.written > before else failures + 1
                if failures >= client.settings.attempts or client.clock.monotonic() > deadline:
                    raise
                if not await client.backed_off(failures, error):
                    raise


async def _rest(client: GeminiClient, name: str, progress: _Progress, deadline: float) -> None:
    """What is missing, asked from where we are."""
    what = f"download {name}"
    headers = {"Accept-Encoding": "identity"}
    if progress.written:
        headers["Range"] = f"bytes={progress.written}-"
        if progress.etag:
            headers["If-Range"] = progress.etag
    async with client.stream(client.url(f"{name}:download") + "?alt=media", what, headers) as response:
        if response.status_code == 416 and progress.written:
            await _nothing_beyond(client, response, progress, what)
            return
        if response.status_code not in (200, 206):
            await response.aread()
            raise _refused(response, what)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Transient(f"{what}: it came compressed, though it was asked as it is")
        await _agree(client, response, progress, what)
        await _copy(client, response, progress, deadline, what)
    if progress.total is not None and progress.written != progress.total:
        raise Transient(f"{what}: {progress.written} of {progress.total} bytes came")


async def _agree(client: GeminiClient, response: httpx2.Response, progress: _Progress, what: str) -> None:
    """Where does the answer begin, and how much is there in all? An answer from the start begins again."""
    etag = response.headers.get("etag")
    if response.status_code == 206:
        found = _RANGE.match(response.headers.get("content-range", ""))
        if found is None or found[1] is None or int(found[1]) != progress.written:
            await client.in_thread(progress.begin)
            raise Transient(f"{what}: Gemini continued somewhere else than asked")
        total = None if found[2] == "*" else int(found[2])
        if total is not None and progress.total is not None and total != progress.total:
            await client.in_thread(progress.begin)
            raise Transient(f"{what}: the file changed meanwhile")
        progress.total = total if total is not None else progress.total
        return
    if progress.written:
        await client.in_thread(progress.begin)
    length = response.headers.get("content-length", "")
    progress.total = int(length) if length.isdigit() else None
    progress.etag = etag if etag and not etag.startswith("W/") else None


async def _copy(
    client: GeminiClient, response: httpx2.Response, progress: _Progress, deadline: float, what: str
) -> None:
    held = bytearray()
    try:
        async for piece in response.aiter_raw():
            held += piece
            if len(held) >= _BUFFER:
                await client.in_thread(progress.add, bytes(held))
                held.clear()
                if client.clock.monotonic() > deadline:
                    raise Transient(f"{what}: not done within {client.settings.transfer_timeout:g} s")
    finally:
        # What came before the line broke is good: it is not asked for again.
        if held:
            await client.in_thread(progress.add, bytes(held))


async def _nothing_beyond(client: GeminiClient, response: httpx2.Response, progress: _Progress, what: str) -> None:
    """Gemini has nothing after what we have: either that is all, or what we have is wrong."""
    found = _RANGE.match(response.headers.get("content-range", ""))
    total = int(found[2]) if found and found[2] != "*" else progress.total
    if total != progress.written:
        await client.in_thread(progress.begin)
        raise Transient(f"{what}: the file is shorter than what came of it")
    progress.total = total


def _refused(response: httpx2.Response, what: str) -> Exception:
    error = failed(response, what)
    if isinstance(error, Refused) and error.code in (403, 404, 410):
        hint = "The result may not be there any more (Google keeps it for a while only), or belong to another key"
        return Refused(f"{error}. {hint}", code=error.code)
    return error
