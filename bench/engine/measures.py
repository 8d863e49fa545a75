"""What the engine bench measures. The names are the columns of the table and the entries of the results file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    key: str
    """What a contestant's script reports it as."""
    title: str
    heading: str
    unit: str
    higher_is_better: bool = False


SPEED = (
    Measure("jobs", "no-op jobs", "jobs/s", "jobs/s", higher_is_better=True),
    Measure("workflows", "5-step workflows", "5-step/s", "workflows/s", higher_is_better=True),
    Measure("latency_p50", "idle latency p50", "p50 ms", "ms"),
    Measure("latency_p99", "idle latency p99", "p99 ms", "ms"),
    Measure("memory", "worker memory", "MB", "MB"),
    Measure("cold_start", "cold start to first job done", "cold s", "s"),
)
"""Measured in every round."""

DEPTHS = {10_000: "10^4", 100_000: "10^5", 1_000_000: "10^6"}
WAITING = 100_000

SCALE = (
    Measure("waiting_memory", f"memory with {WAITING:,} waiting jobs", "MB, 100k waiting", "MB"),
    *(
        Measure(f"claim_{depth}", f"claim of one job among {words} queued", f"claim ms, {words}", "ms")
        for depth, words in DEPTHS.items()
    ),
)
"""Measured once in a run: filling a store with a million jobs takes longer than a round."""

ALL = (*SPEED, *SCALE)
