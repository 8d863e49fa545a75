"""The same work as a plain chain of Celery tasks, as one would write it first: hash, read and ask the model, write the
two files, insert the rows. No job is stored, a file is written where it belongs, and what a crash loses is lost.

As a module it is the Celery app of the workers. `python -m bench.documents_chain FOLDER` takes in a folder and waits
until all of its rows are there. `CHAIN_…` in the environment says where everything is.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Coroutine
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pyarrow as pa
import pyarrow.parquet as pq
from celery import Celery, chain
from google import genai
from google.genai import types

from bench.documents_cpu import cpu_of, told_roots
from penstock.paper.reading import read_document
from penstock.pipelines.documents.prompt import INSTRUCTION, AskedInvoice
from penstock.remote.gemini.requests import response_schema

T = TypeVar("T")

MODEL = "gemini-2.5-flash"
HOME = Path(os.environ.get("CHAIN_HOME", "."))
LOOK_EVERY = 0.1
PATIENCE = 120.0
WARM = 16

TABLES = """
CREATE TABLE documents (id text PRIMARY KEY, filename text, content_hash text, pages int, data text, confidence float8,
    extraction text, created float8);
CREATE INDEX documents_content ON documents (content_hash);
CREATE TABLE review_items (id text PRIMARY KEY, document text REFERENCES documents, status text, priority float8,
    deadline float8, created float8);
CREATE INDEX review_items_order ON review_items (status, priority DESC);
CREATE TABLE review_audit (id text PRIMARY KEY, item text, document text, at float8, actor text, action text);
"""

app = Celery("chain", broker=os.environ.get("CHAIN_BROKER", "redis://"))
app.conf.update(task_ignore_result=True, task_default_queue="chain", broker_connection_retry_on_startup=True)


@app.task(name="fingerprint")
def fingerprint(document: str, filename: str) -> dict[str, Any]:
    digest = hashlib.sha256((HOME / "in" / document).read_bytes()).hexdigest()
    return {"id": document, "filename": filename, "content_hash": digest, "began": time.time()}


@app.task(name="extract")
def extract(told: dict[str, Any]) -> dict[str, Any]:
    content = (HOME / "in" / told["id"]).read_bytes()
    _, (blob,) = read_document({"pages": 50}, [content])
    pages = json.loads(blob)
    part = types.Part.from_bytes(data=content, mime_type="application/pdf")
    answer = _client().models.generate_content(model=MODEL, contents=[part, INSTRUCTION], config=_config())
    invoice = AskedInvoice.model_validate_json(answer.text or "").model_dump()
    text = blob.decode()
    found = {name: value is not None and str(value) in text for name, value in invoice.items()}
    return {**told, "pages": len(pages), "invoice": invoice, "found": found}


@app.task(name="save")
def save(told: dict[str, Any]) -> dict[str, Any]:
    day = datetime.now(UTC).strftime("%Y/%m/%d")
    told["confidence"] = sum(told["found"].values()) / len(told["found"])
    for kind in ("json", "parquet"):
        (HOME / "data" / kind / day).mkdir(parents=True, exist_ok=True)
    (HOME / "data/json" / day / f"{told['id']}.json").write_text(json.dumps(told, indent=2))
    pq.write_table(_table(told), HOME / "data/parquet" / day / f"{told['id']}.parquet", compression="zstd")
    return told


@app.task(name="review")
def review(told: dict[str, Any]) -> None:
    _do(_insert(told, time.time()))


async def _insert(told: dict[str, Any], now: float) -> None:
    connection = await _connection()
    item, audit = str(uuid.uuid4()), str(uuid.uuid4())
    async with connection.transaction():
        await connection.execute(
            "INSERT INTO documents VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            told["id"], told["filename"], told["content_hash"], told["pages"], json.dumps(told["invoice"]),
            told["confidence"], json.dumps(told), now,
        )  # fmt: skip
        await connection.execute(
            "INSERT INTO review_items VALUES ($1, $2, 'pending', $3, $4, $5)",
            item, told["id"], 40 * (1 - told["confidence"]), now + 86400, now,
        )  # fmt: skip
        await connection.execute(
            "INSERT INTO review_audit VALUES ($1, $2, $3, $4, 'chain', 'extracted')", audit, item, told["id"], now
        )


@cache
def _client() -> genai.Client:
    return genai.Client(
        api_key="bench", http_options=types.HttpOptions(base_url=os.environ["CHAIN_GEMINI"], timeout=60_000)
    )


@cache
def _config() -> types.GenerateContentConfig:
    return types.GenerateContentConfig(
        temperature=0.0,
        response_mime_type="application/json",
        response_schema=response_schema(AskedInvoice),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )


@cache
def _schema() -> pa.Schema:
    money = pa.decimal128(28, 6)
    return pa.schema([
        ("document_id", pa.string()), ("filename", pa.string()), ("vendor", pa.string()),
        ("invoice_number", pa.string()), ("date", pa.date32()), ("due_date", pa.date32()), ("subtotal", money),
        ("tax_rate", money), ("tax_amount", money), ("total", money), ("currency", pa.string()),
        ("num_line_items", pa.int32()), ("line_items_json", pa.string()), ("confidence_score", pa.float64()),
        ("content_hash", pa.string()), ("review_status", pa.string()),
    ])  # fmt: skip


def _table(told: dict[str, Any]) -> pa.Table:
    invoice = told["invoice"]
    days = {name: invoice[name] and date.fromisoformat(invoice[name]) for name in ("date", "due_date")}
    sums = ("subtotal", "tax_rate", "tax_amount", "total")
    row = {
        "document_id": told["id"], "filename": told["filename"], "vendor": invoice["vendor"],
        "invoice_number": invoice["invoice_number"], **days,
        **{name: invoice[name] and Decimal(invoice[name]).quantize(Decimal("0.000001")) for name in sums},
        "currency": invoice["currency"], "num_line_items": len(invoice["line_items"]),
        "line_items_json": json.dumps(invoice["line_items"]), "confidence_score": told["confidence"],
        "content_hash": told["content_hash"], "review_status": "pending",
    }  # fmt: skip
    return pa.Table.from_pylist([row], schema=_schema())


# One connection for each process, kept.
_kept: dict[str, Any] = {}


async def _connection() -> Any:
    if "connection" not in _kept:
        _kept["connection"] = await asyncpg.connect(os.environ["CHAIN_DATABASE"])
    return _kept["connection"]


def _do(work: Coroutine[Any, Any, T]) -> T:
    if "loop" not in _kept:
        _kept["loop"] = asyncio.new_event_loop()
    result: T = _kept["loop"].run_until_complete(work)
    return result


async def _rows() -> int:
    count: int = await (await _connection()).fetchval("SELECT COUNT(*) FROM review_items")
    return count


async def _make_tables() -> None:
    await (await _connection()).execute(TABLES)


def main(folder: Path) -> dict[str, float]:
    paths = sorted(folder.rglob("*.pdf"))
    first, rest = paths[:WARM], paths[WARM:]
    (HOME / "in").mkdir(parents=True)
    _do(_make_tables())
    # Every process has warmed up when the rest comes.
    _hand_over(_taken_in(first))
    _wait(len(first))
    before, began = cpu_of(told_roots()), time.perf_counter()
    documents = _taken_in(rest)
    taken_in = time.perf_counter()
    _hand_over(documents)
    _wait(len(paths))
    done, after = time.perf_counter(), cpu_of(told_roots())
    return {"documents": len(rest), "intake": taken_in - began, "work": done - taken_in, "cpu": after - before}


def _taken_in(paths: list[Path]) -> list[tuple[str, str]]:
    documents = [(str(uuid.uuid4()), path.name) for path in paths]
    for path, (document, _) in zip(paths, documents, strict=True):
        shutil.copyfile(path, HOME / "in" / document)
    return documents


def _hand_over(documents: list[tuple[str, str]]) -> None:
    for document, filename in documents:
        chain(fingerprint.s(document, filename), extract.s(), save.s(), review.s()).apply_async()


def _wait(rows: int) -> None:
    until = time.monotonic() + PATIENCE
    while _do(_rows()) < rows:
        if time.monotonic() > until:
            raise SystemExit(f"{_do(_rows())} of {rows} rows are there after {PATIENCE:g} s")
        time.sleep(LOOK_EVERY)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
