"""Batches of documents: loaded, cut into chunks, embedded and indexed, in groups of chunks that are a commit each.

After every commit the run knows how far it is, to the chunk. Whatever stops it (a pause, a crash, a lost lease), it
goes on at the next group: what is durable is neither written nor counted again. While a group is on its way to the
disk, the next one is loaded and embedded, but nothing of it is written before the other has landed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import RateLimited, Transient
from penstock.engine.outcome import Again
from penstock.pipelines.ingestion import filling, metrics, writing
from penstock.pipelines.ingestion.collecting import BATCH_TEXTS
from penstock.pipelines.ingestion.embedding import Embedded, embedded
from penstock.pipelines.ingestion.index import Index
from penstock.pipelines.ingestion.living import Living, addresses_left, at_rest, let_go, living, unknown_addresses
from penstock.pipelines.ingestion.loading import Batch, Loader, Seen
from penstock.pipelines.ingestion.plugins import Embedder
from penstock.pipelines.ingestion.removing import removal
from penstock.pipelines.ingestion.retrying import taken_from_errors
from penstock.pipelines.ingestion.trying import ATTEMPTS, NotYet, said, struck, tried
from penstock.pipelines.ingestion.work import Counters, Part, Phase, Work
from penstock.pipelines.ingestion.writing import Group

log = logging.getLogger("penstock.ingestion")

TICK_SECONDS = 2.0
"""A tick takes batch after batch for so long: to end it, and to be claimed again, costs as much as a small batch."""


MOST_SECONDS = 60.0
"""And no longer than this within one batch: a large document is gone on with by the next tick, which reads it again."""


class Tick:
    """Some batches, and what they need."""

    def __init__(self, work: Work, ctx: Context, embedder: Embedder, index: Index) -> None:
        self.work = work
        self.ctx = ctx
        self.embedder = embedder
        self.index = index
        self.deferred = bool(getattr(embedder, "deferred", False))
        self._last_document = self._last_chunk = 0
        self._storing: asyncio.Task[None] | None = None
        self._fresh: dict[str, int] = {}
        """The chunks of the commit that is on its way, which no question finds yet: content hash → number."""
        self._since = ctx.now()
        self._until = self._since + MOST_SECONDS

    async def go(self) -> Again:
        """Batches, until there is no more, the time is up, or the run is to halt."""
        work, ctx = self.work, self.ctx
        until = ctx.now() + TICK_SECONDS
        answer = Again(work)
        self._last_document, self._last_chunk = await filling.last_numbers(ctx, work.edition)
        try:
            while await self._batch() and ctx.now() < until and not ctx.halted:
                await self._save()
            await self._stored()
        except NotYet as later:
            await self._stored()
            await let_go(work.run)
            answer = Again(work, after=later.after)
        except Exception:
            # What was decided before counts, and comes first.
            await self._stored()
            await let_go(work.run)
            raise
        finally:
            await self._leave()
        if ctx.halted:
            # By the time it goes on, what was looked at ahead may be out of date.
            await let_go(work.run)
        self._count_time()
        self._show()
        self._tell()
        return answer

    async def _save(self) -> None:
        """What was written so far is on its way, and the run is past it."""
        self._count_time()
        self._show()
        self._storing = asyncio.create_task(self.ctx.checkpoint(self.work), name="penstock-checkpoint")
        # Once it has begun it has what it stores: the run may move on.
        await asyncio.sleep(0)

    async def _stored(self) -> None:
        """What was on its way is durable."""
        storing, self._storing = self._storing, None
        if storing is not None:
            with self._phase("index"):
                await storing
            self._fresh.clear()

    async def _leave(self) -> None:
        """The tick is over, or cut off: then nobody knows whether what was on its way has landed."""
        storing, self._storing = self._storing, None
        if storing is not None:
            storing.cancel()
            await asyncio.gather(storing, return_exceptions=True)
        await at_rest(self.work.run)

    def _count_time(self) -> None:
        now = self.ctx.now()
        self.work.seconds.active += now - self._since
        self._since = now

    async def _batch(self) -> bool:
        """Everything of one batch but its last commit. False where the tick ends with it."""
        work = self.work
        source = await living(work, self.ctx)
        if not source.reads_ahead:
            # It may find its way by what the last batch has found.
            await self._stored()
        loader = Loader(work, self.ctx, source, self._last_document)
        with self._phase("load"):
            batch = await loader.load()
        self._last_document = loader.last
        source.read_on(self.ctx.settings.ingestion.batch)
        work.seconds.chunk += batch.chunking
        work.seconds.load -= batch.chunking
        skip = await self._go_on_with_part(batch)
        if not await self._write(source, batch, skip):
            return False
        work.batch += bool(batch.seen)
        if batch.more:
            source.fresh = False
        elif source.finds_its_way and not (source.fresh and not batch.seen):
            # What was found on the way, in this batch or one before, is looked at before the next source.
            await self._stored()
            await source.reopen(work.cursor)
        else:
            await let_go(work.run)
            await self._source_done(source)
        waiting = work.staging.next - work.staging.first
        return work.source < len(work.ask.config.sources) and waiting < BATCH_TEXTS

    async def _source_done(self, source: Living) -> None:
        work = self.work
        nothing = work.cursor is None and not work.ask.errors_only
        if nothing:
            # A disk that is not mounted looks like an empty folder.
            self.ctx.log.warning("%s: %s gave nothing, and nothing of it is pruned", work.ask.base, source.key)
        left = nothing or await addresses_left(self.ctx, work.run, source.number, work.cursor)
        if left and source.number not in work.unsure:
            work.unsure.append(source.number)
        work.source, work.cursor = work.source + 1, None

    async def _write(self, source: Living, batch: Batch, skip: int) -> bool:
        """Everything that was seen, group by group; False where the run is to halt before the end."""
        most = self.ctx.settings.ingestion.group
        size = most if self.deferred else min(most, self.embedder.at_once)
        with self._phase("chunk"):
            coming = list(writing.groups(batch.docs, size, skip=skip)) or [Group()]
        settled = 0
        for place, group in enumerate(coming):
            last = place == len(coming) - 1
            if self.ctx.halted or (place and self.ctx.now() > self._until):
                return False
            statements, counters = await self._group(group, source)
            until = len(batch.seen) if last else _settled_by(group, batch.seen, settled)
            statements += await self._settle(source, batch.seen[settled:until], counters)
            settled = until
            statements += metrics.counted(counters, worker=self.ctx.job.worker)
            for statement in statements:
                self.ctx.write(statement)
            self.work.counters.add(counters)
            self.ctx.count(**counters.amounts())
            if not last:
                await self._save()
        return True

    async def _go_on_with_part(self, batch: Batch) -> int:
        """How many chunks of the first document are there already. One that has changed meanwhile, or vanished, is
        begun anew: what was written of it is taken out, and off the counters."""
        work, ctx, part = self.work, self.ctx, self.work.part
        if part is None:
            return 0
        first = next(iter(batch.docs), None)
        if first is None and batch.more:
            # A batch that was cut short before its turn says nothing about it.
            return 0
        if first is not None and (first.document.uri, first.content_hash) == (part.uri, part.content_hash):
            first.n, first.begun = part.document, True
            return part.chunks
        await self._stored()
        gone = 0
        while not gone:
            statements, gone = await removal(ctx, self.index, work.edition, [part.document])
            for statement in statements:
                ctx.write(statement)
            if gone:
                await self._unstage(part.document)
                work.counters.add(part.counted, times=-1)
                ctx.count(**part.counted.amounts(times=-1))
                work.part = None
            await ctx.checkpoint(work)
        return 0

    async def _unstage(self, document: int) -> None:
        """Chunks of a document that is not to be: they came last."""
        run = {"run": self.work.run, "document": document}
        ((first,),) = await self.ctx.read(
            ("SELECT MIN(n) FROM kb_staged WHERE run = :run AND document = :document", run)
        )
        if first is not None:
            self.ctx.write(("DELETE FROM kb_staged WHERE run = :run AND document = :document", run))
            self.work.staging.next = int(first)

    async def _group(self, group: Group, source: Living) -> tuple[list[Any], Counters]:
        """The statements of one group, and what it adds to the counters."""
        work, now = self.work, self.ctx.now()
        counters = Counters()
        whole = [doc for doc in group.ends if not doc.chunks] if self.deferred else group.ends
        statements = writing.begins(work.edition, work.run, group.begins, now, whole=whole)
        statements += writing.ends(work.edition, work.run, whole, now, counters, begun=group.begins)
        if self.deferred:
            await self._stored()
            statements += self._staged(group, counters, now)
            counters.chunks_seen = len(group.pieces)
            own = Counters(chunks_seen=group.of_last) if group.pieces else Counters()
        else:
            hashes = [piece.content_hash for piece in group.pieces]
            with self._phase("index"):
                known = await filling.known_chunks(self.ctx, work.edition, hashes)
            known |= {hash: self._fresh[hash] for hash in hashes if hash in self._fresh}
            result = await self._embedded(
                {piece.content_hash: piece.text for piece in group.pieces if piece.content_hash not in known}
            )
            await self._stored()
            with self._phase("index"):
                written = writing.placed(
                    work.edition, work.run, group.pieces, known, result,
                    index=self.index, last_chunk=self._last_chunk, now=now,
                )  # fmt: skip
                self._last_chunk, self._fresh = written.last_chunk, written.new
                counters.add(written.counters)
                own = written.of_last
                statements += written.statements
                documents = {doc.n: (source.key, doc.document.uri) for doc in (*group.begins, *group.ends)}
                if work.part is not None:
                    documents[work.part.document] = (source.key, work.part.uri)
                self._tell_refused(group, result)
                statements += writing.refusals(
                    work.edition, work.run, group.pieces, result.refused, documents,
                    attempts=ATTEMPTS, ids=self.ctx.engine.new_id, now=now,
                )  # fmt: skip
                statements.append(writing.counted(work.edition, group.ends, written.counters.chunks_processed))
        self._move_part(group, own)
        return statements, counters

    def _staged(self, group: Group, counters: Counters, now: float) -> list[Any]:
        """Chunks that wait for a batch of embeddings; a document without any is whole at once."""
        work = self.work
        statements: list[Any] = []
        if group.pieces:
            ends = {(doc.n, len(doc.chunks) - 1) for doc in group.ends}
            statements.append(writing.staged_rows(work.run, work.staging.next, group.pieces, ends))
            work.staging.next += len(group.pieces)
        empty = [doc for doc in group.ends if not doc.chunks]
        statements.append(writing.counted(work.edition, empty, 0))
        return statements

    async def _embedded(self, texts: dict[str, str]) -> Embedded:
        if not texts:
            return Embedded()
        with self._phase("embed"):
            try:
                result = await embedded(self.embedder, texts, self.ctx)
            except RateLimited:
                raise
            except Transient as error:
                tried(self.work, error)
                struck(self.work, self.embedder.name)
                return Embedded(refused=dict.fromkeys(texts, str(error)))
        self.work.attempt = self.work.strikes = 0
        if result.refused:
            self.work.error = said(next(iter(result.refused.values())))
        return result

    def _move_part(self, group: Group, own: Counters) -> None:
        """Which document the run is in the middle of once this group is durable, and what that has counted."""
        last = group.pieces[-1] if group.pieces else None
        if last is None and not group.ends:
            return
        if last is None or any(doc.n == last.document for doc in group.ends):
            self.work.part = None
            return
        begun = next((doc for doc in group.begins if doc.n == last.document), None)
        if begun is not None:
            self.work.part = Part(uri=begun.document.uri, content_hash=begun.content_hash, document=begun.n)
        part = self.work.part
        assert part is not None
        part.chunks = last.seq + 1
        part.counted.add(own)

    async def _settle(self, source: Living, seen: Sequence[Seen], counters: Counters) -> list[Any]:
        """What is over and done with: the run does not come back to it."""
        if not seen:
            return []
        work, ctx = self.work, self.ctx
        errors = [(*each.error, each.attempts) for each in seen if each.error is not None]
        same = [(each, each.unchanged) for each in seen if each.unchanged is not None]
        counters.docs_seen += sum(each.counts for each in seen)
        counters.docs_unchanged += sum(each.error is None and each.counts for each, _ in same)
        counters.docs_error += len(errors)
        plain = [known.n for each, known in same if each.fingerprint is None]
        statements: list[Any] = list(filling.seen(work.edition, work.run, plain))
        statements += [
            filling.same_under(work.edition, known.n, each.fingerprint, work.run)
            for each, known in same
            if each.fingerprint is not None
        ]
        if (errors or any(each.unsure for each in seen)) and source.number not in work.unsure:
            work.unsure.append(source.number)
        for uri, _, error, _ in errors:
            work.error = said(error if error.startswith(uri) else f"{uri}: {error}")
            ctx.log.warning("%s: %s", work.ask.base, work.error, extra=self._facts())
        ids, now = ctx.engine.new_id, ctx.now()
        if work.ask.errors_only:
            statements += taken_from_errors(work.run, [each.cursor for each in seen])
        statements += writing.not_loaded(work.edition, work.run, source.key, errors, ids=ids, now=now)
        uris = list(dict.fromkeys(uri for each in seen for uri in each.found))
        if uris:
            new, last = await unknown_addresses(ctx, work.run, source.number, uris)
            statements += writing.found_addresses(work.run, source.number, last, new)
        work.cursor = seen[-1].cursor
        return statements

    @contextmanager
    def _phase(self, phase: Phase) -> Iterator[None]:
        self.work.phase = phase
        began = self.ctx.now()
        try:
            yield
        finally:
            self.work.seconds.spend(phase, self.ctx.now() - began)

    def _facts(self, chunk: int | None = None) -> dict[str, Any]:
        """What a line of the log carries: where the run is."""
        return {"kb_id": self.work.ask.base, "batch_id": self.work.batch, "chunk_index": chunk}

    def _tell_refused(self, group: Group, result: Embedded) -> None:
        for piece in group.pieces if result.refused else ():
            if why := result.refused.get(piece.content_hash):
                facts = self._facts(piece.seq)
                self.ctx.log.warning("%s: chunk %d was refused: %s", self.work.ask.base, piece.seq, why, extra=facts)

    def _show(self) -> None:
        counters = self.work.counters
        chunks = "chunk" if counters.chunks_processed == 1 else "chunks"
        self.ctx.progress(
            counters.docs_seen,
            self.work.total,
            f"{counters.chunks_processed:,} {chunks} indexed, {counters.chunks_skipped:,} known",
        )

    def _tell(self) -> None:
        """A line for each tick, for who reads a worker's log."""
        work, seconds = self.work, max(self.work.seconds.active, 0.001)
        log.info(
            "%s: batch %d: %d documents seen, %d chunks indexed, %d known, %d errors, %.1f documents/s, %.1f chunks/s",
            work.ask.base, work.batch, work.counters.docs_seen, work.counters.chunks_processed,
            work.counters.chunks_skipped, work.counters.chunks_error + work.counters.docs_error,
            work.counters.docs_seen / seconds, work.counters.chunks_seen / seconds,
            extra={**self._facts(work.counters.chunks_seen), "job": self.ctx.job.id},
        )  # fmt: skip


def _settled_by(group: Group, seen: Sequence[Seen], settled: int) -> int:
    """How many of these are over once the group is durable: those up to the last document that ends with it."""
    if not group.ends:
        return settled
    last = group.ends[-1]
    return next(place for place, each in enumerate(seen) if each.doc is last) + 1
