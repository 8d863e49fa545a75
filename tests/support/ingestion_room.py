"""A reading room: a knowledge base on a real store whose shelf, embedder and clock a test has in its hand. No worker
runs by itself: `advance` moves whatever is due, and time passes from one due job to the next."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from penstock import Job, Penstock
from penstock.config import Settings
from penstock.engine.call import Usage
from penstock.engine.errors import Permanent, StepError
from penstock.pipelines.ingestion import bases, chunking, control, embedders, searching, sources, status, verifying
from penstock.pipelines.ingestion.bases import Run
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.model import (
    Chunk,
    ChunkerSpec,
    Configuration,
    Document,
    EmbedderSpec,
    Entry,
    Known,
    Loaded,
)
from penstock.pipelines.ingestion.plugins import Tools
from penstock.pipelines.ingestion.status import Status
from penstock.pipelines.ingestion.verifying import Verified
from penstock.pipelines.ingestion.workflow import ALL
from penstock.remote.protocol import Collected, Order
from tests.support.house import START
from tests.support.provider import Provider

DIMENSION = 8


def paragraphs(document: Document, spec: ChunkerSpec) -> list[Chunk]:
    """Each paragraph is a chunk, so that a test says what the chunks are."""
    texts = [text for text in document.text.split("\n\n") if text.strip()]
    return [Chunk(text, {"start": place}) for place, text in enumerate(texts)]


def backwards(document: Document, spec: ChunkerSpec) -> list[Chunk]:
    return paragraphs(document, spec)[::-1]


@contextmanager
def known_parts() -> Iterator[None]:
    """What the room is furnished with can be named like what comes with Penstock, as long as it is open."""
    furniture: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (chunking.CHUNKERS, {"paragraphs": paragraphs, "backwards": backwards}),
        (embedders.EMBEDDERS, {"scripted": f"{__name__}:scripted"}),
        (sources.SOURCES, {"shelf": f"{__name__}:shelf"}),
    ]
    for known, ours in furniture:
        known.update(ours)
    try:
        yield
    finally:
        for known, ours in furniture:
            for name in ours:
                known.pop(name, None)


Loads = str | Document | None | Exception | Callable[[], Any]


@dataclass
class Script:
    """What the embedder does, and what it was asked. `refuses`: texts with one of these words; `trouble`: raised by the
    next calls, one each (None: nothing); `before`: awaited in each call, with the texts."""

    asked: list[str] = field(default_factory=list)
    calls: int = 0
    refuses: set[str] = field(default_factory=set)
    trouble: list[Exception | None] = field(default_factory=list)
    always: Exception | None = None
    before: Callable[[Sequence[str]], Awaitable[None]] | None = None
    at_once: int = 4
    length: int | None = None


@dataclass
class Shelf:
    """Documents by their names: a text, or what is raised instead. The fingerprint is that of the text, unless another
    is said."""

    books: dict[str, Loads] = field(default_factory=dict)
    fingerprints: dict[str, str | None] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(self, name: str, *paragraphs: str) -> None:
        self.books[name] = "\n\n".join(paragraphs)

    def touch(self, name: str) -> None:
        self.fingerprints[name] = f"touched {self.fingerprints.get(name)}"


SCRIPT = Script()
SHELVES: dict[str, Shelf] = {}


class ShelfSource:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._closed = False

    async def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        for name in sorted(self._shelf.books):
            if cursor is None or name > cursor:
                yield Entry(name, name, self._fingerprint(name))

    async def load(self, entry: Entry, known: Known | None) -> Loaded:
        shelf = self._shelf
        shelf.loads.append(entry.uri)
        await asyncio.sleep(0)
        if self._closed:
            raise ValueError("the shelf was taken away while it was read")
        book = shelf.books.get(entry.uri)
        if callable(book):
            book = book()
        if isinstance(book, Exception):
            raise book
        if book is None:
            raise Permanent(f"{entry.uri} is not on the shelf")
        if isinstance(book, Document):
            return Loaded(book)
        return Loaded(
            Document(
                entry.uri, entry.uri.title(), str(book), metadata=shelf.metadata.get(entry.uri, {}),
                fingerprint=self._fingerprint(entry.uri),
            )
        )  # fmt: skip

    def _fingerprint(self, name: str) -> str | None:
        return self._shelf.fingerprints.get(name) or hashlib.sha256(repr(self._shelf.books[name]).encode()).hexdigest()

    async def count(self) -> int | None:
        return len(self._shelf.books)

    async def close(self) -> None:
        self._closed = True


def shelf(options: Mapping[str, Any], tools: Tools) -> ShelfSource:
    return ShelfSource(SHELVES.setdefault(str(options["path"]), Shelf()))


class Scripted:
    name = "scripted"

    def __init__(self, spec: EmbedderSpec) -> None:
        self.model = spec.model or "words"
        self.dimension = spec.dimension or DIMENSION
        self.at_once = SCRIPT.at_once

    async def embed(self, texts: Sequence[str], ctx: Any, key: str) -> Any:
        SCRIPT.calls += 1
        if SCRIPT.before is not None:
            await SCRIPT.before(texts)
        trouble = SCRIPT.trouble.pop(0) if SCRIPT.trouble else None
        if trouble is not None:
            raise trouble
        if SCRIPT.always is not None:
            raise SCRIPT.always
        for text in texts:
            if refused(text):
                raise Permanent(f"{refused(text)} is not embedded here")
        SCRIPT.asked += texts
        return np.stack([vector(text, SCRIPT.length or self.dimension) for text in texts])

    async def embed_query(self, text: str, engine: Any) -> Any:
        return vector(text, self.dimension)[None, :]

    def price(self, tokens: int) -> int | None:
        return 0


class Deferred(Scripted):
    """Through the remote `slow`, which a test holds in its hand."""

    deferred = True
    batch_remote = "slow"
    batch_tokens: int | None = None

    def tokens_of(self, text: str) -> int:
        return len(text)

    def line(self, key: str, text: str) -> bytes:
        return f"{key} {text}".encode()

    def request(self, file: Path) -> dict[str, Any]:
        return {"lines": [line.decode() for line in file.read_bytes().split(b"\n") if b" " in line]}

    def vectors_of(self, folder: Path, result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for line in result["lines"]:
            key, _, text = line.partition(" ")
            word = refused(text)
            yield key, (Permanent(f"{word} is not embedded here") if word else vector(text, self.dimension))


class Slow(Provider):
    """A provider whose work is done when a test says so: what it is given it gives back."""

    def __init__(self) -> None:
        super().__init__(name="slow", finishes="running", poll_every=1.0, poll_at_most=1.0)
        self.given: list[list[str]] = []

    async def submit(self, order: Order) -> Any:
        accepted = await super().submit(order)
        self.given.append(order.request["lines"])
        return accepted

    def finish(self, state: Any = "succeeded") -> None:
        for work in self.works.values():
            if work.state == "running":
                work.state = state

    async def collect(self, order: Order, provider_id: str) -> Collected:
        lines = self.given[int(provider_id.removeprefix("work-")) - 1]
        SCRIPT.asked += [line.partition(" ")[2] for line in lines]
        return Collected(result={"lines": lines}, usage=Usage(10, 0), cost=self.cost)


def scripted(spec: EmbedderSpec, settings: Settings) -> Scripted:
    return Deferred(spec) if spec.batch else Scripted(spec)


def refused(text: str) -> str | None:
    return next((word for word in SCRIPT.refuses if word in text), None)


def vector(text: str, dimension: int = DIMENSION) -> Any:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    numbers = np.frombuffer(digest[:dimension], np.uint8).astype(np.float32) - 127.5
    return numbers / np.linalg.norm(numbers)


class RoomClock:
    """Time stands still until a test moves it; who sleeps is woken then, and costs nothing before."""

    def __init__(self) -> None:
        self._at = START
        self._sleepers: dict[asyncio.Future[None], float] = {}

    @property
    def at(self) -> float:
        return self._at

    @at.setter
    def at(self, at: float) -> None:
        self._at = at
        for sleeper, due in self._sleepers.items():
            if due <= at and not sleeper.done():
                sleeper.set_result(None)

    def now(self) -> float:
        return self._at

    def monotonic(self) -> float:
        return self._at

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return await asyncio.sleep(0)
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers[sleeper] = self._at + seconds
        try:
            await sleeper
        finally:
            del self._sleepers[sleeper]


class Room:
    """`tables` answers a question to the database; the rest is what people do."""

    def __init__(self, app: Penstock, clock: RoomClock, slow: Slow) -> None:
        self.app, self.clock, self.slow = app, clock, slow
        self.shelf = SHELVES.setdefault("one", Shelf())
        self.waits: list[float] = []

    async def advance(self, *, most: int = 500, longest: float = 120.0) -> None:
        """Until nothing is due within `longest` seconds. Time passes where everybody waits; `waits` says how long."""
        engine, idle = self.app.engine, 0
        for _ in range(most):
            tended = await engine.tend()
            wake = await engine.advance_next()
            # A tick may have left other work behind.
            idle = 0 if wake is not None or tended else idle + 1
            if idle == 2:
                return
            if wake is not None and wake.delay > 0:
                if wake.delay > longest:
                    return
                self.waits.append(wake.delay)
                self.clock.at += wake.delay
        raise AssertionError("it goes on and on")

    async def tick(self) -> None:
        """One tick of the best job that is due."""
        await self.app.engine.advance_next()

    async def start(self, base: str = "kb", *, tenant: str = "default", **told: Any) -> Run:
        """Begin a run; `shelf` names other shelves than the first."""
        await control.start(
            self.app, base, configured(**told), rebuild=told.get("rebuild", False), tenant=tenant, actor="ann"
        )
        return await self.run(base, tenant=tenant)

    async def fill(self, base: str = "kb", *, tenant: str = "default", **told: Any) -> Status:
        """A run from its beginning to its end, and what is done behind it."""
        run = await self.start(base, tenant=tenant, **told)
        await self.advance()
        return await self.told(run.id)

    async def run(self, name: str = "kb", *, tenant: str = "default") -> Run:
        return await control.run_meant(self.app, name, tenant=tenant)

    async def told(self, name: str = "kb", *, tenant: str | None = "default") -> Status:
        return await status.status_of(self.app, await control.run_meant(self.app, name, tenant=tenant))

    async def job(self, name: str = "kb") -> Job:
        return await self.app.job((await self.told(name)).job)

    async def tables(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        return await self.app.engine.read((statement, values))

    async def count(self, table: str, where: str = "1 = 1", **values: Any) -> int:
        ((count,),) = await self.tables(f"SELECT COUNT(*) FROM {table} WHERE {where}", **values)
        return int(count)

    async def write(self, statement: str, **values: Any) -> None:
        await self.app.engine.write((statement, values))

    async def edition(self, base: str = "kb", tenant: str = "default") -> int:
        found = (await bases.base_of(self.app.engine, tenant, base)).edition
        assert found is not None
        return found

    async def verified(self, base: str = "kb") -> Verified:
        return await verifying.verify(self.app.engine, index_for(self.app.engine), await self.edition(base))

    async def texts(self, base: str = "kb", tenant: str = "default") -> dict[str, list[str]]:
        """Document → its searchable chunks in order. Ledger, index and what is counted agree, or it is an error."""
        number = await self.edition(base, tenant)
        told = await verifying.verify(self.app.engine, index_for(self.app.engine), number)
        assert told.sound, told.faults
        rows = await self.tables(
            "SELECT d.uri, c.text FROM kb_documents d LEFT JOIN kb_pieces p ON p.edition = d.edition"
            " AND p.document = d.n LEFT JOIN kb_chunks c ON c.edition = p.edition AND c.n = p.chunk"
            " WHERE d.edition = :edition AND d.state = 'current' ORDER BY d.uri, p.seq",
            edition=number,
        )
        found: dict[str, list[str]] = {}
        for uri, text in rows:
            found.setdefault(uri, []).extend([] if text is None else [text])
        return found

    async def whole(self, base: str = "kb", tenant: str = "default") -> dict[str, list[str]]:
        """The same, and nothing else is left in the tables."""
        found = await self.texts(base, tenant)
        number = await self.edition(base, tenant)
        kept = await bases.edition_of(self.app.engine, number)
        assert kept is not None
        chunks = {text for texts in found.values() for text in texts}
        have = {
            table: await self.count(f"kb_{table}", "edition = :edition", edition=number)
            for table in ("documents", "chunks", "pieces")
        }
        assert have == {
            "documents": len(found), "chunks": len(chunks), "pieces": sum(map(len, found.values())),
        }, "something is left over"  # fmt: skip
        assert (kept.documents, kept.chunks) == (len(found), len(chunks)), "the edition is counted right"
        assert await self.count("kb_staged") == await self.count("kb_frontier") == 0
        return found

    async def found(self, question: str, base: str = "kb", **told: Any) -> list[str]:
        """The texts of what a search by words finds."""
        told = {"mode": "text", **told}
        return [hit.text for hit in await searching.search(self.app.engine, base, question, **told)]


def configured(
    shelf: str | Sequence[str] = "one",
    *,
    size: int = 100,
    chunker: str = "paragraphs",
    embedder: str = "scripted",
    model: str | None = None,
    batch: bool = False,
    prune: bool = False,
    rebuild: bool = False,
) -> Configuration:
    names = [shelf] if isinstance(shelf, str) else shelf
    return Configuration.model_validate(
        {
            "sources": [{"type": "shelf", "path": name} for name in names],
            "chunker": {"name": chunker, "size": size, "overlap": 0},
            "embedder": {"name": embedder, "batch": batch} | ({} if model is None else {"model": model}),
            "prune": prune,
        }
    )


@asynccontextmanager
async def room(
    store: str, home: Path, *, clock: RoomClock | None = None, fresh: bool = True, **ingestion: Any
) -> AsyncIterator[Room]:
    """`fresh`: nothing is scripted and the shelves are empty; otherwise it is the room of before, opened again."""
    if fresh:
        SCRIPT.__init__()  # type: ignore[misc]
        SHELVES.clear()
    at, slow = clock or RoomClock(), Slow()
    app = Penstock(workflows=ALL, store=store, clock=at, remotes=[slow])
    settings = Settings.model_validate({"home": home, "ingestion": {"batch": 4, "group": 4, **ingestion}})
    with known_parts():
        await app.open(settings=settings)
        try:
            yield Room(app, at, slow)
        finally:
            await app.close()


__all__ = ["DIMENSION", "SCRIPT", "SHELVES", "Room", "Shelf", "StepError", "configured", "room", "vector"]
