"""Clocks and waits of the measuring scripts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from bench.engine.script.report import report


class Stopwatch:
    def __init__(self) -> None:
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started


def wait_until(ready: Callable[[], bool], *, every: float = 0.01, timeout: float = 100) -> None:
    watch = Stopwatch()
    while not ready():
        if watch.seconds > timeout:
            raise TimeoutError(f"not done after {timeout} seconds")
        time.sleep(every)


async def until(ready: Callable[[], bool], *, every: float, timeout: float = 100) -> None:
    """The same without holding up the event loop."""
    watch = Stopwatch()
    while True:
        if ready():
            return
        if watch.seconds > timeout:
            raise TimeoutError(f"not done after {timeout} seconds")
        await asyncio.sleep(every)


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[round(percent / 100 * (len(ordered) - 1))]


def report_latencies(seconds: list[float]) -> None:
    report("latency_p50", percentile(seconds, 50) * 1000)
    report("latency_p99", percentile(seconds, 99) * 1000)


def report_claim(depth: int, seconds: list[float]) -> None:
    report(f"claim_{depth}", percentile(seconds, 50) * 1000)


CLAIMS = 100
CLAIM_SECONDS = 3.0


class ClaimSample:
    """The times of single claims at one depth: enough for a median, but not for longer than a few seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._whole = Stopwatch()

    @property
    def wants_more(self) -> bool:
        return len(self.seconds) < CLAIMS and (self._whole.seconds < CLAIM_SECONDS or len(self.seconds) < 3)

    def add(self, watch: Stopwatch) -> None:
        self.seconds.append(watch.seconds)
