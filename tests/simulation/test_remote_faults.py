"""Each fault of a provider alone, and random pairs of all faults: every rule for remote calls holds."""

from __future__ import annotations

import random

import pytest

from penstock.simulation import simulate
from penstock.simulation.call_client import spending
from penstock.simulation.call_sample import CALL_WORKFLOWS
from penstock.simulation.faults import NOT_EVER, RANGES, REMOTE_RANGES
from penstock.simulation.providers import three
from penstock.simulation.run import Report

SEEDS = 4
PAIRS = 120


def often(fault: str) -> float:
    return {**RANGES, **REMOTE_RANGES}[fault][1]


def run(seed: int, *faults: str) -> Report:
    return simulate(
        CALL_WORKFLOWS, spending, seed=seed, faults={fault: often(fault) for fault in faults}, providers=three
    )


@pytest.mark.parametrize("fault", REMOTE_RANGES)
def test_every_rule_holds_under_each_fault_alone(fault: str) -> None:
    for seed in range(SEEDS):
        run(seed, fault)


def test_every_rule_holds_under_random_pairs() -> None:
    injected: set[str] = set()
    for seed in range(PAIRS):
        rng = random.Random(f"pair {seed}")
        pair = (rng.choice(sorted(REMOTE_RANGES)), rng.choice(sorted(NOT_EVER)))
        injected |= set(run(seed, *pair).faults)

    assert len(injected) > 0.7 * len(NOT_EVER), "the pairs inject too little"


def test_calls_are_made_and_come_home_without_trouble() -> None:
    report = simulate(CALL_WORKFLOWS, spending, seed=3, faults={}, providers=three)

    assert report.statuses["completed"] > 0
    assert not report.faults
