"""Many documents as one table: CSV or Parquet, read from the store page by page and handed out as it is made, so that
all documents of a year take no more memory than a few hundred of them."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidRequest
from penstock.pipelines.documents import ledger
from penstock.pipelines.documents.files import Record, row_of, schema, table_of
from penstock.pipelines.documents.rules import STATUSES

Format = Literal["csv", "parquet"]

MEDIA_TYPES: dict[Format, str] = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}

AT_ONCE = 200
"""Documents of a page; in Parquet, of a row group."""


async def records(
    engine: Engine,
    *,
    tenant: str | None = None,
    batch: str | None = None,
    review_status: Sequence[str] = (),
) -> AsyncIterator[list[Record]]:
    """All documents that were extracted, oldest first, page by page: what counts now."""
    if unknown := [each for each in review_status if each not in STATUSES]:
        raise InvalidRequest(f"unknown review status {unknown[0]!r}: use {', '.join(STATUSES)}")
    where, values = ["done = 1", "id > :after"], {"after": "", "limit": AT_ONCE}
    for name, value in (("tenant", tenant), ("batch", batch)):
        if value is not None:
            where.append(f"{name} = :{name}")
            values[name] = value
    if review_status:
        named = {f"status{number}": each for number, each in enumerate(dict.fromkeys(review_status))}
        where.append(f"review_status IN ({', '.join(f':{name}' for name in named)})")
        values |= named
    text = (
        f"SELECT id, extraction, data, review_status FROM documents WHERE {' AND '.join(where)} ORDER BY id"
        " LIMIT :limit"
    )
    while rows := await engine.read((text, values)):
        yield await asyncio.to_thread(_records, rows)
        if len(rows) < AT_ONCE:
            return
        values = {**values, "after": rows[-1][0]}


async def as_csv(pages: AsyncIterator[list[Record]]) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(_csv, [], heading=True)
    async for page in pages:
        yield await asyncio.to_thread(_csv, page)


async def as_one_parquet(pages: AsyncIterator[list[Record]]) -> AsyncIterator[bytes]:
    """Parquet has its index at the end, so it can be sent as it is written."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    pipe = _Pipe()
    writer = await asyncio.to_thread(pq.ParquetWriter, pipe, schema(), compression="zstd")
    try:
        async for page in pages:
            await asyncio.to_thread(_write_group, writer, page)
            yield pipe.drained()
    finally:
        await asyncio.to_thread(writer.close)
    yield pipe.drained()


def exported(format: Format, pages: AsyncIterator[list[Record]]) -> AsyncIterator[bytes]:
    """The pieces of one file, in their order."""
    return as_csv(pages) if format == "csv" else as_one_parquet(pages)


def guarded(cell: Any) -> Any:
    """A cell as a spreadsheet takes it. Text that a program would carry out as a formula is marked as text: names of
    files and vendors come from strangers."""
    if isinstance(cell, str) and (cell[:1] in "\t\r\n" or cell.lstrip()[:1] in tuple("=+-@＝＋－＠|%")):  # noqa: RUF001
        return f"'{cell}" if cell else cell
    return cell


class _Pipe(io.RawIOBase):
    """Keeps what is written until somebody takes it."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, some: Any) -> int:
        part = bytes(some)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        return self._written

    def drained(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _records(rows: Sequence[Sequence[Any]]) -> list[Record]:
    return [
        Record(ledger.parsed(extraction), ledger.parsed_data(data), status or "pending")
        for _, extraction, data, status in rows
    ]


def _write_group(writer: Any, page: Sequence[Record]) -> None:
    writer.write_table(table_of(page))


def _csv(page: Sequence[Record], *, heading: bool = False) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, schema().names, lineterminator="\r\n")
    if heading:
        writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row_of(record).items()} for record in page)
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat() if isinstance(value, datetime) else guarded(value)
