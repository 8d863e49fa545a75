"""`python -m bench.documents_ours FOLDER`: take in a folder of documents and wait until all of them are through.
What the environment says (`PENSTOCK_…`) decides where: with `WORKER=here` the jobs run in this process too, else a
worker somewhere does. Prints what it took as a line of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

from bench.documents_cpu import cpu_of, told_roots
from penstock import Penstock
from penstock.builtin import installed_workflows
from penstock.config import Settings, load
from penstock.pipelines.documents import asking, contents

LOOK_EVERY = 0.1
PATIENCE = 180.0
WARM = 16


async def main(folder: Path) -> dict[str, float]:
    settings = load()
    # Nobody waits for a model here: the usual ten at once would be a measure of that limit.
    documents = settings.documents.model_copy(update={"max_concurrent_tasks": 10_000})
    settings = settings.model_copy(update={"documents": documents})
    paths = sorted(folder.rglob("*.pdf"))
    first, rest = paths[:WARM], paths[WARM:]
    app = Penstock(workflows=installed_workflows())
    async with AsyncExitStack() as stack:
        await app.open(settings=settings)
        stack.push_async_callback(app.close)
        if os.environ.get("WORKER") == "here":
            await stack.enter_async_context(app.worker())
        # Every process has warmed up when the rest comes.
        await _through(app, settings, await asyncio.to_thread(_taken_in, app, first))
        before, began = cpu_of(told_roots()), time.perf_counter()
        kept = await asyncio.to_thread(_taken_in, app, rest)
        taken_in = time.perf_counter()
        await _through(app, settings, kept)
        done, after = time.perf_counter(), cpu_of(told_roots())
    return {"documents": len(rest), "intake": taken_in - began, "work": done - taken_in, "cpu": after - before}


def _taken_in(app: Penstock, paths: list[Path]) -> list[contents.Kept]:
    return [contents.copy_in(app.engine, "default", path, largest=10**7) for path in paths]


async def _through(app: Penstock, settings: Settings, kept: list[contents.Kept]) -> None:
    added = await asking.add(app, settings, kept)
    assert added.batch_id is not None
    async with asyncio.timeout(PATIENCE):
        while (batch := await app.batch(added.batch_id)).finished is None:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_EVERY)
    assert batch.completed == len(kept), batch


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))))
