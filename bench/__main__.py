"""`python -m bench [NAME ...]`: choose the benches, run them, leave their results in bench/results."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import documents, ingestion, pages
from bench.engine import contestants
from bench.engine.run import run_engine
from bench.gemini.run import run_gemini
from bench.home import reserved
from bench.options import Options
from bench.service.run import run_service

BENCHES: dict[str, Callable[[Options], int]] = {
    "engine": run_engine,
    "gemini": run_gemini,
    "service": run_service,
    "pages": pages.run_pages,
    "documents": documents.run_documents,
    "ingestion": ingestion.run_ingestion,
}

WITH_PARTS: dict[str, Mapping[str, object]] = {
    "pages": pages.PARTS,
    "documents": documents.PARTS,
    "ingestion": ingestion.PARTS,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Penstock beside its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="benches to run (default: all)")
    parser.add_argument("--list", action="store_true", help="list the benches and their contestants")
    parser.add_argument("--quick", action="store_true", help="one short round, with rough figures")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds to take the median of (default: 3)")
    parser.add_argument("--peers", metavar="A,B", help="only contestants whose names begin with one of these")
    parser.add_argument(
        "--tree", type=Path, metavar="FOLDER", help="pages: keep the million files there, or reuse them"
    )
    parser.add_argument(
        "--large", action="store_true", help="ingestion: also a corpus of 1 GB, which takes half an hour"
    )
    chosen = parser.parse_args()
    if chosen.list:
        print("\n  ".join(["engine", *(contestant.name for contestant in contestants.ALL)]))
        print("\n  ".join(["gemini", "google-genai", "penstock"]))
        print("\n  ".join(["service", "penstock"]))
        print("\n  ".join(["pages", *pages.PARTS]))
        print("\n  ".join(["documents", *documents.PARTS]))
        print("\n  ".join(["ingestion", *ingestion.PARTS]))
        return 0
    # `documents queue` is the same as `documents --peers queue`.
    if chosen.names and chosen.names[0] in WITH_PARTS and set(chosen.names[1:]) & WITH_PARTS[chosen.names[0]].keys():
        chosen.peers = ",".join(chosen.names[1:])
        del chosen.names[1:]
    for name in chosen.names:
        if name not in BENCHES:
            parser.error(f"there is no bench {name!r}; there are: {', '.join(BENCHES)}")
    if chosen.rounds is not None and chosen.rounds < 1:
        parser.error("--rounds must be at least 1")
    options = Options(
        quick=chosen.quick,
        rounds=chosen.rounds or (1 if chosen.quick else 3),
        peers=frozenset(chosen.peers.split(",")) if chosen.peers else None,
        tree=chosen.tree,
        large=chosen.large,
    )
    if options.peers and not any(
        map(
            options.wants,
            [
                *(contestant.name for contestant in contestants.ALL),
                *(part for parts in WITH_PARTS.values() for part in parts),
            ],
        )
    ):
        parser.error(f"no contestant is named {chosen.peers}; see --list")
    # Servers and workers are stopped on the way out, so a polite kill must unwind like Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with reserved():
        return max(BENCHES[name](options) for name in chosen.names or BENCHES)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
