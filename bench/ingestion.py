"""Runs the parts of the ingestion bench: documents a second beside LlamaIndex and CocoIndex with the same embedder,
what orchestration adds to it, a run that finds nothing new, and how much memory a run needs. Says of each what is
wanted, and whether it was reached."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable

from bench import ingestion_memory, ingestion_speed
from bench.engine.machine import fsync_ms
from bench.ingestion_memory import FEW, LARGE, MANY
from bench.options import Options
from bench.pages import Part
from bench.results import write_results


def run_ingestion(options: Options) -> int:
    began = time.monotonic()
    parts = [(name, PARTS[name](options)) for name in PARTS if options.wants(name)]
    kind = "one short round: rough figures" if options.quick else f"medians of {options.rounds} rounds"
    done = (
        f"{kind}; {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}, an fsync of 4 KiB takes {fsync_ms():.2f} ms"
        f" now, Python {platform.python_version()}, {time.monotonic() - began:.0f} s in all"
    )
    text = "\n\n".join([*(part.text for _, part in parts), done])
    print(f"\n{text}")
    missed = [line for _, part in parts for line in part.missed]
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    if options.quick:
        return 0
    if len(parts) < len(PARTS):
        print("\nnot written: only some parts ran")
    else:
        path = write_results("ingestion", [row for _, part in parts for row in part.rows], text)
        print(f"\nwritten: {os.path.relpath(path)}")
    return 1 if missed else 0


def speed(options: Options) -> Part:
    documents = 300 if options.quick else 3000
    return ingestion_speed.told(ingestion_speed.rounds(options.rounds, documents), documents)


def rerun(options: Options) -> Part:
    return ingestion_memory.rerun(options.rounds, 1000 if options.quick else 10_000)


def memory(options: Options) -> Part:
    return ingestion_memory.memory((FEW,) if options.quick else (FEW, MANY, *(LARGE if options.large else ())))


PARTS: dict[str, Callable[[Options], Part]] = {"speed": speed, "rerun": rerun, "memory": memory}
