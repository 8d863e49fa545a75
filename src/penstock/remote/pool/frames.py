"""What crosses between the pool and a child: a JSON head and raw blobs, in both directions and nothing else. A child
may have parsed hostile input, so what it sends is read with bounds and never unpickled.

    4 bytes: length of the head | head, a JSON object; `blobs` are their lengths | the blobs

Each side sends only when the other waits for it, so full buffers cannot lock them up.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from penstock.remote.pool.limits import MB

Blob = bytes | bytearray | memoryview

MOST_JSON = 8 * MB
"""Parsing holds up the event loop: what is larger goes as a blob or a file."""


class BadFrame(Exception):
    """The other side sent what it never should."""


class TooMuch(Exception):
    """More than may cross at once."""


def pack(head: Mapping[str, Any], blobs: Sequence[Blob] = ()) -> list[Blob]:
    """The parts of a frame, in order. `ValueError` or `TypeError` if `head` is no JSON or a blob no bytes."""
    views = [memoryview(blob).cast("B") for blob in blobs]
    told = {**head, "blobs": [len(view) for view in views]}
    text = json.dumps(told, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    if len(text) > MOST_JSON:
        raise TooMuch(
            f"{len(text) / MB:.1f} MB of JSON, and at most {MOST_JSON // MB} MB may cross: use blobs or files"
        )
    return [len(text).to_bytes(4, "big") + text, *views]


def unpacked(text: Blob, most: int) -> tuple[dict[str, Any], list[int]]:
    """A head and the lengths of its blobs, which are `most` bytes together."""
    try:
        head = from_json(bytes(text), allow_inf_nan=False)
    except ValueError as error:
        raise BadFrame(f"no JSON: {error}") from None
    sizes = head.pop("blobs", None) if isinstance(head, dict) else None
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise BadFrame("a head without the lengths of its blobs")
    if sum(sizes) > most:
        raise TooMuch(f"{sum(sizes) / MB:.1f} MB of blobs, and at most {most / MB:g} MB may come back")
    return head, sizes


def checked_length(prefix: Blob) -> int:
    length = int.from_bytes(prefix, "big")
    if length > MOST_JSON:
        raise BadFrame(f"a head of {length} bytes")
    return length


async def send(connection: socket.socket, parts: Sequence[Blob]) -> None:
    loop = asyncio.get_running_loop()
    for part in parts:
        await loop.sock_sendall(connection, part)


async def receive(connection: socket.socket, most: int) -> tuple[dict[str, Any], list[bytes]]:
    """The next frame; `ConnectionError` if the other side is gone."""
    length = checked_length(await _received(connection, 4))
    head, sizes = unpacked(await _received(connection, length), most)
    return head, [bytes(await _received(connection, size)) for size in sizes]


async def _received(connection: socket.socket, length: int) -> bytearray:
    loop = asyncio.get_running_loop()
    whole = bytearray(length)
    rest = memoryview(whole)
    while rest:
        got = await loop.sock_recv_into(connection, rest)
        if not got:
            raise ConnectionResetError("the process is gone")
        rest = rest[got:]
        if rest:
            # A socket that always has something would never let go of the loop.
            await asyncio.sleep(0)
    return whole
