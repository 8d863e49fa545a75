"""The two files of a document, JSON and Parquet: what was extracted, with what people corrected laid over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from penstock.pipelines.documents.model import ExtractionResult, InvoiceData

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


@dataclass(slots=True, frozen=True)
class Record:
    """A document as it is exported."""

    result: ExtractionResult
    data: InvoiceData
    review_status: str
    locked: tuple[str, ...] = ()


def folder_of(moment: float) -> str:
    """`YYYY/MM/DD`, of the day (UTC) on which the document was first saved: it does not move afterwards."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y/%m/%d")


def json_name(folder: str, document_id: str) -> str:
    return f"data/json/{folder}/{document_id}.json"


def parquet_name(folder: str, document_id: str) -> str:
    return f"data/parquet/{folder}/{document_id}.parquet"


def as_json(record: Record) -> bytes:
    told = record.result.model_dump(mode="json")
    told["invoice_data"] = record.data.model_dump(mode="json")
    told |= {"review_status": record.review_status, "locked_fields": list(record.locked)}
    return to_json(told, indent=2) + b"\n"


def row_of(record: Record) -> dict[str, Any]:
    """One row of Parquet or CSV. What is not known is None."""
    result, data = record.result, record.data
    lines = [line.model_dump(mode="json") for line in data.line_items]
    return {
        "document_id": result.document_id,
        "filename": result.filename,
        "vendor": data.vendor,
        "invoice_number": data.invoice_number,
        "date": data.date,
        "due_date": data.due_date,
        "subtotal": data.subtotal,
        "tax_rate": data.tax_rate,
        "tax_amount": data.tax_amount,
        "total": data.total,
        "currency": data.currency,
        "num_line_items": len(lines),
        "line_items_json": to_json(lines).decode(),
        "confidence_score": result.overall_confidence,
        "extracted_at": result.extracted_at,
        "content_hash": result.content_hash,
        "schema_version": result.schema_version,
        "review_status": record.review_status,
    }


def as_parquet(records: Iterable[Record]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    # A dictionary of one row's values is of no use, and takes time.
    written = pa.BufferOutputStream()
    with pq.ParquetWriter(written, schema(), compression="zstd", use_dictionary=False) as writer:
        writer.write_table(table_of(records))
    return bytes(written.getvalue())


def table_of(records: Iterable[Record]) -> pa.Table:
    import pyarrow as pa

    rows = [_quantized(row_of(record)) for record in records]
    return pa.Table.from_pylist(rows, schema=schema())


_MONEY, _RATE = (28, 6), (12, 4)
_DECIMALS = {"subtotal": _MONEY, "tax_rate": _RATE, "tax_amount": _MONEY, "total": _MONEY}


@cache
def schema() -> pa.Schema:
    import pyarrow as pa

    text, day = pa.string(), pa.date32()
    kinds = {
        "document_id": text, "filename": text, "vendor": text, "invoice_number": text, "date": day, "due_date": day,
        **{name: pa.decimal128(*size) for name, size in _DECIMALS.items()},
        "currency": text, "num_line_items": pa.int32(), "line_items_json": text, "confidence_score": pa.float64(),
        "extracted_at": pa.timestamp("us", tz="UTC"), "content_hash": text, "schema_version": text,
        "review_status": text,
    }  # fmt: skip
    return pa.schema(list(kinds.items()))


def _quantized(row: dict[str, Any]) -> dict[str, Any]:
    """Money with as many decimals as the column has."""
    for name, (_, scale) in _DECIMALS.items():
        if row[name] is not None:
            row[name] = row[name].quantize(Decimal(1).scaleb(-scale))
    return row
