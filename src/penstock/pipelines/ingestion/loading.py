"""The first half of a tick: the next entries of a source, what is unchanged of them, and what is new as chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import InvalidRequest, PenstockError, Permanent, RateLimited, Transient
from penstock.pipelines.ingestion import filling
from penstock.pipelines.ingestion.chunking import chunked, cleaned
from penstock.pipelines.ingestion.filling import Held
from penstock.pipelines.ingestion.living import Living, is_same
from penstock.pipelines.ingestion.model import Document, Entry, Unchanged
from penstock.pipelines.ingestion.trying import ATTEMPTS, tried
from penstock.pipelines.ingestion.work import Work
from penstock.pipelines.ingestion.writing import Doc

LOAD_SECONDS = 0.7
"""A batch is cut short after this time, so that a pause is heeded soon."""

MOST_ENTRIES = 2000
"""Entries that one tick looks at, when nearly all are as they were."""

LOOK_EVERY = 0.25
"""Seconds between two looks whether the run is to halt, while something is being loaded."""

GONE = (404, 410)
"""What a web server says of a page that is no more."""

MOST_CHARACTERS = 5_000_000
"""Of the documents of a batch together, after which it is cut short: they are in memory all at once."""

LARGE = 200_000
"""Characters from which on a document is cut off the event loop."""


@dataclass(slots=True)
class Seen:
    """What came of one entry. `fingerprint` is the new one of a document whose content is the same; `error` its
    address, cursor, and what went wrong."""

    cursor: str
    doc: Doc | None = None
    unchanged: Held | None = None
    fingerprint: str | None = None
    error: tuple[str, str, str] | None = None
    found: tuple[str, ...] = ()
    counts: bool = True
    attempts: int = 1
    unsure: bool = False
    """Whether what the source does not show may be there all the same."""


@dataclass(slots=True)
class Batch:
    """What one tick has to write. `more`: the source has more than this."""

    seen: list[Seen] = field(default_factory=list)
    more: bool = True
    chunking: float = 0.0
    """Seconds of the loading that went into cutting."""

    @property
    def docs(self) -> list[Doc]:
        return [each.doc for each in self.seen if each.doc is not None]


class Loader:
    """Reads one batch from a source. `last_document`: the highest number that a document has."""

    def __init__(self, work: Work, ctx: Context, source: Living, last_document: int) -> None:
        self._work = work
        self._ctx = ctx
        self._source = source
        self.last = last_document
        self._uris: set[str] = set()
        self._characters = 0
        self.batch = Batch()

    async def load(self) -> Batch:
        batch, ctx = self.batch, self._ctx
        until = ctx.now() + LOAD_SECONDS
        size, docs = ctx.settings.ingestion.batch, 0
        # One at least, however slow the source is.
        while docs < size and self._fits() and (not batch.seen or ctx.now() < until) and not ctx.halted:
            taken = await self._source.next(ctx)
            if taken is None:
                batch.more = False
                break
            try:
                loading = self._one(*taken)
                one = await (loading if self._at_hand(*taken) else self._unless_halted(loading))
            except Exception as error:
                if isinstance(error, PenstockError) and not isinstance(error, Transient):
                    raise
                # What came before it is finished first; then it is tried again.
                if batch.seen:
                    self._source.put_back(taken, batch.seen[-1].cursor)
                    break
                one = self._not_now(*taken, error)
            if one is None:
                self._source.put_back(taken, batch.seen[-1].cursor if batch.seen else self._work.cursor)
                break
            batch.seen.append(one)
            docs += one.doc is not None
        return batch

    def _at_hand(self, entry: Entry, known: Held | None) -> bool:
        """Whether nothing has to be read for it any more."""
        return is_same(entry, known) or entry in self._source.read

    async def _unless_halted(self, loading: Coroutine[Any, Any, Seen]) -> Seen | None:
        """None where somebody asked to pause or cancel before it was loaded: a page may take half a minute, a scanned
        book an hour."""
        task = asyncio.create_task(loading, name="penstock-load")
        try:
            while not (await asyncio.wait([task], timeout=LOOK_EVERY))[0]:
                if self._ctx.halted:
                    return None
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _fits(self) -> bool:
        return len(self.batch.seen) < MOST_ENTRIES and self._characters < MOST_CHARACTERS

    def _not_now(self, entry: Entry, known: Held | None, error: Exception) -> Seen:
        """The third time it is an error of this document, whatever it was; before that it is waited for."""
        if isinstance(error, RateLimited):
            raise error
        tried(self._work, error, "loading")
        why = str(error) if isinstance(error, Transient) else f"{type(error).__name__}: {error}"
        return Seen(entry.cursor, unchanged=known, error=(entry.uri, entry.cursor, why), attempts=ATTEMPTS)

    async def _one(self, entry: Entry, known: Held | None) -> Seen:
        if is_same(entry, known):
            return Seen(entry.cursor, unchanged=known)
        try:
            loaded = await self._source.load(entry, known, self._ctx.settings.ingestion.batch)
        except (Permanent, InvalidRequest) as error:
            self._work.loading = 0
            if known is not None and getattr(error, "status", None) in GONE and not self._is_start(entry):
                # It was there and is not any more: no error, and for `prune` to remove.
                return Seen(entry.cursor)
            return Seen(entry.cursor, unchanged=known, error=(entry.uri, entry.cursor, str(error)))
        self._work.loading = 0
        document, cursor, found = loaded.document, entry.cursor, loaded.found
        if document is None:
            return Seen(cursor, found=found, counts=False, unsure=known is not None and self._is_start(entry))
        if document.uri != entry.uri:
            others = await filling.held(self._ctx, self._work.edition, self._source.key, [document.uri])
            known = others[0] if others else None
            self._source.elsewhere.add(document.uri)
        elif document.uri in self._source.elsewhere:
            # Another address led to it before: what was known when this one was looked up is out of date.
            return Seen(cursor, found=found, counts=False)
        if document.uri in self._uris or (known is not None and known.seen == self._work.run):
            return Seen(cursor, found=found, counts=False)
        self._uris.add(document.uri)
        if isinstance(document, Unchanged):
            return Seen(cursor, unchanged=known, fingerprint=document.fingerprint, found=found)
        content_hash = document.content_hash
        if known is not None and known.content_hash == content_hash:
            return Seen(cursor, unchanged=known, fingerprint=document.fingerprint, found=found)
        return Seen(cursor, doc=await self._cut(document, content_hash, known), found=found)

    def _is_start(self, entry: Entry) -> bool:
        """A site whose first page is gone, or leads elsewhere now, may be away for a while: that says nothing about its
        other pages."""
        return self._source.finds_its_way and entry.cursor == "1"

    async def _cut(self, document: Document, content_hash: str, known: Held | None) -> Doc:
        self.last += 1
        self._characters += len(document.text)
        began = self._ctx.now()
        spec = self._work.ask.config.chunker
        off_loop = len(document.text) > LARGE
        chunks = await asyncio.to_thread(chunked, document, spec) if off_loop else chunked(document, spec)
        self.batch.chunking += self._ctx.now() - began
        if not chunks:
            self._ctx.log.warning("%s: %s has no text", self._work.ask.base, document.uri)
        return Doc(self.last, self._source.key, storable(document), content_hash, chunks, known)


def storable(document: Document) -> Document:
    """Without what no database keeps, in title and metadata, too: the text is cleaned where it is cut."""
    title, metadata = cleaned(document.title), _cleaned(document.metadata)
    if title == document.title and metadata == document.metadata:
        return document
    return replace(document, title=title, metadata=metadata)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, Mapping):
        return {_cleaned(name): _cleaned(each) for name, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list | tuple) else value
