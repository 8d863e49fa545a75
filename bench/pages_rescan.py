"""`python -m bench.pages_rescan LABELS OUTPUTS`: the plain rescan that the index is measured beside. Every pass lists
all label files, groups them by book, sorts, and looks for outputs, failure counts and what is in flight, until it has
a batch. Prints seconds and peak memory as JSON."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import defaultdict
from glob import iglob
from pathlib import Path

from bench.pages_memory import peak_megabytes


def scan_runnable_pages(
    labels: str,
    outputs: str,
    *,
    failures: dict[str, int],
    inflight: set[str],
    max_retries: int = 3,
    states: frozenset[str] | None = None,
    years: range | None = None,
    limit: int = 100,
) -> list[str]:
    books: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for path in iglob(f"{labels}/*/*/*/*.json"):  # noqa: PTH207
        state, school, year, page = path.rsplit("/", 4)[1:]
        if (states is None or state in states) and (years is None or int(year) in years):
            books[state, school, int(year)].append(page[:-5])
    runnable = []
    for (state, school, year), pages in sorted(books.items()):
        pages.sort(key=int)
        before_done = True
        for page in pages:
            done = Path(f"{outputs}/{state}/{school}/{year}/{page}.json").exists()
            key = f"{state}:{school}:{year}:{int(page)}"
            if not done and failures.get(key, 0) <= max_retries and key not in inflight and before_done:
                runnable.append(key)
                if len(runnable) == limit:
                    return runnable
            before_done = done
    return runnable


def main(labels: str, outputs: str) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE failure_counts (record_key TEXT PRIMARY KEY, failures INTEGER)")
    database.execute("CREATE TABLE inflight_records (record_key TEXT PRIMARY KEY)")
    began = time.perf_counter()
    failures = dict(database.execute("SELECT record_key, failures FROM failure_counts").fetchall())
    inflight = {key for (key,) in database.execute("SELECT record_key FROM inflight_records")}
    found = scan_runnable_pages(labels, outputs, failures=failures, inflight=inflight)
    took = time.perf_counter() - began
    print(json.dumps({"seconds": took, "found": len(found), "megabytes": peak_megabytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
