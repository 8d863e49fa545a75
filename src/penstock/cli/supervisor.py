"""Keeps worker processes alive: one that dies is replaced; one that was stuck has ended itself and is replaced at once.

The supervisor holds no jobs and imports no app, so there is nothing in it that could get stuck.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

from penstock.engine.watch import EXIT_STUCK

log = logging.getLogger("penstock.worker")

WRONG_USE = 2
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
LIVED_WELL = 60.0
"""Seconds after which a process counts as having started well: its successor starts without a pause again."""
MARGIN = 10.0
"""Seconds beyond the grace that a process has for its goodbye before it is killed."""
AT_ONCE = 3.0


@dataclass(slots=True, frozen=True)
class Verdict:
    """What to do about a process that ended: start another `after` so many seconds, or leave it at that."""

    after: float | None
    code: int = 0


def judge(code: int, *, lived: float, failures: int) -> Verdict:
    """`failures`: how often in a row this place's processes died young. A pure function, so that it can be tested."""
    if code == 0:
        return Verdict(None)
    if code == WRONG_USE:
        return Verdict(None, WRONG_USE)
    if code == EXIT_STUCK or lived >= LIVED_WELL:
        return Verdict(0.0)
    return Verdict(min(FIRST_PAUSE * 2**failures, LONGEST_PAUSE))


@dataclass(slots=True)
class Place:
    """One of the processes that should be there."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    started: float | None = None
    failures: int = 0
    due: float | None = 0.0

    @property
    def over(self) -> bool:
        return self.process is None and self.due is None


class Supervisor:
    """Runs `processes` workers by `orders` (see `worker_process.py`) until they are done or a signal comes."""

    def __init__(self, orders: dict[str, Any], *, processes: int, grace: float) -> None:
        self._orders = orders
        self._grace = grace
        self._places = [Place(number + 1) for number in range(processes)]
        self._signals: list[int] = []
        self._asked = 0
        self._kill_at: float | None = None
        self._code = 0

    def run(self) -> int:
        with _wakeups(self._signals) as woken:
            while True:
                self._heed_signals()
                for place in self._places:
                    self._mind(place)
                if all(place.over for place in self._places):
                    return self._code
                self._kill_late_ones()
                select.select([woken], [], [], self._until_next())
                with contextlib.suppress(BlockingIOError):
                    os.read(woken, 1024)

    def _heed_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            self._asked += 1
            if number == signal.SIGINT:
                self._code = 130
            self._stop(self._grace + MARGIN if self._asked == 1 else AT_ONCE)
            how = f"running steps have {self._grace:g} s, a second signal ends them" if self._asked == 1 else "at once"
            log.info("%s: stopping, %s", signal.Signals(number).name, how)

    def _stop(self, patience: float) -> None:
        self._kill_at = time.monotonic() + patience
        for place in self._places:
            place.due = None
            if place.process is not None:
                place.process.send_signal(signal.SIGTERM)

    def _mind(self, place: Place) -> None:
        now = time.monotonic()
        if place.process is None:
            if place.due is not None and now >= place.due:
                self._start(place)
            return
        code = place.process.poll()
        if code is None:
            return
        place.process = None
        if self._kill_at is not None:
            return
        verdict = judge(code, lived=now - (place.started or now), failures=place.failures)
        if verdict.after is None:
            place.due = None
            if verdict.code:
                self._code = verdict.code
                self._stop(self._grace + MARGIN)
            return
        place.failures = place.failures + 1 if verdict.after else 0
        place.due = now + verdict.after
        log.warning("worker process %d %s; starting another in %.1f s", place.number, _cause(code), verdict.after)

    def _start(self, place: Place) -> None:
        first = place.started is None
        place.due = None
        place.started = time.monotonic()
        # A process group of its own: Ctrl-C reaches the supervisor alone, which then asks the workers once.
        place.process = process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli.worker_process"], stdin=subprocess.PIPE, process_group=0
        )
        told = json.dumps({**self._orders, "parent": os.getpid(), "first": first}).encode()
        with contextlib.suppress(BrokenPipeError), cast(IO[bytes], process.stdin) as pipe:
            pipe.write(told)
        log.info("worker process %d is %d", place.number, process.pid)

    def _kill_late_ones(self) -> None:
        if self._kill_at is None or time.monotonic() < self._kill_at:
            return
        for place in self._places:
            if place.process is not None and place.process.poll() is None:
                log.warning("worker process %d did not end in time and is killed; its lease runs out", place.number)
                place.process.kill()
                place.process.wait()

    def _until_next(self) -> float:
        now = time.monotonic()
        times = [place.due for place in self._places if place.due is not None]
        if self._kill_at is not None:
            times.append(self._kill_at)
        return min(max(min(times, default=now + 1.0) - now, 0.0), 1.0)


def _cause(code: int) -> str:
    if code == EXIT_STUCK:
        return "was stuck and ended itself"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


@contextlib.contextmanager
def _wakeups(signals: list[int]) -> Iterator[int]:
    """A descriptor that becomes readable at every signal; those that ask for the end are put in `signals`."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    ending = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, lambda n, _: signals.append(n)) for number in ending}
    before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
    wakeup = signal.set_wakeup_fd(writing)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
