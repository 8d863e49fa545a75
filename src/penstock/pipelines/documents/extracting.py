"""From a file to data: who answers (the file's own e-invoice, or a model), what the answer is worth, and what may be
asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from penstock.engine.call import Call
from penstock.engine.context import Context
from penstock.engine.errors import Permanent, Transient
from penstock.gemini import GenerateRequest, data, generate_request
from penstock.pipelines.documents.kinds import Kind, mime
from penstock.pipelines.documents.model import ExtractionResult, Fingerprinted, InvoiceData, Usage
from penstock.pipelines.documents.parsing import Parser
from penstock.pipelines.documents.prompt import INSTRUCTION, AskedInvoice, data_of
from penstock.remote.gemini.requests import response_schema

E_INVOICE = "e-invoice"
LOCAL_RULES = "local-rules"

MOST_TRIES = 3
"""Answers of a model that are of no use before the document is given up: each is paid."""

TAKEN: frozenset[str] = frozenset({"pdf", "png", "jpeg", "webp"})
"""What Gemini takes as it is; of other kinds it is sent pictures of the pages."""


class Useless(Exception):
    """An answer that cannot be used; the next may be."""


async def from_einvoice(doc: Fingerprinted, pages: list[bytes], parser: Parser, ctx: Context) -> ExtractionResult:
    """The file's own data, held against what its pages show."""
    assert doc.told is not None
    return await _judged(doc, doc.told, pages, parser, ctx, model=E_INVOICE, refused=doc.refused, usage=Usage())


async def from_model(
    doc: Fingerprinted, path: Path, pages: list[bytes], parser: Parser, ctx: Context
) -> ExtractionResult:
    """What the model read. `Useless` where it gave nothing that can be used."""
    call = await ctx.call("gemini.generate", f"answer-{doc.tries}", await _request(doc, path, parser))
    try:
        answer, refused = _answer(call)
    except Permanent as error:
        if call.created >= ctx.job.created:
            raise
        raise Useless(f"an earlier run was answered: {error}") from error
    usage = Usage(
        input_tokens=call.usage.input,
        output_tokens=call.usage.output,
        # Penstock's own Gemini counts what a real one would have cost; nobody is charged.
        cost_usd=Decimal(0) if doc.upload.place == "own" else Decimal(call.cost) / 1_000_000,
    )
    upload = doc.upload
    model = LOCAL_RULES if upload.place == "own" else upload.model
    return await _judged(doc, answer, pages, parser, ctx, model=model, refused=refused, usage=usage)


async def _request(doc: Fingerprinted, path: Path, parser: Parser) -> GenerateRequest:
    kind: Kind = doc.kind  # type: ignore[assignment]
    if kind in TAKEN:
        parts = [data(await asyncio.to_thread(path.read_bytes), mime(kind))]
    else:
        parts = [data(picture, "image/jpeg") for picture in await parser.pictures(path)]
    schema, told = _schemas()
    request = generate_request([*parts, INSTRUCTION], schema=told, temperature=0.0)
    return GenerateRequest(model=doc.upload.model, request=request, json_schema=schema)


@cache
def _schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """What the answer is held against, and the same in Gemini's words: made once, since that takes milliseconds."""
    return AskedInvoice.model_json_schema(), response_schema(AskedInvoice)


def _answer(call: Call) -> tuple[InvoiceData, dict[str, str]]:
    if call.state != "collected" or not isinstance(call.result, Mapping):
        raise Transient(f"the model gave no answer: {call.error or call.state}")
    outcome, error = call.result.get("outcome"), call.result.get("error")
    if outcome == "blocked":
        raise Permanent(f"The model refused this document: {error}")
    if outcome != "ok":
        raise Useless(f"the model's answer is {outcome}: {error}")
    try:
        return data_of(AskedInvoice.model_validate(call.result.get("parsed")))
    except ValidationError as misfit:
        raise Useless(f"the model's answer does not fit: {misfit.errors()[0]['msg']}") from misfit


async def _judged(
    doc: Fingerprinted,
    told: InvoiceData,
    pages: list[bytes],
    parser: Parser,
    ctx: Context,
    *,
    model: str,
    refused: dict[str, str],
    usage: Usage,
) -> ExtractionResult:
    source: Any = "e-invoice" if model == E_INVOICE else "model"
    judged, turns = await parser.judged(told, pages, source=source, refused=refused)
    upload, now = doc.upload, ctx.now()
    findings = judged.findings if doc.trouble is None else (doc.trouble, *judged.findings)
    return ExtractionResult(
        document_id=upload.document_id,
        filename=upload.filename,
        invoice_data=told,
        field_confidences=tuple(judged.field_confidences),
        overall_confidence=judged.overall,
        extracted_at=datetime.fromtimestamp(now, UTC),
        processing_time_seconds=round(now - (upload.began or now), 3),
        content_hash=upload.content_hash,
        model=model,
        usage=usage,
        source=source,
        findings=tuple(findings),
        page_turns=turns,
    )
