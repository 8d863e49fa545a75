"""What a run would come to, before it is started: documents, chunks, tokens, money and time. Everything is read and cut
as the run would do it, up to a bound; beyond that, and for websites, it is an estimate from what was read."""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic_core import to_json

from penstock.app import Penstock
from penstock.engine.errors import InvalidRequest, Permanent, Transient
from penstock.engine.model import DEFAULT_TENANT
from penstock.pipelines.ingestion import bases, filling
from penstock.pipelines.ingestion.bases import source_key
from penstock.pipelines.ingestion.chunking import chunked
from penstock.pipelines.ingestion.control import checked_base, pinned
from penstock.pipelines.ingestion.embedders import make_embedder
from penstock.pipelines.ingestion.filling import Held
from penstock.pipelines.ingestion.living import AHEAD, tools_for
from penstock.pipelines.ingestion.model import Chunk, Configuration, Document, Entry, SourceSpec
from penstock.pipelines.ingestion.plugins import Source
from penstock.pipelines.ingestion.sources import make_source
from penstock.remote.gemini.tokens import text_tokens

READ_AT_MOST = 2000
"""Documents that are read for a plan; what comes after them is taken to be like them."""

WEB_PAGES = 5
SAMPLE = 17
"""Chunks that a free embedder is tried on, to tell the time."""

ASSUMED = 2000.0
"""Tokens a second of an embedder that costs money, for want of a trial."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Plan:
    """`exact`: everything was read. Chunks that are known already are not embedded, and not paid."""

    documents: int
    unchanged: int
    chunks: int
    known_chunks: int
    tokens: int
    cost: int | None
    """Millionths of a dollar; None where no price is known."""
    seconds: float | None
    unreadable: int
    exact: bool


@dataclass(slots=True)
class _Sum:
    read: int = 0
    unchanged: int = 0
    unreadable: int = 0
    chunks: int = 0
    known: int = 0
    tokens: int = 0
    skipped: int = 0
    exact: bool = True
    hashes: set[int] = field(default_factory=set)
    """Of the chunks that are new: those that several documents have are embedded once."""
    until: float = math.inf
    """By the monotonic clock: nothing more is read then."""


async def plan(
    app: Penstock,
    base: str,
    config: Configuration,
    *,
    rebuild: bool = False,
    tenant: str = DEFAULT_TENANT,
    keep: bool = True,
    seconds: float = math.inf,
) -> Plan:
    """Read and cut, and embed a few. Nothing is paid. Kept with the knowledge base, so that what a run came to can be
    held against it. `Conflict` where a run would be one. After `seconds` no further document is read."""
    engine = app.engine
    found = await bases.find_base(engine, tenant, checked_base(base))
    edition = 0 if rebuild or found is None or found.edition is None else found.edition
    if found is not None and not rebuild:
        config = await pinned(app, found, config)
    embedder: Any = make_embedder(config.embedder, engine.settings)
    total, sample, began = _Sum(until=engine.clock.monotonic() + seconds), list[str](), engine.clock.now()
    for number, spec in enumerate(config.sources):
        source = make_source(spec, tools_for(engine, "", number))
        try:
            await _read(app, source, spec, config, edition, total, sample)
        finally:
            await source.close()
    reading = engine.clock.now() - began
    scale = 1.0 + total.skipped / max(1, total.read)
    tokens = round(total.tokens * scale)
    price = embedder.price(tokens)
    time: float | None = None
    if total.chunks:
        time = reading * scale + await _embedding_time(app, embedder, sample, tokens, price)
    made = Plan(
        documents=total.read + total.unchanged + total.skipped + total.unreadable,
        unchanged=total.unchanged,
        chunks=round(total.chunks * scale),
        known_chunks=round(total.known * scale),
        tokens=tokens,
        cost=price,
        seconds=None if time is None else round(time, 2),
        unreadable=total.unreadable,
        exact=total.exact,
    )
    if keep:
        kept = {"config": config.model_dump(mode="json"), **asdict(made)}
        await engine.write(_kept(base, tenant, config, kept, engine.clock.now()))
    return made


async def _read(
    app: Penstock, source: Source, spec: SourceSpec, config: Configuration, edition: int, total: _Sum, sample: list[str]
) -> None:
    seeds = getattr(source, "seeds", None)
    if seeds is not None:
        addresses = await seeds()
        total.exact = False
        total.skipped += max(0, len(addresses) - WEB_PAGES)
        for address in addresses[:WEB_PAGES]:
            await _one(app, source, Entry(address, ""), None, config, edition, total, sample)
        return
    coming: list[Entry] = []
    async for entry in source.entries(None):
        coming.append(entry)
        if len(coming) == AHEAD:
            await _some(app, source, spec, coming, config, edition, total, sample)
            coming = []
    await _some(app, source, spec, coming, config, edition, total, sample)


async def _some(
    app: Penstock,
    source: Source,
    spec: SourceSpec,
    entries: list[Entry],
    config: Configuration,
    edition: int,
    total: _Sum,
    sample: list[str],
) -> None:
    if not entries:
        return
    uris = [entry.uri for entry in entries]
    known = {each.uri: each for each in await filling.held(app.engine, edition, source_key(spec), uris)}
    for entry in entries:
        have = known.get(entry.uri)
        if have is not None and entry.fingerprint is not None and have.fingerprint == entry.fingerprint:
            total.unchanged += 1
        elif total.read < READ_AT_MOST and app.engine.clock.monotonic() < total.until:
            await _one(app, source, entry, have, config, edition, total, sample)
        else:
            total.skipped += 1
            total.exact = False


async def _one(
    app: Penstock,
    source: Source,
    entry: Entry,
    have: Held | None,
    config: Configuration,
    edition: int,
    total: _Sum,
    sample: list[str],
) -> None:
    try:
        loaded = await source.load(entry, None)
    except (Permanent, Transient, InvalidRequest):
        total.unreadable += 1
        return
    if not isinstance(loaded.document, Document):
        return
    if have is not None and have.content_hash == loaded.document.content_hash:
        total.unchanged += 1
        return
    total.read += 1
    chunks: list[Chunk] = list(await asyncio.to_thread(chunked, loaded.document, config.chunker))
    hashes = {chunk.content_hash: chunk.text for chunk in chunks}
    known = await filling.known_chunks(app.engine, edition, hashes)
    new = {hash: text for hash, text in hashes.items() if hash not in known and _short(hash) not in total.hashes}
    total.hashes.update(map(_short, new))
    total.chunks += len(chunks)
    total.known += len(chunks) - len(new)
    total.tokens += sum(map(text_tokens, new.values()))
    if len(sample) < SAMPLE:
        sample.extend(list(hashes.values())[: SAMPLE - len(sample)])


def _short(hash: str) -> int:
    """Enough to tell the chunks of a plan apart, in less memory."""
    return int(hash[:15], 16)


async def _embedding_time(app: Penstock, embedder: Any, sample: list[str], tokens: int, price: int | None) -> float:
    """One that costs nothing is tried."""
    if price != 0 or not sample:
        return tokens / ASSUMED
    await embedder.embed_query(sample[0], app.engine)
    began = app.engine.clock.now()
    for text in sample[1:]:
        await embedder.embed_query(text, app.engine)
    took = app.engine.clock.now() - began
    return took * tokens / max(1, sum(text_tokens(text) for text in sample[1:]))


def _kept(
    base: str, tenant: str, config: Configuration, plan: dict[str, Any], now: float
) -> tuple[str, dict[str, Any]]:
    """With a knowledge base that is not there yet, the plan waits for it: nothing lists it before it is started."""
    return (
        "INSERT INTO kb_bases (tenant, id, config, created, updated, plan)"
        " VALUES (:tenant, :id, :config, :now, :now, :plan)"
        " ON CONFLICT (tenant, id) DO UPDATE SET plan = excluded.plan",
        {
            "tenant": tenant, "id": base, "config": config.model_dump_json(), "now": now,
            "plan": to_json(plan).decode(),
        },
    )  # fmt: skip
