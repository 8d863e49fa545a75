"""Keeps worker processes alive: one that dies is replaced; one that was stuck has ended itself and is replaced at once.

The supervisor holds no jobs and imports no app, so there is nothing in it that could get stuck.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, cast

from penstock.delivery.upkeep import AT_ONCE, COMMAND, HURRY, MARGIN, Place, cause, ending_signals, told

log = logging.getLogger("penstock.worker")


@dataclass(slots=True)
class Seat:
    """A place and the process that is there now, or when the next one is due."""

    place: Place
    process: subprocess.Popen[bytes] | None = None
    due: float | None = 0.0

    @property
    def over(self) -> bool:
        return self.process is None and self.due is None


class Supervisor:
    """Runs `processes` workers by `orders` (see `worker_process.py`) until they are done or a signal comes."""

    def __init__(self, orders: dict[str, Any], *, processes: int, grace: float) -> None:
        self._orders = orders
        self._grace = grace
        self._seats = [Seat(Place(number + 1)) for number in range(processes)]
        self._signals: list[int] = []
        self._asked = 0
        self._kill_at: float | None = None
        self._code = 0

    def run(self) -> int:
        with _wakeups(self._signals) as woken:
            while True:
                self._heed_signals()
                for seat in self._seats:
                    self._mind(seat)
                if all(seat.over for seat in self._seats):
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
            if self._asked == 1:
                self._stop(self._grace + MARGIN)
            else:
                self._stop(AT_ONCE, HURRY)
            how = f"running steps have {self._grace:g} s, a second signal ends them" if self._asked == 1 else "at once"
            log.info("%s: stopping, %s", signal.Signals(number).name, how)

    def _stop(self, patience: float, number: int = signal.SIGTERM) -> None:
        self._kill_at = time.monotonic() + patience
        for seat in self._seats:
            seat.due = None
            if seat.process is not None:
                seat.process.send_signal(number)

    def _mind(self, seat: Seat) -> None:
        now = time.monotonic()
        if seat.process is None:
            if seat.due is not None and now >= seat.due:
                self._start(seat)
            return
        code = seat.process.poll()
        if code is None:
            return
        seat.process = None
        if self._kill_at is not None:
            return
        verdict = seat.place.ended(code, now)
        if verdict.after is None:
            seat.due = None
            if verdict.code:
                self._code = verdict.code
                self._stop(self._grace + MARGIN)
            return
        seat.due = now + verdict.after
        log.warning("worker process %d %s; starting another in %.1f s", seat.place.number, cause(code), verdict.after)

    def _start(self, seat: Seat) -> None:
        seat.due = None
        first = seat.place.begins(time.monotonic())
        # A process group of its own: Ctrl-C reaches the supervisor alone, which then asks the workers once.
        seat.process = process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, process_group=0)
        with contextlib.suppress(BrokenPipeError), cast(IO[bytes], process.stdin) as pipe:
            pipe.write(told(self._orders, first=first))
        log.info("worker process %d is %d", seat.place.number, process.pid)

    def _kill_late_ones(self) -> None:
        if self._kill_at is None or time.monotonic() < self._kill_at:
            return
        for seat in self._seats:
            if seat.process is not None and seat.process.poll() is None:
                number = seat.place.number
                log.warning("worker process %d did not end in time and is killed; its lease runs out", number)
                seat.process.kill()
                seat.process.wait()

    def _until_next(self) -> float:
        now = time.monotonic()
        times = [seat.due for seat in self._seats if seat.due is not None]
        if self._kill_at is not None:
            times.append(self._kill_at)
        return min(max(min(times, default=now + 1.0) - now, 0.0), 1.0)


@contextlib.contextmanager
def _wakeups(signals: list[int]) -> Iterator[int]:
    """A descriptor that becomes readable at every signal; those that ask for the end are put in `signals`."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    before = {number: signal.signal(number, lambda n, _: signals.append(n)) for number in ending_signals()}
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
