"""Runs the rounds: the bare client and Penstock take turns on the same server, with the same rows."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from statistics import median

from bench.gemini import measures
from bench.gemini.server import local_gemini
from bench.home import fresh_folder
from bench.options import Options
from bench.results import Row, write_results
from bench.table import figure, table

AT_ONCE = 32


def run_gemini(options: Options) -> int:
    rows, singles, texts = (1_000, 300, 1_000) if options.quick else (10_000, 2_000, 10_000)
    path = fresh_folder("gemini") / "rows.jsonl"
    measures.write_rows(path, rows)
    found: dict[str, list[float]] = {name: [] for name in ("requests/s", "texts/s", "bare", "penstock", "overhead")}
    began = time.monotonic()
    for number in range(1, options.rounds + 1):
        with local_gemini() as url:
            found["requests/s"].append(asyncio.run(measures.requests_a_second(url, singles, AT_ONCE)))
            found["texts/s"].append(measures.embeddings_a_second(url, texts))
            bare = measures.batch_by_bare_sdk(url, path)
            ours = measures.batch_by_penstock(url, path, fresh_folder("gemini-penstock"))
        found["bare"].append(bare)
        found["penstock"].append(ours)
        found["overhead"].append((ours - bare) / rows * 1e6)
        print(f"round {number} of {options.rounds}: bare {bare:.2f} s, Penstock {ours:.2f} s", flush=True)
    values = {name: median(values) for name, values in found.items()}
    lines = [
        ["local Gemini: generateContent, requests/s (SDK, 32 at once)", figure(values["requests/s"]), ""],
        ["local Gemini: embedded texts/s (100 in a request)", figure(values["texts/s"]), ""],
        [f"{rows:,}-row batch, bare SDK, s", figure(values["bare"]), ""],
        [f"{rows:,}-row batch, Penstock on SQLite, s", figure(values["penstock"]), ""],
        ["Penstock's overhead a row, µs", figure(values["overhead"]), "median of the differences within a round"],
    ]
    kind = "one short round: rough figures" if options.quick else f"medians of {options.rounds} rounds"
    text = "\n".join([
        table(["measure", "value", ""], lines),
        "",
        f"{kind}; {os.cpu_count()} cores, Python {platform.python_version()}, {time.monotonic() - began:.0f} s in all",
    ])  # fmt: skip
    print("\n" + text)
    results = [
        Row("local Gemini, single requests", "requests/s", True, values["requests/s"], {}),
        Row("local Gemini, embeddings", "texts/s", True, values["texts/s"], {}),
        Row(f"batch of {rows} rows", "s", False, values["penstock"], {"bare google-genai": values["bare"]}),
        Row("overhead a row", "µs", False, values["overhead"], {}),
    ]
    if options.quick:
        return 0
    print(f"\nwritten: {os.path.relpath(write_results('gemini', results, text))}")
    return 0
