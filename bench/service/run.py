"""Runs the rounds: each on a copy of the same store, with jobs running in another process all the while."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.home import fresh_folder
from bench.options import Options
from bench.results import Row, write_results
from bench.service.feed import events_a_second
from bench.service.load import Load, load, tool
from bench.service.programs import Up, fill, running, serving
from bench.table import figure, table

RATE = 1000
AT_ONCE = (1, 16)


@dataclass
class Found:
    """Of all rounds."""

    loads: dict[tuple[str, int], list[Load]] = field(default_factory=dict)
    jobs: list[float] = field(default_factory=list)
    events: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)


def run_service(options: Options) -> int:
    count, seconds = (10_000, 1.0) if options.quick else (100_000, 4.0)
    began = time.monotonic()
    full = fresh_folder("service")
    fill(full, count)
    print(f"{count:,} jobs in the store after {time.monotonic() - began:.0f} s", flush=True)
    found = Found()
    for number in range(1, options.rounds + 1):
        home = fresh_folder("service-round")
        shutil.copy(full / "penstock.db", home / "penstock.db")
        one_round(home, seconds, found)
        print(f"round {number} of {options.rounds} is done", flush=True)
    text = report(found, count, options, time.monotonic() - began)
    print("\n" + text)
    if not options.quick:
        print(f"\nwritten: {os.path.relpath(write_results('service', rows(found), text))}")
    return 0


def one_round(home: Path, seconds: float, found: Found) -> None:
    with serving(home) as up, running(home, RATE) as runner:
        for name, path, headers in asked(up):
            for at_once in AT_ONCE:
                measured = load(up.url + path, at_once=at_once, seconds=seconds, headers=headers)
                found.loads.setdefault((name, at_once), []).append(measured)
        found.events.append(events_a_second(up.url, seconds))
        found.megabytes.append(up.megabytes)
        found.jobs.append(runner.stop())


def asked(up: Up) -> list[tuple[str, str, dict[str, str]]]:
    """What is measured: a name, a path and headers. Each is asked once before, which also shows that it works."""
    jobs = "/api/v1/jobs"
    listed = json.loads(up.get(f"{jobs}?limit=50"))
    some = next(value for value in listed.values() if isinstance(value, list))[-1]["id"]
    page = {"Accept": "text/html"}
    small = {"Authorization": f"Bearer {up.small}"}
    all_of_them: list[tuple[str, str, dict[str, str]]] = [
        ("list: newest 50", f"{jobs}?limit=50", {}),
        ("list: failed", f"{jobs}?status=failed", {}),
        ("list: running", f"{jobs}?status=running", {}),
        ("list: a rare workflow", f"{jobs}?workflow=rare", {}),
        ("list: a small tenant's", jobs, small),
        ("show one job", f"{jobs}/{some}", {}),
        ("show its timeline", f"{jobs}/{some}/timeline", {}),
        ("dashboard: overview", "/", page),
        ("dashboard: jobs", "/ui/jobs", page),
        ("dashboard: one job", f"/ui/jobs/{some}", page),
    ]
    for _, path, headers in all_of_them:
        up.get(path, headers)
    return all_of_them


def middle(loads: list[Load]) -> Load:
    return Load(*(median(getattr(one, name) for one in loads) for name in ("a_second", "p50", "p99")))


def report(found: Found, count: int, options: Options, took: float) -> str:
    lines = []
    for name in dict.fromkeys(name for name, _ in found.loads):
        line = [name]
        for at_once in AT_ONCE:
            one = middle(found.loads[name, at_once])
            line += [figure(one.p50), figure(one.p99), figure(one.a_second)]
        lines.append(line)
    headings = ["", *(f"{what}, {n} at once" for n in AT_ONCE for what in ("p50 ms", "p99 ms", "requests/s"))]
    rounds = "one round" if options.rounds == 1 else f"medians of {options.rounds} rounds"
    kind = "one short round: rough figures" if options.quick else rounds
    return "\n".join([
        table(headings, lines),
        "",
        f"{count:,} jobs in the store when a round begins; "
        f"meanwhile {figure(median(found.jobs))} jobs/s ran in another process",
        f"live changes: {figure(median(found.events))} events/s to one listener, summed up by the feed; "
        f"the service's memory at the end: {figure(median(found.megabytes))} MB",
        f"{kind}, asked by {tool()}; {os.cpu_count()} cores, Python {platform.python_version()}, {took:.0f} s in all",
    ])  # fmt: skip


def rows(found: Found) -> list[Row]:
    kept = []
    for (name, at_once), loads in found.loads.items():
        one = middle(loads)
        kept.append(Row(f"{name}, {at_once} at once: p50", "ms", False, one.p50, {}))
        kept.append(Row(f"{name}, {at_once} at once: p99", "ms", False, one.p99, {}))
        kept.append(Row(f"{name}, {at_once} at once", "requests/s", True, one.a_second, {}))
    kept.append(Row("jobs run meanwhile", "jobs/s", True, median(found.jobs), {}))
    kept.append(Row("live changes to one listener", "events/s", True, median(found.events), {}))
    kept.append(Row("memory of the service", "MB", False, median(found.megabytes), {}))
    return kept
