"""The rules by which worker processes are kept alive: when another is started, after which pause, and how it is told
what to do. `penstock worker` and the service go by the same ones."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

from penstock.engine.watch import EXIT_STUCK

WRONG_USE = 2
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
LIVED_WELL = 60.0
"""Seconds after which a process counts as having started well: its successor starts without a pause again."""
MARGIN = 10.0
"""Seconds beyond the grace that a process has for its goodbye before it is killed."""
AT_ONCE = 3.0
HURRY = signal.SIGUSR1
"""Has a worker process stop its steps now. No second SIGTERM: one that is sent to every process of a service reaches
the workers twice, by themselves and through their parent."""


def ending_signals() -> list[signal.Signals]:
    """Those that ask a process to end, without those that whoever started it had it ignore, as `nohup` does."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


@dataclass(slots=True, frozen=True)
class Verdict:
    """What to do about a process that ended: start another `after` so many seconds, or leave it at that."""

    after: float | None
    code: int = 0


def judge(code: int, *, lived: float, failures: int, for_ever: bool = False) -> Verdict:
    """`failures`: how often in a row this place's processes died young. `for_ever`: there is always another, because
    whoever asks has more to do than to keep processes."""
    if code == 0 and not for_ever:
        return Verdict(None)
    if code == WRONG_USE:
        return Verdict(LONGEST_PAUSE) if for_ever else Verdict(None, WRONG_USE)
    if code == EXIT_STUCK or lived >= LIVED_WELL:
        return Verdict(0.0)
    return Verdict(min(FIRST_PAUSE * 2**failures, LONGEST_PAUSE))


@dataclass(slots=True)
class Place:
    """One of the processes that should be there: when its last one started, and how often they died young."""

    number: int
    started: float | None = None
    failures: int = 0

    def begins(self, now: float) -> bool:
        """Note that a process starts; True if it is the first one here."""
        first, self.started = self.started is None, now
        return first

    def ended(self, code: int, now: float, *, for_ever: bool = False) -> Verdict:
        lived = now - (now if self.started is None else self.started)
        verdict = judge(code, lived=lived, failures=self.failures, for_ever=for_ever)
        if verdict.after is not None:
            self.failures = self.failures + 1 if verdict.after else 0
        return verdict


COMMAND = (sys.executable, "-m", "penstock.cli.worker_process")


def told(orders: dict[str, Any], *, first: bool) -> bytes:
    """What a process reads from its stdin: `worker_process.orders`, and whose child it is."""
    return json.dumps({**orders, "parent": os.getpid(), "first": first}).encode()


def cause(code: int) -> str:
    if code == EXIT_STUCK:
        return "was stuck and ended itself"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
