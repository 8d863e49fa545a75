"""`penstock documents export`: one table of many documents, to stdout as it is made, or to a file that appears whole or
not at all."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from penstock.cli.output import Output, counted
from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidRequest, StoreReadOnly
from penstock.outputs.files import sync_folder
from penstock.pipelines.documents import exporting
from penstock.pipelines.documents.exporting import Format
from penstock.pipelines.documents.files import Record
from penstock.pipelines.documents.rules import STATUSES

STANDING = ("approved", "corrected")
"""What a person stands by."""
SAID = (*STANDING, "rejected", "in_review", "pending")


@dataclass(slots=True, frozen=True)
class Destination:
    """Where the table goes. A device or a pipe is written to, and not replaced by a file."""

    name: str
    place: Path
    device: bool


def destination(name: str) -> Destination:
    """Of a link it is the target that is replaced: whoever reads that must find the new table there."""
    path = Path(name)
    if path.is_dir():
        raise InvalidRequest(f"{name} is a folder: name a file in it")
    return Destination(name, path.resolve(), path.exists() and not path.is_file())


class _Counted:
    """Pages of records that are counted as they pass."""

    def __init__(self, pages: AsyncIterator[list[Record]]) -> None:
        self._pages = pages
        self.reviews: Counter[str] = Counter()

    async def __aiter__(self) -> AsyncIterator[list[Record]]:
        async for page in self._pages:
            self.reviews.update(record.review_status for record in page)
            yield page


async def export(
    out: Output,
    engine: Engine,
    kind: Format,
    output: Destination | None,
    *,
    review_status: Sequence[str],
    excel: bool,
    batch: str | None,
    tenant: str | None,
) -> None:
    pages = _Counted(exporting.records(engine, tenant=tenant, batch=batch, review_status=review_status))
    pieces = exporting.exported(kind, aiter(pages))
    if excel:
        pieces = _marked(pieces)
    if output is None:
        async for piece in pieces:
            click.echo(piece, nl=False)
        _tell(out, pages.reviews, asked=bool(review_status))
        return
    try:
        await _written(output, pieces)
    except OSError as error:
        raise StoreReadOnly(f"{output.name} cannot be written: {(error.strerror or str(error)).lower()}") from error
    reviews = {status: pages.reviews[status] for status in STATUSES}
    out.data({"output": output.name, "format": kind, "documents": pages.reviews.total(), "reviews": reviews})
    out.tell(f"Wrote {output.name}.")
    _tell(out, pages.reviews, asked=bool(review_status))


def _tell(out: Output, reviews: Counter[str], *, asked: bool) -> None:
    """What is in the table; and how to get what people stand by, where more than that is in it and nobody asked."""
    told = ", ".join(f"{reviews[status]} {status.replace('_', ' ')}" for status in SAID if reviews[status])
    words = f"{counted(reviews.total(), 'document')}{': ' if told else ''}{told}"
    if not asked and any(reviews[status] for status in SAID if status not in STANDING):
        out.note(f"{words}; {' '.join(f'--review {status}' for status in STANDING)} for what people have approved.")
    else:
        out.remark(f"{words}.")


async def _marked(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield codecs.BOM_UTF8
    async for piece in pieces:
        yield piece


async def _written(output: Destination, pieces: AsyncIterator[bytes]) -> None:
    if output.device:
        with output.place.open("wb") as file:
            await _fill(file, pieces)
        return
    place = output.place
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("xb") as file:
            await _fill(file, pieces)
            await asyncio.to_thread(_settled, file)
        beside.replace(place)
        sync_folder(place.parent)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


async def _fill(file: BinaryIO, pieces: AsyncIterator[bytes]) -> None:
    async for piece in pieces:
        await asyncio.to_thread(file.write, piece)


def _settled(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
