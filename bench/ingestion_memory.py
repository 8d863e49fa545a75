"""How much memory a run needs: of 1,000 and of 10,000 documents, of a corpus of 1 GB in small and in large files, and
of questions to what they filled. How long a run takes that finds everything as it was."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.home import fresh_folder
from bench.ingestion_child import Taken, child
from bench.pages import Part
from bench.results import Row
from bench.table import figure, table
from penstock.pipelines.ingestion.samples import make_corpus

MEGABYTES = 500.0
SECONDS = 3.0

BYTES_A_WORD = 6.4
GIGABYTE = 1_000_000_000


@dataclass(frozen=True)
class Corpus:
    name: str
    documents: int
    words: int


FEW, MANY = Corpus("1,000 documents", 1000, 300), Corpus("10,000 documents", 10_000, 300)
LARGE = (
    Corpus("1 GB, files of 8 kB", int(GIGABYTE / BYTES_A_WORD / 1250), 1250),
    Corpus("1 GB, files of 8 MB", int(GIGABYTE / BYTES_A_WORD / 1_250_000), 1_250_000),
)


def rerun(count: int, documents: int) -> Part:
    """A run of which everything is as it was."""
    folder = fresh_folder("ingestion-corpus")
    make_corpus(folder, documents=documents, words=300)
    home = fresh_folder("ingestion")
    first, *again = child("bench.ingestion_ours", folder, home, "local", count + 1)
    shutil.rmtree(folder)
    shutil.rmtree(home)
    assert all(run["unchanged"] == documents for run in again)
    seconds = median(run["seconds"] for run in again)
    part = Part(
        f"{documents:,} documents: filled in {figure(first['seconds'])} s, the same again in {figure(seconds)} s"
    )
    part.want(f"unchanged re-run of {documents:,} documents, s", seconds, SECONDS)
    part.rows.append(Row(f"unchanged re-run of {documents:,} documents", "s", False, seconds, {}))
    return part


def memory(corpora: tuple[Corpus, ...]) -> Part:
    part = Part("")
    lines = []
    for corpus in corpora:
        run, asked, size = _measured(corpus)
        lines.append([
            corpus.name, figure(size / 1e6), f"{run['chunks']:,}", figure(run["seconds"]), figure(run["megabytes"]),
            figure(asked["before"]), figure(asked["megabytes"]), figure(asked["first"] * 1e3),
            figure(asked["median"] * 1e3),
        ])  # fmt: skip
        part.want(f"peak memory, MB, {corpus.name}", run["megabytes"], MEGABYTES)
        part.rows.append(Row(f"peak memory, {corpus.name}", "MB", False, run["megabytes"], {}))
        part.rows.append(Row(f"peak memory of searching, {corpus.name}", "MB", False, asked["megabytes"], {}))
    headings = [
        "", "MB of text", "chunks", "s", "peak MB", "MB before a search", "peak MB searching", "first search ms",
        "search ms",
    ]  # fmt: skip
    part.text = table(headings, lines)
    return part


def _measured(corpus: Corpus) -> tuple[Taken, dict[str, Any], int]:
    folder, home = fresh_folder("ingestion-corpus"), fresh_folder("ingestion")
    try:
        paths: list[Path] = make_corpus(folder, documents=corpus.documents, words=corpus.words)
        size = sum(path.stat().st_size for path in paths)
        (run,) = child("bench.ingestion_ours", folder, home, "local", 1)
        print(f"{corpus.name}: {run['seconds']:.1f} s, {run['megabytes']:.0f} MB", flush=True)
        return run, child("bench.ingestion_search", home), size
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
