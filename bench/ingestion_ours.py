"""`python -m bench.ingestion_ours CORPUS HOME EMBEDDER RUNS [WARM]`: a folder of Markdown into a knowledge base on a
new SQLite store, in a process of its own; each further run finds everything unchanged. Prints what each took as a line
of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench import ingestion_wordllama
from bench.pages_memory import peak_megabytes
from penstock import Penstock, __version__, wordvectors
from penstock.pipelines.ingestion import control, status
from penstock.pipelines.ingestion.embedders import EMBEDDERS
from penstock.pipelines.ingestion.model import Configuration
from penstock.pipelines.ingestion.workflow import ALL

BASE = "bench"
PATIENCE = 3600.0

EMBEDDERS["wordllama"] = "bench.ingestion_wordllama:plugin"


def warm(embedder: str) -> None:
    """The model is loaded before the clock starts, as everywhere in this bench."""
    if embedder == "wordllama":
        ingestion_wordllama.vectors(["warm"])
    else:
        wordvectors.word_vectors().totals(["warm"])


def configured(corpus: Path, embedder: str) -> Configuration:
    return Configuration.model_validate(
        {"sources": [{"type": "markdown", "path": str(corpus)}], "embedder": {"name": embedder}}
    )


async def filled(app: Penstock, base: str, config: Configuration) -> dict[str, Any]:
    """One run, and what it says of itself."""
    before, began = os.times(), time.perf_counter()
    submitted = await control.start(app, base, config)
    job = await app.wait(submitted.job_id, timeout=PATIENCE)
    seconds, after = time.perf_counter() - began, os.times()
    if job.status != "completed":
        raise SystemExit(f"the run {job.status}: {job.error}")
    told = await status.status_of(app, await control.run_meant(app, base))
    return {
        "seconds": seconds,
        "cpu": after.user + after.system - before.user - before.system,
        "documents": told.counters["docs_seen"],
        "unchanged": told.counters["docs_unchanged"],
        "chunks": told.counters["chunks_processed"],
        "phases": {phase.name: phase.seconds for phase in told.phases},
        "megabytes": peak_megabytes(),
        "version": __version__,
    }


async def main(corpus: Path, home: Path, embedder: str, runs: int, beforehand: Path | None) -> list[dict[str, Any]]:
    warm(embedder)
    app = Penstock(workflows=ALL, store=f"sqlite:///{home}/penstock.db", outputs=home)
    async with app, app.worker():
        if beforehand is not None:
            await filled(app, "warm", configured(beforehand, embedder))
        return [await filled(app, BASE, configured(corpus, embedder)) for _ in range(runs)]


if __name__ == "__main__":
    asked, place, which, count, *small = sys.argv[1:]
    folder = Path(small[0]).resolve() if small else None
    print(json.dumps(asyncio.run(main(Path(asked).resolve(), Path(place).resolve(), which, int(count), folder))))
