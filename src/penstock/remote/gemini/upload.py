"""One file to Gemini, in chunks, by the resumable protocol: when a chunk fails, Gemini is asked how much it has, and
the rest is sent. Google's SDK starts from zero, and blocks the event loop while it waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from penstock.engine.errors import InvalidRequest, Transient
from penstock.remote.gemini.client import GeminiClient, failed
from penstock.remote.gemini.errors import translated
from penstock.remote.gemini.limits import FILE_BYTES, FILES_LIVE_FOR
from penstock.remote.gemini.operation import moment
from penstock.remote.gemini.settings import Transfers

_RESTARTS = 2
"""How often an upload whose address Gemini forgot is begun again."""


@dataclass(slots=True, frozen=True)
class Uploaded:
    """A file at Gemini: `name` to speak of it, `uri` to use it in a request, when it is deleted there, and when it was
    uploaded (0: nobody knows)."""

    name: str
    uri: str
    size: int
    expires: float
    state: str = "ACTIVE"
    uploaded: float = 0.0

    def as_json(self) -> dict[str, Any]:
        names = ("name", "uri", "size", "expires", "uploaded")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Uploaded:
        told = {name: written[name] for name in ("name", "uri", "size", "expires")}
        return cls(**told, uploaded=written.get("uploaded", 0.0))


class _Forgotten(Transient):
    """Gemini does not know the upload's address any more."""


async def upload(
    client: GeminiClient, path: Path, *, label: str, mime: str, transfers: Transfers | None = None
) -> Uploaded:
    """The whole file, or an error. `label` is its display name."""
    transfers = transfers or Transfers()
    patiently = partial(client.patiently, attempts=transfers.attempts, backoff=transfers.backoff)
    size: int = (await client.in_thread(path.stat)).st_size
    if size > FILE_BYTES:
        raise InvalidRequest(f"{path.name} has {size} bytes, and Gemini takes {FILE_BYTES} at most: split it")
    for restart in range(_RESTARTS + 1):
        try:
            address = await patiently(lambda: _started(client, path, size, label, mime))
            return await _sent(client, address, path, size, transfers)
        except _Forgotten:
            if restart == _RESTARTS:
                raise
    raise AssertionError("unreachable")


async def _started(client: GeminiClient, path: Path, size: int, label: str, mime: str) -> str:
    what = f"upload {path.name}"
    with translated(what):
        response = await client.http.post(
            client.url("files", area="upload"),
            headers={
                **client.headers,
                "X-Goog-Upload-Protocol": "resumable",
                "X-Goog-Upload-Command": "start",
                "X-Goog-Upload-Header-Content-Length": str(size),
                "X-Goog-Upload-Header-Content-Type": mime,
            },
            json={"file": {"displayName": label, "mimeType": mime}},
            timeout=client.settings.request_timeout,
        )
        if response.status_code != 200:
            raise failed(response, what)
    address = response.headers.get("x-goog-upload-url")
    if not address:
        raise Transient(f"{what}: Gemini gave no address to upload to")
    return str(address)


async def _sent(client: GeminiClient, address: str, path: Path, size: int, transfers: Transfers) -> Uploaded:
    """Chunk by chunk. Failures in a row are counted, not failures in all: a long upload may have many."""
    offset, failures = 0, 0
    attempts, backoff = transfers.attempts or client.settings.attempts, transfers.backoff
    deadline = client.clock.monotonic() + client.settings.transfer_timeout
    while True:
        if client.clock.monotonic() > deadline:
            raise Transient(f"upload {path.name}: not done within {client.settings.transfer_timeout:g} s")
        try:
            answer = await _chunk(client, address, path, offset, size)
            if answer is not None:
                return answer
            offset, failures = min(size, offset + client.settings.upload_chunk), 0
            continue
        except _Forgotten:
            raise
        except Transient as error:
            failures += 1
            if failures >= attempts or not await client.backed_off(failures, error, backoff=backoff):
                raise
        offset, done = await client.patiently(
            lambda: _received(client, address, path), attempts=attempts, backoff=backoff
        )
        if done is not None:
            return done


async def _chunk(client: GeminiClient, address: str, path: Path, offset: int, size: int) -> Uploaded | None:
    """Send one chunk; the file when it was the last. The address is the key: ours is not sent along."""
    what = f"upload {path.name}"
    content: bytes = await client.in_thread(_read, path, offset, client.settings.upload_chunk)
    last = offset + len(content) >= size
    if not last and len(content) < client.settings.upload_chunk:
        raise InvalidRequest(f"{path} became shorter while it was uploaded")
    with translated(what):
        response = await client.http.post(
            address,
            headers={
                "X-Goog-Upload-Command": "upload, finalize" if last else "upload",
                "X-Goog-Upload-Offset": str(offset),
            },
            content=content,
            timeout=client.settings.chunk_timeout,
        )
        _check(response, what)
        status = response.headers.get("x-goog-upload-status")
        if status is None:
            raise Transient(f"{what}: Gemini did not say whether it has the chunk")
        if status == "final":
            return _uploaded(client, response.json())
    if last:
        raise Transient(f"{what}: Gemini has the last chunk and does not end the upload ({status})")
    return None


async def _received(client: GeminiClient, address: str, path: Path) -> tuple[int, Uploaded | None]:
    """How many bytes Gemini has; and the file, should it be complete."""
    what = f"resume the upload of {path.name}"
    with translated(what):
        response = await client.http.post(
            address, headers={"X-Goog-Upload-Command": "query"}, timeout=client.settings.request_timeout
        )
        _check(response, what)
        if response.headers.get("x-goog-upload-status") == "final":
            try:
                return 0, _uploaded(client, response.json())
            except (ValueError, KeyError, Transient):
                raise _Forgotten(f"{what}: it is complete, and Gemini does not say under which name") from None
        written = response.headers.get("x-goog-upload-size-received", "")
    if not written.isdigit():
        raise _Forgotten(f"{what}: Gemini does not say how much it has")
    return int(written), None


def _check(response: httpx2.Response, what: str) -> None:
    if response.status_code in (404, 410):
        raise _Forgotten(f"{what}: Gemini does not know the upload any more")
    if response.status_code == 400 and response.headers.get("x-goog-upload-status") != "active":
        raise _Forgotten(f"{what}: Gemini refuses the upload: {response.text[:200]}")
    if response.status_code != 200:
        raise failed(response, what)


def _uploaded(client: GeminiClient, answer: Any) -> Uploaded:
    file = answer.get("file") if isinstance(answer, Mapping) else None
    if not isinstance(file, Mapping) or not file.get("name"):
        raise Transient("the upload ended, and Gemini did not say under which name")
    now = client.clock.now()
    # By our own clock, as its age will be.
    return replace(read_file(file, now), uploaded=now)


def read_file(file: Mapping[str, Any], now: float) -> Uploaded:
    """Gemini's words about a file."""
    size = str(file.get("sizeBytes") or file.get("size_bytes") or "")
    return Uploaded(
        name=str(file["name"]),
        uri=str(file.get("uri") or ""),
        size=int(size) if size.isdigit() else 0,
        expires=moment(file.get("expirationTime")) or now + FILES_LIVE_FOR,
        state=str(file.get("state") or "ACTIVE"),
        uploaded=moment(file.get("createTime")) or 0.0,
    )


def _read(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)
