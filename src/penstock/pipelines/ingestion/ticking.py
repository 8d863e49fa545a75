"""One batch of documents: loaded, cut into chunks, embedded and indexed, in groups of chunks that are a commit each.

After every commit the run knows how far it is, to the chunk. Whatever stops it (a pause, a crash, a lost lease), it
goes on at the next group: what is durable is neither written nor counted again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import Permanent, RateLimited, Transient
from penstock.engine.outcome import Again
from penstock.pipelines.ingestion import filling, metrics, writing
from penstock.pipelines.ingestion.embedding import Embedded, embedded
from penstock.pipelines.ingestion.index import Index
from penstock.pipelines.ingestion.living import Living, addresses_left, let_go, living, unknown_addresses
from penstock.pipelines.ingestion.loading import Batch, Loader, Seen
from penstock.pipelines.ingestion.plugins import Embedder
from penstock.pipelines.ingestion.removing import removal
from penstock.pipelines.ingestion.statements import listed
from penstock.pipelines.ingestion.trying import ATTEMPTS, STRIKES, NotYet, tried
from penstock.pipelines.ingestion.work import Counters, Part, Phase, Work
from penstock.pipelines.ingestion.writing import Group


class Tick:
    """What one batch needs."""

    def __init__(self, work: Work, ctx: Context, embedder: Embedder, index: Index) -> None:
        self.work = work
        self.ctx = ctx
        self.embedder = embedder
        self.index = index
        self.deferred = bool(getattr(embedder, "deferred", False))
        self._last_chunk = 0

    async def go(self) -> Again:
        """One batch, to its end or until the run is to halt."""
        work, began = self.work, self.ctx.now()
        try:
            answer = await self._batch()
        except NotYet as later:
            await let_go(work.run)
            answer = Again(work, after=later.after)
        work.seconds.active += self.ctx.now() - began
        self._show()
        return answer

    async def _batch(self) -> Again:
        work, ctx = self.work, self.ctx
        last_document, self._last_chunk = await filling.last_numbers(ctx, work.edition)
        source = await living(work, ctx)
        loader = Loader(work, ctx, source, last_document)
        with self._phase("load"):
            batch = await loader.load()
        work.seconds.chunk += batch.chunking
        work.seconds.load -= batch.chunking
        skip = await self._go_on_with_part(batch)
        if not await self._write(source, batch, skip):
            return Again(work)
        work.batch += bool(batch.seen)
        if not batch.more:
            await let_go(work.run)
            # What was found on the way is looked at before the next source.
            if not any(each.found for each in batch.seen):
                await self._source_done(source)
        return Again(work)

    async def _source_done(self, source: Living) -> None:
        work = self.work
        if await addresses_left(self.ctx, work.run, source.number, work.cursor) and source.number not in work.unsure:
            work.unsure.append(source.number)
        work.source, work.cursor = work.source + 1, None

    async def _write(self, source: Living, batch: Batch, skip: int) -> bool:
        """Everything that was seen, group by group; False where the run is to halt before the end."""
        most = self.ctx.settings.ingestion.group
        size = most if self.deferred else min(most, self.embedder.at_once)
        coming = list(writing.groups(batch.docs, size, skip=skip)) or [Group()]
        settled = 0
        for place, group in enumerate(coming):
            last = place == len(coming) - 1
            if place and self.ctx.halted:
                return False
            statements, counters = await self._group(group, source.number)
            until = len(batch.seen) if last else _settled_by(group, batch.seen, settled)
            statements += await self._settle(source, batch.seen[settled:until], counters)
            settled = until
            statements += metrics.counted(counters, worker=self.ctx.job.worker)
            for statement in statements:
                self.ctx.write(statement)
            self.work.counters.add(counters)
            self.ctx.count(**counters.amounts())
            if not last:
                with self._phase("index"):
                    await self.ctx.checkpoint(self.work)
                self._show()
        return True

    async def _go_on_with_part(self, batch: Batch) -> int:
        """How many chunks of the first document are there already. One that has changed meanwhile, or vanished, is
        begun anew: what was written of it is taken out, and off the counters."""
        work, ctx, part = self.work, self.ctx, self.work.part
        if part is None:
            return 0
        first = next(iter(batch.docs), None)
        if first is not None and (first.document.uri, first.content_hash) == (part.uri, part.content_hash):
            first.n, first.begun = part.document, True
            return part.chunks
        gone = 0
        while not gone:
            statements, gone = await removal(ctx, self.index, work.edition, [part.document])
            for statement in statements:
                ctx.write(statement)
            if gone:
                work.counters.add(part.counted, times=-1)
                ctx.count(**part.counted.amounts(times=-1))
                work.part = None
            await ctx.checkpoint(work)
        return 0

    async def _group(self, group: Group, source: int) -> tuple[list[Any], Counters]:
        """The statements of one group, and what it adds to the counters."""
        work, now = self.work, self.ctx.now()
        counters = Counters()
        statements: list[Any] = list(writing.begins(work.edition, work.run, group.begins, now))
        if self.deferred:
            statements += self._staged(group, counters, now)
            counters.chunks_seen = len(group.pieces)
            own = Counters(chunks_seen=group.of_last) if group.pieces else Counters()
        else:
            known = await filling.known_chunks(self.ctx, work.edition, [piece.content_hash for piece in group.pieces])
            result = await self._embedded(
                {piece.content_hash: piece.text for piece in group.pieces if piece.content_hash not in known}
            )
            with self._phase("index"):
                written = writing.placed(
                    work.edition, work.run, group.pieces, known, result,
                    index=self.index, last_chunk=self._last_chunk, now=now,
                )  # fmt: skip
                self._last_chunk = written.last_chunk
                counters.add(written.counters)
                own = written.of_last
                statements += written.statements
                uris = {doc.n: doc.document.uri for doc in (*group.begins, *group.ends)}
                if work.part is not None:
                    uris[work.part.document] = work.part.uri
                statements += writing.refusals(
                    work.edition, work.run, source, group.pieces, result.refused, uris,
                    attempts=ATTEMPTS, ids=self.ctx.engine.new_id, now=now,
                )  # fmt: skip
                statements += writing.ends(work.edition, work.run, group.ends, now, counters)
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
        statements += writing.ends(work.edition, work.run, empty, now, counters)
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
                self._strike()
                return Embedded(refused=dict.fromkeys(texts, str(error)))
        self.work.attempt = self.work.strikes = 0
        if result.refused:
            self.work.error = next(iter(result.refused.values()))
        return result

    def _strike(self) -> None:
        """An embedder that is away for all of a group may be away for all of the others."""
        work = self.work
        work.strikes += 1
        if work.strikes >= STRIKES:
            work.strikes = 0
            raise Permanent(
                f"nothing could be embedded {STRIKES} times in a row ({work.error}): see that {self.embedder.name}"
                f" answers, then `penstock ingest resume {work.ask.base}`; it goes on where it was"
            )

    def _move_part(self, group: Group, own: Counters) -> None:
        """Which document the run is in the middle of once this group is durable, and what that has counted."""
        last = group.pieces[-1] if group.pieces else None
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
        errors = [each.error for each in seen if each.error is not None]
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
        if errors and source.number not in work.unsure:
            work.unsure.append(source.number)
        for uri, _, error in errors:
            ctx.log.warning("%s: %s: %s", work.ask.base, uri, error)
            work.error = f"{uri}: {error}"
        ids, now = ctx.engine.new_id, ctx.now()
        if work.ask.errors_only:
            names, values = listed([each.cursor for each in seen])
            statements.append((f"DELETE FROM kb_errors WHERE id IN {names}", values))
        statements += writing.not_loaded(
            work.edition, work.run, source.number, errors, ids=ids, attempts=ATTEMPTS, now=now
        )
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

    def _show(self) -> None:
        counters = self.work.counters
        self.ctx.progress(
            counters.docs_seen,
            self.work.total,
            f"{counters.chunks_processed:,} chunks indexed, {counters.chunks_skipped:,} known",
        )


def _settled_by(group: Group, seen: Sequence[Seen], settled: int) -> int:
    """How many of these are over once the group is durable: those up to the last document that ends with it."""
    if not group.ends:
        return settled
    last = group.ends[-1]
    return next(place for place, each in enumerate(seen) if each.doc is last) + 1
