"""Lines of JSON in files that may be gigabytes: split at line feeds only, one line in memory at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json

from penstock.engine.errors import Transient
from penstock.outputs.files import sync_folder

InThread = Callable[..., Awaitable[Any]]
"""Runs a short blocking function away from the event loop: `asyncio.to_thread`, or a direct call in a simulation."""

SLICE = 8 * 1024 * 1024
"""Bytes of one piece of a pass."""

LONGEST_LINE = 256 * 1024 * 1024
"""Bytes. A longer line is skipped and told, never held."""

_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def lines(file: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[bytes | None]:
    """Each line that holds something, without its line feed; None for one that is too long. U+2028, U+0085 and their
    like are content."""
    while piece := file.readline(longest + 1):
        if piece.endswith(b"\n") or len(piece) <= longest:
            if stripped := piece.strip(b" \t\r\n"):
                yield stripped
            continue
        yield None
        while (piece := file.readline(longest + 1)) and not piece.endswith(b"\n"):
            pass


def decoded(line: bytes) -> tuple[Any, str | None]:
    """A line's value, and what is wrong with it. What is no valid text or number is read with marks in place of the
    damage, so that its key can still be told."""
    try:
        return from_json(line, allow_inf_nan=False), None
    except ValueError as error:
        reason = str(error)
    try:
        value = json.loads(line.decode("utf-8", "replace"), parse_constant=lambda name: None)
        return _mended(value), f"damaged line: {reason}"
    except (ValueError, RecursionError):
        return None, f"no JSON: {reason}"


def encoded(value: Any) -> bytes:
    """One line: plain ASCII, so that nothing in it can be taken for a line's end."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.translate(_SURROGATES)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value


@contextlib.asynccontextmanager
async def whole(target: Path, token: str, in_thread: InThread) -> AsyncIterator[BinaryIO]:
    """A file that appears under its name when everything is in it and on the disk, or not at all. `token` keeps apart
    two who write the same file."""
    part = target.with_name(f".{target.name}.{token}.part")
    try:
        file = await opened(lambda: _opened(part), in_thread)
        try:
            yield file
            await in_thread(_placed, file, part, target)
        finally:
            file.close()
            part.unlink(missing_ok=True)
    except OSError as error:
        raise Transient(
            f"{target.name} cannot be written: {error.strerror}; nothing partial was left behind"
        ) from error


async def opened(opening: Callable[[], BinaryIO], in_thread: InThread) -> BinaryIO:
    """A file, opened in a thread. Who is cancelled meanwhile leaves none open behind."""
    future = asyncio.ensure_future(in_thread(opening))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(_close_what_came)
        raise


def _close_what_came(future: asyncio.Future[BinaryIO]) -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().close()


def _opened(part: Path) -> BinaryIO:
    part.parent.mkdir(parents=True, exist_ok=True)
    return part.open("wb")


def _placed(file: BinaryIO, part: Path, target: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    part.replace(target)
    sync_folder(target.parent)


async def in_slices(step: Callable[[], bool], in_thread: InThread) -> None:
    """A long pass over a file, in pieces: `step` does one and says whether there is more."""
    while await in_thread(step):
        pass
