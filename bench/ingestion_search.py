"""`python -m bench.ingestion_search HOME`: questions to the knowledge base that `bench.ingestion_ours` has left, in a
process of its own, so that what searching needs is not taken for what filling needs. Prints how long they took and the
peak of memory as a line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.ingestion_ours import BASE
from bench.pages_memory import peak_megabytes
from penstock import Penstock
from penstock.pipelines.ingestion import searching
from penstock.pipelines.ingestion.workflow import ALL

QUESTIONS = (
    "who keeps a record of the second watering", "what does the foreman wait for", "heating with old pipes",
    "which pump stands behind the cold store", "why is the bridge closed", "the price of gas in dry years",
    "what is moved along with three crates of seedlings", "a swarm of bees at the weekend", "note 77",
)  # fmt: skip


async def main(home: Path) -> dict[str, Any]:
    async with Penstock(workflows=ALL, store=f"sqlite:///{home}/penstock.db", outputs=home) as app:
        before, taken = peak_megabytes(), []
        for question in QUESTIONS:
            began = time.perf_counter()
            found = await searching.search(app.engine, BASE, question, top=10)
            taken.append(time.perf_counter() - began)
            assert found, question
    return {"first": taken[0], "median": median(taken[1:]), "before": before, "megabytes": peak_megabytes()}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1]).resolve()))))
