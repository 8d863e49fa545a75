"""A library whose knowledge base is filled by workers that are killed, paused and cancelled at every commit.

`python -m tests.support.ingestion_library STORE FOLDER HOW` is a worker's house: it forks a worker again and again, and
each kills itself (`kill -9`) at its second commit of a group, just before or just after, until the run is over.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from penstock import Penstock
from penstock.config import Settings
from penstock.pipelines.ingestion import bases, embedders
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.model import Configuration, EmbedderSpec
from penstock.pipelines.ingestion.verifying import verify
from penstock.pipelines.ingestion.workflow import ALL
from penstock.store.protocol import Commit, Op, unwrapped

DIMENSION = 16
LEASE = 0.1


class Hashing:
    """An embedder that needs nothing: a text's vector is made from its digest. It remembers what it was asked."""

    name = "hashing"
    model = "sha-256"
    at_once = 64
    asked: ClassVar[list[str]] = []
    turnstile: ClassVar[asyncio.Semaphore | None] = None
    """Where there is one, each call waits to be let through."""

    def __init__(self, spec: EmbedderSpec, settings: Settings) -> None:
        self.dimension = spec.dimension or DIMENSION

    async def embed(self, texts: Sequence[str], ctx: Any, key: str) -> Any:
        if Hashing.turnstile is not None:
            await Hashing.turnstile.acquire()
        Hashing.asked += texts
        return np.stack([self._one(text) for text in texts])

    async def embed_query(self, text: str, engine: Any) -> Any:
        return self._one(text)[None, :]

    def _one(self, text: str) -> Any:
        digest = hashlib.sha256(text.encode()).digest()
        vector = np.frombuffer(digest[: self.dimension], np.uint8).astype(np.float32) - 127.5
        return vector / np.linalg.norm(vector)

    def price(self, tokens: int) -> int:
        return 0


def configuration(folder: Path, *, prune: bool = False) -> Configuration:
    return Configuration.model_validate(
        {
            "sources": [{"type": "markdown", "path": str(folder)}],
            "chunker": {"name": "markdown", "size": 200, "overlap": 20},
            "embedder": "hashing",
            "prune": prune,
        }
    )


def settings(home: Path) -> Settings:
    return Settings.model_validate({"home": home, "ingestion": {"batch": 20, "group": 24}})


def opened(store: str, home: Path, *, lease: float = 30.0) -> _Opened:
    return _Opened(store, home, lease)


class _Opened:
    """`async with opened(…) as app`, with settings of its own."""

    def __init__(self, store: str, home: Path, lease: float) -> None:
        self._app = Penstock(workflows=ALL, store=store, lease=lease)
        self._home = home

    async def __aenter__(self) -> Penstock:
        self._first = embedders.EMBEDDERS.setdefault("hashing", "") == ""
        embedders.EMBEDDERS["hashing"] = "tests.support.ingestion_library:Hashing"
        return await self._app.open(settings=settings(self._home))

    async def __aexit__(self, *_: object) -> None:
        await self._app.close()
        if self._first:
            del embedders.EMBEDDERS["hashing"]


async def contents(app: Penstock, base: str = "library") -> dict[str, Any]:
    """Everything that is searchable, in words that do not depend on the order in which it was written; and that ledger
    and index agree."""
    found = await bases.base_of(app.engine, "default", base)
    if found.edition is None:
        return {}
    edition, index = found.edition, index_for(app.engine)
    told = await verify(app.engine, index, edition)
    assert told.sound, told.faults
    rows = await app.engine.read(
        (
            "SELECT d.uri, d.title, d.content_hash, d.metadata, p.seq, p.position, c.content_hash, c.text, c.n"
            " FROM kb_documents d LEFT JOIN kb_pieces p ON p.edition = d.edition AND p.document = d.n"
            " LEFT JOIN kb_chunks c ON c.edition = p.edition AND c.n = p.chunk"
            " WHERE d.edition = :edition AND d.state = 'current' ORDER BY d.uri, p.seq",
            {"edition": edition},
        )
    )
    places = [row[:8] for row in rows]
    numbers = {row[8]: row[6] for row in rows if row[8] is not None}
    kept = await bases.edition_of(app.engine, edition)
    assert kept is not None
    assert (kept.documents, kept.chunks) == (len({row[0] for row in rows}), len(numbers))
    ((chunks, pieces, documents),) = await app.engine.read(
        (
            "SELECT (SELECT COUNT(*) FROM kb_chunks WHERE edition = :edition),"
            " (SELECT COUNT(*) FROM kb_pieces WHERE edition = :edition),"
            " (SELECT COUNT(*) FROM kb_documents WHERE edition = :edition)",
            {"edition": edition},
        )
    )
    assert (chunks, pieces) == (len(numbers), len([row for row in rows if row[4] is not None])), "nothing is left over"
    assert documents == kept.documents, "no hidden or half written document is left"
    hits = {}
    for word in ("roof", "water", "harvest"):
        by_words = await index.search_text(edition, word, 1000, generation=kept.generation)
        vector = (await Hashing(EmbedderSpec(name="hashing"), None).embed_query(word, None))[0]  # type: ignore[arg-type]
        by_meaning = await index.search_vectors(edition, DIMENSION, vector, 20, generation=kept.generation)
        hits[word] = (
            sorted(numbers[n] for n, _ in by_words),
            [(numbers[n], round(score, 5)) for n, score in by_meaning],
        )
    return {"places": places, "hits": hits}


async def count_left(app: Penstock) -> dict[str, int]:
    """Rows that belong to runs, and to nothing else."""
    left = {}
    for table in ("kb_frontier", "kb_staged", "kb_errors"):
        ((count,),) = await app.engine.read(f"SELECT COUNT(*) FROM {table}")
        left[table] = int(count)
    return left


def _killing(app: Penstock, how: str) -> None:
    """From the second commit of a group on: `before` it reaches the store, or just `after`."""
    store: Any = app.engine.store
    apply, seen = store.apply, 0

    async def applied(ops: Sequence[Op], *, replay: bool = False) -> Any:
        nonlocal seen
        moves = [op for op in map(unwrapped, ops) if isinstance(op, Commit)]
        counts = any(move.move.writes for move in moves)
        seen += counts
        if counts and how == "before" and seen == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await apply(ops, replay=replay)
        if counts and how == "after" and seen == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    store.apply = applied


async def _work(store: str, home: Path, how: str, job: str) -> None:
    async with opened(store, home, lease=LEASE) as app:
        _killing(app, how)
        async with app.worker():
            await app.wait(job, timeout=60)


def _child(store: str, home: Path, how: str, job: str) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(_work(store, home, how, job))
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    _, ended = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(ended)


def main(store: str, folder: str, how: str, job: str) -> None:
    """Ways are taken in turn: `before,after`. Says how often a worker was killed."""
    ways = how.split(",")
    kills = 0
    while (code := _child(store, Path(folder), ways[kills % len(ways)], job)) == -signal.SIGKILL:
        kills += 1
    print(json.dumps({"kills": kills, "code": code}))


if __name__ == "__main__":
    main(*sys.argv[1:])
