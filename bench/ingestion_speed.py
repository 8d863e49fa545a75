"""Documents a second of the same corpus with the same embedder: Penstock, LlamaIndex and CocoIndex, and a bare loop.
They take turns; each ratio is of one round. Interpreters, imports and models are warm before the clock starts, by a few
documents that are taken in first."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.environments import Unavailable
from bench.home import fresh_folder
from bench.ingestion_child import Taken, child
from bench.pages import Part
from bench.results import Row
from bench.table import figure, table
from penstock.pipelines.ingestion.samples import make_corpus

WORDS = 1000
"""Of a document: about three chunks."""

WARM = 16

OURS, OWN = "Penstock", "Penstock, its own embedder"
BARE, BARE_OWN = "bare loop", "bare loop, Penstock's embedder"

CONTESTANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    BARE: ("bench.ingestion_bare", ("wordllama",)),
    OURS: ("bench.ingestion_ours", ("wordllama", "2")),
    "LlamaIndex, LanceDB": ("bench.ingestion_llamaindex", ("four-bytes",)),
    "LlamaIndex, LanceDB, its own tokens": ("bench.ingestion_llamaindex", ("own",)),
    "CocoIndex, SQLite": ("bench.ingestion_cocoindex", ("sqlite",)),
    "CocoIndex, LanceDB": ("bench.ingestion_cocoindex", ("lancedb",)),
    BARE_OWN: ("bench.ingestion_bare", ("local",)),
    OWN: ("bench.ingestion_ours", ("local", "2")),
}
"""Name → module, and what it is told beside the corpus and its folder."""

TIMES = {"LlamaIndex": 2.0, "CocoIndex": 1.0}
"""How many times as fast as the fastest of these Penstock is to be."""

ORCHESTRATION = 0.10
"""Of the time in the embedder, at most."""

PHASES = ("load", "chunk", "embed", "index")


@dataclass
class Found:
    """By contestant, what each round took; or why there is nothing."""

    taken: dict[str, list[list[Taken]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def first(self, name: str) -> list[Taken]:
        return [runs[0] for runs in self.taken.get(name, [])]

    def seconds(self, name: str) -> list[float]:
        return [run["seconds"] for run in self.first(name)]


def rounds(count: int, documents: int, names: Sequence[str] = tuple(CONTESTANTS)) -> Found:
    found = Found()
    corpus, small = fresh_folder("ingestion-corpus"), fresh_folder("ingestion-warm")
    make_corpus(corpus, documents=documents, words=WORDS)
    make_corpus(small, documents=WARM, words=WORDS, seed=8)
    for number in range(1, count + 1):
        for name in names:
            if name not in found.missing:
                _one(name, number, corpus, small, found)
    shutil.rmtree(corpus)
    shutil.rmtree(small)
    return found


def _one(name: str, number: int, corpus: Path, small: Path, found: Found) -> None:
    module, told = CONTESTANTS[name]
    home = fresh_folder("ingestion")
    try:
        runs = child(module, corpus, home, *told, small)
    except Unavailable as why:
        found.missing[name] = str(why)
        print(f"round {number}: {name}: not measured: {why}", flush=True)
        return
    finally:
        shutil.rmtree(home, ignore_errors=True)
    found.taken.setdefault(name, []).append(runs)
    print(f"round {number}: {name}: {runs[0]['seconds']:.2f} s", flush=True)


def orchestration(run: Taken) -> float:
    """Seconds that are none of the four phases: what is left of the time when a run neither waits for files, chunks or
    vectors, nor for its rows to be stored."""
    seconds: float = run["seconds"] - sum(run["phases"][phase] for phase in PHASES)
    return seconds


def told(found: Found, documents: int) -> Part:
    part = Part("")
    lines = []
    ours = found.seconds(OURS)
    for name in CONTESTANTS:
        if name not in found.taken:
            continue
        runs, seconds = found.first(name), found.seconds(name)
        ratio = median(theirs / own for theirs, own in zip(seconds, ours, strict=False)) if ours else None
        again = [each[1]["seconds"] for each in found.taken[name] if len(each) > 1]
        lines.append([
            name, figure(median(documents / each for each in seconds)), figure(median(seconds)), figure(ratio),
            figure(median(run["cpu"] for run in runs)), f"{runs[0]['chunks']:,}",
            figure(median(run["megabytes"] for run in runs)), figure(median(again) if again else None),
        ])  # fmt: skip
    headings = ["", "documents/s", "s", "time ÷ ours", "processor s", "chunks", "peak MB", "again s"]
    versions = sorted({
        f"{name.split(',')[0]} {runs[0][0]['version']}" for name, runs in found.taken.items() if "version" in runs[0][0]
    })  # fmt: skip
    texts = [f"{documents:,} documents of about {WORDS:,} words ({', '.join(versions)})", table(headings, lines)]
    texts += [f"{name}: not measured: {why}" for name, why in found.missing.items()]
    for kind, wanted in TIMES.items():
        _compared(part, found, kind, wanted)
    texts += [_phases(part, found)]
    part.text = "\n\n".join(texts)
    return part


def _compared(part: Part, found: Found, kind: str, wanted: float) -> None:
    """Beside the fastest of a kind, round by round."""
    named = [name for name in found.taken if name.startswith(kind)]
    ours = found.seconds(OURS)
    if not named or not ours:
        return
    fastest = [min(each) for each in zip(*(found.seconds(name) for name in named), strict=False)]
    ratio = median(theirs / own for theirs, own in zip(fastest, ours, strict=False))
    if ratio < wanted:
        part.missed.append(f"{OURS} beside {kind}: {ratio:.2f} times as fast, wanted: at least {wanted:g}")
    peers: dict[str, float | None] = {name: median(found.seconds(name)) for name in named}
    part.rows.append(Row("a corpus taken in, the same embedder", "s", False, median(ours), peers))
    part.rows.append(Row(f"times as fast as {kind}", "", True, ratio, {}))


def _phases(part: Part, found: Found) -> str:
    lines = []
    for name, bare in ((OURS, BARE), (OWN, BARE_OWN)):
        for each in (bare, name):
            runs = found.first(each)
            if not runs:
                continue
            rest = median(orchestration(run) for run in runs)
            embed = median(run["phases"]["embed"] for run in runs)
            share = median(orchestration(run) / run["phases"]["embed"] for run in runs)
            lines.append([
                each, *(figure(median(run["phases"][phase] for run in runs)) for phase in PHASES), figure(rest),
                f"{share:.1%}", figure(median(run["seconds"] for run in runs)),
            ])  # fmt: skip
            if each == OURS:
                part.want(f"orchestration ÷ embedder, {each}", share, ORCHESTRATION)
            if each == name:
                part.rows.append(Row(f"orchestration, {each}", "s", False, rest, {"embedder": embed}))
    headings = ["seconds", *PHASES, "the rest", "÷ embed", "all"]
    return "where the time goes: what is waited for\n\n" + table(headings, lines)
