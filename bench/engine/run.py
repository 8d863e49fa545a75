"""Runs the rounds: in each, every contestant after the other, so that a slow minute of the machine hits all alike."""

from __future__ import annotations

import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.engine import measures
from bench.engine.contestants import ALL, Contestant, Part, Server
from bench.engine.figures import Figures
from bench.engine.machine import fsync_ms
from bench.engine.process import run_part
from bench.engine.script.assignment import Assignment
from bench.engine.tables import engine_rows, engine_text
from bench.environments import Unavailable, environment
from bench.home import fresh_folder
from bench.options import Options
from bench.results import write_results
from bench.servers import Servers

SPEED = (Part.SPEED, Part.COLD)
SCALE = (Part.WAITING, Part.CLAIMS)


def run_engine(options: Options) -> int:
    """Measure all contestants that the options ask for; print the tables and keep the results."""
    contestants = [
        contestant.shortened() if options.quick else contestant for contestant in ALL if options.wants(contestant.name)
    ]
    figures = Figures()
    began = time.monotonic()
    with Servers() as servers:
        measurement = Measurement(_interpreters(contestants, figures), servers, figures, options)
        for round_number in range(1, options.rounds + 1):
            print(f"round {round_number} of {options.rounds}", flush=True)
            for contestant in contestants:
                if contestant.every_round or round_number == 1:
                    measurement.run(contestant, SPEED, round_number)
        print("once: waiting jobs, claims from long queues", flush=True)
        for contestant in contestants:
            measurement.run(contestant, SCALE, 0)
    text = engine_text(contestants, figures, _circumstances(options, time.monotonic() - began))
    print("\n" + text)
    written = write_results("engine", engine_rows(contestants, figures), text)
    print(f"\nwritten: {os.path.relpath(written)}")
    return 0


def _interpreters(contestants: list[Contestant], figures: Figures) -> dict[str, Path]:
    """Every contestant's interpreter; one whose environment cannot be made is noted and left out."""
    found = {}
    for contestant in contestants:
        try:
            if contestant.requirements is None:
                found[contestant.name] = Path(sys.executable)
            else:
                kind = contestant.module.rpartition(".")[2]
                found[contestant.name] = environment(kind, contestant.requirements)
        except Unavailable as refusal:
            figures.not_measured(contestant.name, "all", str(refusal))
    return found


@dataclass(frozen=True)
class Measurement:
    """Runs single contestants and notes what they report."""

    interpreters: dict[str, Path]
    servers: Servers
    figures: Figures
    options: Options

    def run(self, contestant: Contestant, parts: tuple[Part, ...], round_number: int) -> None:
        wanted = [part for part in parts if part in contestant.parts]
        if not wanted or contestant.name not in self.interpreters:
            return
        print(f"  {contestant.name:<38}", end="", flush=True)
        began = time.monotonic()
        try:
            for part in wanted:
                # Every part starts with an empty store, but a cold start finds the one that the speed part used.
                if part is not Part.COLD:
                    assignment = self._assignment(contestant)
                interpreter = self.interpreters[contestant.name]
                found, failure = run_part(interpreter, contestant.module, part, assignment)
                self.figures.add(contestant.name, round_number, found)
                if failure:
                    self.figures.not_measured(contestant.name, part, failure)
        except Unavailable as refusal:
            self.figures.not_measured(contestant.name, "all", str(refusal))
        in_words = self.figures.in_words(contestant.name, round_number)
        print(f"{time.monotonic() - began:6.1f} s  {in_words}", flush=True)

    def _assignment(self, contestant: Contestant) -> Assignment:
        depths = list(measures.DEPTHS)
        postgres_url = redis_url = ""
        match contestant.server:
            case Server.POSTGRES:
                postgres_url = self.servers.postgres().fresh_database("bench")
            case Server.REDIS | Server.REDIS_SAFE:
                redis_url = self.servers.redis(safe=contestant.server is Server.REDIS_SAFE).url
        return Assignment(
            mode=contestant.mode,
            jobs=contestant.jobs,
            workflows=contestant.workflows,
            latencies=contestant.latencies,
            waiting=measures.WAITING,
            depths=depths[:-1] if self.options.quick else depths,
            scratch=str(fresh_folder("contestant")),
            postgres_url=postgres_url,
            redis_url=redis_url,
        )


def _circumstances(options: Options, seconds: float) -> list[str]:
    kind = "one short round: rough figures" if options.quick else f"medians of {options.rounds} rounds"
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    return [
        f"engine bench, {kind}, {seconds / 60:.1f} minutes",
        f"machine: {machine}; an fsync of 4 KiB takes {fsync_ms():.2f} ms now",
    ]
