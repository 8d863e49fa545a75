"""Runs the parts of the documents bench: documents a second beside a plain chain of Celery tasks, how long the lists of
a large queue take, how well invoices are read, how far their confidence can be relied on, and how foreign files end.
Says of each what is wanted, and whether it was reached."""

from __future__ import annotations

import contextlib
import io
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from bench import documents_accuracy, documents_calibration, documents_queue, documents_robust, documents_throughput
from bench.documents_throughput import CHAIN, EMBEDDED, ON_CELERY
from bench.environments import Unavailable
from bench.options import Options
from bench.pages import Part
from bench.results import RESULTS, Row, write_results
from bench.table import figure, table

OF_THE_CHAIN = {EMBEDDED: 1.0, ON_CELERY: 0.8}
MILLISECONDS = 50.0
NOT_MEASURED = 2


def run_documents(options: Options) -> int:
    began = time.monotonic()
    parts = [(name, PARTS[name](options)) for name in PARTS if options.wants(name)]
    kind = "one short round: rough figures" if options.quick else f"medians of {options.rounds} rounds"
    done = (
        f"{kind}; {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}, Python {platform.python_version()}, "
        f"{time.monotonic() - began:.0f} s in all"
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
        path = write_results("documents", [row for _, part in parts for row in part.rows], text)
        print(f"\nwritten: {os.path.relpath(path)}")
    return 1 if missed else 0


def throughput(options: Options) -> Part:
    documents = 150 if options.quick else 500
    try:
        found = documents_throughput.rounds(options.rounds, documents)
    except Unavailable as why:
        return Part(f"documents a second: not measured: {why}")
    speeds = {name: [each["documents"] / each["work"] for each in taken] for name, taken in found.items()}
    part, lines = Part(""), []
    for name, taken in found.items():
        ratio = median(ours / theirs for ours, theirs in zip(speeds[name], speeds[CHAIN], strict=True))
        intake = median(each["intake"] / each["documents"] for each in taken) * 1e3
        cpu = median(each["cpu"] / each["documents"] for each in taken) * 1e3
        lines.append([name, figure(median(speeds[name])), f"{ratio:.2f}", figure(cpu), figure(intake)])
        if name in OF_THE_CHAIN:
            if ratio < OF_THE_CHAIN[name]:
                part.missed.append(f"{name} ÷ {CHAIN}: {ratio:.2f}, wanted: at least {OF_THE_CHAIN[name]}")
            part.rows.append(Row(name, "documents/s", True, median(speeds[name]), {CHAIN: median(speeds[CHAIN])}))
            part.rows.append(Row(f"{name} ÷ {CHAIN}", "", True, ratio, {}))
    headings = ["", "documents/s", "÷ chain", "processor ms a document", "taken in, ms each"]
    part.text = f"{documents} documents of one page, a model that answers at once\n\n" + table(headings, lines)
    return part


def queue(options: Options) -> Part:
    items, tries = (10_000, 20) if options.quick else (documents_queue.ITEMS, documents_queue.TRIES)
    try:
        found = documents_queue.compared(items=items, tries=tries)
    except Unavailable as why:
        return Part(f"lists: not measured: {why}")
    part, lines = Part(""), []
    for question in documents_queue.QUESTIONS:
        cells = []
        for store, answered in found.items():
            taken = answered[question]
            cells += [figure(median(taken)), figure(documents_queue.p95(taken))]
            part.rows.append(Row(f"{question}, {store}, p95", "ms", False, documents_queue.p95(taken), {}))
            if question.startswith("queue"):
                part.want(f"{question}, {store}, p95 ms", documents_queue.p95(taken), MILLISECONDS)
        lines.append([question, *cells])
    headings = ["", *(f"{store} {what}" for store in found for what in ("p50 ms", "p95 ms"))]
    part.text = f"{items:,} open items, {tries} times each\n\n" + table(headings, lines)
    return part


def accuracy(options: Options) -> Part:
    if options.quick:
        return Part("invoices: not read in a short round")
    part = Part("")
    texts = []
    for name, measured in documents_accuracy.TABLES.items():
        try:
            score = measured()
        except documents_accuracy.Missing as why:
            texts.append(f"{name}: not measured: {why}")
            continue
        texts.append(f"read by the local rules, {name}\n\n{score.printed()}")
        part.rows.append(Row(f"vendor, number, date, total, currency right, {name}", "", True, score.share(), {}))
        if name == "mixed" and score.share() < documents_accuracy.WANTED:
            part.missed.append(f"mixed: {score.share():.1%} right, wanted: {documents_accuracy.WANTED:.0%}")
        if name == "receipts":
            for what, floor in documents_accuracy.PLAIN_TESSERACT.items():
                part.rows.append(
                    Row(f"receipts, {what} right", "", True, score.right[what], {"text of Tesseract holds it": floor})
                )
    part.text = "\n\n".join(texts)
    return part


def calibration(options: Options) -> Part:
    if options.quick:
        return Part("confidence: not read in a short round")
    part, code = _printed(lambda: documents_calibration.main([]))
    if code:
        part.missed.append("calibration: see its table")
    return part


def robust(options: Options) -> Part:
    if options.quick:
        return Part("foreign files: not read in a short round")
    # In a process of its own: what the other parts needed would be taken for the growth of this one.
    command = [sys.executable, "-m", documents_robust.__name__]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=RESULTS.parent.parent)
    part = Part(done.stdout.strip())
    if done.returncode not in (0, NOT_MEASURED):
        part.missed.append("foreign files: some did not end as they should")
    return part


def _printed(measure: Callable[[], int]) -> tuple[Part, int]:
    """What a bench that can also run by itself has to say."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = measure()
    return Part(said.getvalue().strip()), code


PARTS: dict[str, Callable[[Options], Part]] = {
    "throughput": throughput,
    "queue": queue,
    "accuracy": accuracy,
    "calibration": calibration,
    "robust": robust,
}
