"""Runs the parts of the pages bench: the index of a million pages, the makespan of whole libraries, and how well old
books are read. Says of each what is wanted, and whether it was reached."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench import pages_makespan, pages_ocr, pages_tree
from bench.home import fresh_folder
from bench.options import Options
from bench.pages_index import BATCH, Round
from bench.results import RESULTS, Row, write_results
from bench.table import figure, table
from penstock.pipelines.pages.walk import MARK

MEGABYTES = 300.0
MILLISECONDS = 10.0
TIMES_BARE = 3.0
TIMES_BOUND = 1.05


@dataclass
class Part:
    """What one part has to say. `missed` names what is wanted and was not reached."""

    text: str
    rows: list[Row] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def want(self, what: str, value: float, most: float) -> None:
        if value > most:
            self.missed.append(f"{what}: {figure(value)}, wanted: at most {figure(most)}")


def run_pages(options: Options) -> int:
    began = time.monotonic()
    parts = [(name, PARTS[name](options)) for name in PARTS if options.wants(name)]
    kind = "one short round: rough figures" if options.quick else f"medians of {options.rounds} rounds"
    done = (
        f"{kind}; {os.cpu_count()} cores, Python {platform.python_version()}, {time.monotonic() - began:.0f} s in all"
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
        path = write_results("pages", [row for _, part in parts for row in part.rows], text)
        print(f"\nwritten: {os.path.relpath(path)}")
    return 1 if missed else 0


# The index.


@dataclass
class _Rounds:
    """Of all rounds, with or without outputs."""

    index: list[Round] = field(default_factory=list)
    rescan: list[dict[str, float]] = field(default_factory=list)

    def middle(self, value: Callable[[Round], float]) -> float:
        return median(map(value, self.index))


def index(options: Options) -> Part:
    books = 500 if options.quick else 5000
    folder = options.tree or fresh_folder("pages-tree")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        began = time.monotonic()
        pages_tree.make(folder.resolve(), books)
        pages_tree.settle(folder)
        print(f"the trees are there after {time.monotonic() - began:.0f} s", flush=True)
        nothing_done, half_done = _Rounds(), _Rounds()
        for number in range(1, options.rounds + 1):
            _one_round(folder.resolve() / "labels", fresh_folder("pages-outputs"), nothing_done)
            _one_round(folder.resolve() / "labels", folder.resolve() / "outputs", half_done)
            print(f"round {number} of {options.rounds} is done", flush=True)
    finally:
        if options.tree is None:
            shutil.rmtree(folder)
    return _told(nothing_done, half_done)


def _one_round(labels: Path, outputs: Path, into: _Rounds) -> None:
    # Every round has a store of its own, and a folder belongs to one.
    (outputs / MARK).unlink(missing_ok=True)
    found = _child("bench.pages_index", labels, outputs, fresh_folder("pages-store"))
    into.index.append(Round(**found))
    into.rescan.append(_child("bench.pages_rescan", labels, outputs))


def _child(module: str, *arguments: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=RESULTS.parent.parent)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _told(nothing_done: _Rounds, half_done: _Rounds) -> Part:
    both = (nothing_done, half_done)
    some = nothing_done.index[0]
    measures: list[tuple[str, str, Callable[[_Rounds], float]]] = [
        ("bare os.scandir walk", "s", lambda all: all.middle(lambda one: one.bare)),
        ("first index", "s", lambda all: all.middle(lambda one: one.first)),
        ("first index ÷ walk", "", lambda all: all.middle(lambda one: one.first / one.bare)),
        ("bare os.stat of every folder", "ms", lambda all: all.middle(lambda one: median(one.stats) * 1e3)),
        ("pass with nothing new", "ms", lambda all: all.middle(lambda one: median(one.again) * 1e3)),
        ("pass ÷ stat", "", lambda all: all.middle(lambda one: median(one.again) / median(one.stats))),
        (f"next {BATCH} pages", "ms", lambda all: all.middle(lambda one: median(one.next) * 1e3)),
        ("next pages, the slowest", "ms", lambda all: max(max(one.next) for one in all.index) * 1e3),
        ("peak memory", "MB", lambda all: all.middle(lambda one: one.megabytes)),
        (f"plain rescan for {BATCH} pages", "s", lambda all: median(one["seconds"] for one in all.rescan)),
        ("peak memory of the rescan", "MB", lambda all: median(one["megabytes"] for one in all.rescan)),
    ]  # fmt: skip
    values = {name: tuple(value(rounds) for rounds in both) for name, _, value in measures}
    lines = [[name, unit, *map(figure, values[name])] for name, unit, _ in measures]
    part = Part(
        f"{some.pages:,} pages in {some.books:,} books\n\n"
        + table(["", "", "nothing done", "half of the outputs there"], lines)
    )
    for at, when in enumerate(("nothing done", "half done")):
        of = {name: found[at] for name, found in values.items()}
        part.want(f"first index ÷ walk, {when}", of["first index ÷ walk"], TIMES_BARE)
        part.want(f"pass ÷ stat, {when}", of["pass ÷ stat"], TIMES_BARE)
        part.want(f"next {BATCH} pages, ms, {when}", of[f"next {BATCH} pages"], MILLISECONDS)
        part.want(f"peak memory, MB, {when}", of["peak memory"], MEGABYTES)
        rescan: dict[str, float | None] = {"plain rescan": of[f"plain rescan for {BATCH} pages"]}
        part.rows += [
            Row(f"first index, {when}", "s", False, of["first index"], {"bare walk": of["bare os.scandir walk"]}),
            Row(f"pass with nothing new, {when}", "s", False, of["pass with nothing new"] / 1e3,
                {"bare stat": of["bare os.stat of every folder"] / 1e3}),
            Row(f"next {BATCH} pages, {when}", "s", False, of[f"next {BATCH} pages"] / 1e3, rescan),
            Row(f"peak memory, {when}", "MB", False, of["peak memory"],
                {"plain rescan": of["peak memory of the rescan"]}),
        ]  # fmt: skip
    return part


# Makespan.


def makespan(options: Options) -> Part:
    libraries = 20 if options.quick else 100
    found = pages_makespan.study(libraries)
    ours, *others = pages_makespan.ORDERS
    for name in pages_makespan.ORDERS:
        found["both", name] = [outcome for slots in ("tight", "ample") for outcome in found[slots, name]]
    lines = []
    part = Part("")
    for slots in ("tight", "ample", "both"):
        told = {
            name: pages_makespan.summed_up([outcome.ratio for outcome in found[slots, name]])
            for name in pages_makespan.ORDERS
        }
        for name, values in told.items():
            pairs = zip(found[slots, name], found[slots, ours], strict=True)
            beside = median(other.makespan / our.makespan for other, our in pairs)
            lines.append([slots, name, *(f"{value:.3f}" for value in (*values, beside))])
        part.want(f"makespan ÷ bound, {slots} slots, median", told[ours][0], TIMES_BOUND)
        for at, which in ((0, "median"), (2, "worst")):
            peers: dict[str, float | None] = {name: told[name][at] for name in others}
            part.rows.append(Row(f"makespan ÷ bound, {slots} slots, {which}", "", False, told[ours][at], peers))
    headings = ["slots", "order", "median", "9 of 10 below", "worst", "takes, beside ours"]
    part.text = f"makespan ÷ lower bound over {libraries} random libraries of each kind\n\n" + table(headings, lines)
    return part


# Reading.


def ocr(options: Options) -> Part:
    if options.quick:
        return Part("old books: not read in a short round")
    try:
        books = pages_ocr.compare()
    except pages_ocr.Missing as why:
        return Part(f"old books: not measured: {why}")
    part = Part(pages_ocr.report(books))
    for book in books:
        part.want(f"errors ÷ Tesseract's, {book.title}", book.ratio, pages_ocr.WANTED)
        part.rows.append(
            Row(f"character error rate, {book.title}", "", False, book.our_rate, {"Tesseract": book.tesseract_rate})
        )
    return part


PARTS: dict[str, Callable[[Options], Part]] = {"index": index, "makespan": makespan, "ocr": ocr}
