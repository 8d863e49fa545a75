"""`python -m bench.ingestion_cocoindex CORPUS HOME TARGET WARM`, in CocoIndex's own interpreter: the same folder
through a flow as its documentation writes it, with per-file memoisation and batched embeddings. Its state is in LMDB;
the target is SQLite (vectors as blobs) or LanceDB. Prints what each of two runs took as a line of JSON.

SQLite gets a write-ahead log, with which it is faster than with the connector's defaults.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

# Read when it is imported: nothing leaves this machine.
os.environ["COCOINDEX_DISABLE_USAGE_TRACKING"] = "1"

import cocoindex as coco
import numpy as np
from cocoindex.connectors import localfs
from cocoindex.ops.text import RecursiveSplitter
from cocoindex.resources.file import PatternFilePathMatcher
from cocoindex.resources.schema import VectorSchema
from numpy.typing import NDArray

from bench.ingestion_wordllama import AT_ONCE, DIMENSION, vectors
from bench.pages_memory import peak_megabytes

BYTES_A_TOKEN = 4
SIZE, OVERLAP = 800 * BYTES_A_TOKEN, 150 * BYTES_A_TOKEN
"""Its splitter counts bytes."""

CORPUS, HOME, WARM = (Path(sys.argv[number]).resolve() for number in (1, 2, 4))
TARGET = sys.argv[3]
KEY = ["filename", "start"]

splitter = RecursiveSplitter()

if TARGET == "sqlite":
    from cocoindex.connectors import sqlite as store

    DATABASE: Any = coco.ContextKey[store.ManagedConnection]("database")
    Vector = Annotated[bytes, store.SqliteType("BLOB")]
else:
    from cocoindex.connectors import lancedb as store

    DATABASE = coco.ContextKey[store.LanceAsyncConnection]("database")
    Vector = Annotated[NDArray, VectorSchema(dtype=np.dtype(np.float32), size=DIMENSION)]


@dataclass
class Row:
    filename: str
    start: int
    text: str
    vector: Vector


@coco.lifespan
async def lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
    builder.settings.db_path = HOME / "state"
    if TARGET == "sqlite":
        # This Python may have been built without loadable extensions: vectors are plain blobs, as ours are.
        with store.managed_connection(HOME / "target.db", load_vec=False) as database:
            database._conn.execute("PRAGMA journal_mode = WAL")
            builder.provide(DATABASE, database)
            yield
    else:
        builder.provide(DATABASE, await store.connect_async(str(HOME / "lance")))
        yield


@coco.fn.as_async(batching=True, max_batch_size=AT_ONCE)
def embed(texts: list[str]) -> list[NDArray[np.float32]]:
    return list(vectors(texts))


@coco.fn
async def one_chunk(chunk: Any, filename: str, table: Any) -> None:
    vector = await embed(chunk.text)
    told = vector.tobytes() if TARGET == "sqlite" else vector
    table.declare_row(row=Row(filename, chunk.start.char_offset, chunk.text, told))


@coco.fn(memo=True)
async def one_file(file: localfs.File, table: Any) -> None:
    text = await file.read_text()
    chunks = splitter.split(text, chunk_size=SIZE, chunk_overlap=OVERLAP, language="markdown")
    await coco.map(one_chunk, chunks, str(file.file_path.path), table)


@coco.fn
async def whole(folder: Path, name: str) -> None:
    table = await store.mount_table_target(DATABASE, name, await store.TableSchema.from_class(Row, primary_key=KEY))
    files = localfs.walk_dir(folder, recursive=True, path_matcher=PatternFilePathMatcher(included_patterns=["**/*.md"]))
    await coco.mount_each(one_file, files.items(), table)


beforehand = coco.App(coco.AppConfig(name="warm"), whole, folder=WARM, name="warm")
app = coco.App(coco.AppConfig(name="bench"), whole, folder=CORPUS, name="chunks")


async def run() -> dict[str, Any]:
    before, began = os.times(), time.perf_counter()
    await app.update()
    seconds, after = time.perf_counter() - began, os.times()
    return {
        "seconds": seconds,
        "cpu": after.user + after.system - before.user - before.system,
        "chunks": await rows(),
        "megabytes": peak_megabytes(),
        "version": version("cocoindex"),
    }


async def rows() -> int:
    if TARGET == "sqlite":
        import sqlite3

        database = sqlite3.connect(HOME / "target.db")
        ((count,),) = database.execute("SELECT COUNT(*) FROM chunks")
        database.close()
        return int(count)
    table = await (await store.connect_async(str(HOME / "lance"))).open_table("chunks")
    return int(await table.count_rows())


async def main() -> list[dict[str, Any]]:
    async with coco.runtime():
        await beforehand.update()
        return [await run() for _ in range(2)]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
