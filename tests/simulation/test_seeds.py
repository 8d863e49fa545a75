"""Thousands of seeds of the built-in scenario: every rule holds after every transaction, and every job ends."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from penstock.simulation.__main__ import summary
from penstock.simulation.faults import NOT_EVER
from penstock.simulation.many import run_many

SEEDS = int(os.environ.get("PENSTOCK_SEEDS", "10000"))
ENOUGH_FOR_EVERY_FAULT = 5000


@pytest.mark.timeout(1800)
def test_every_rule_holds_for_every_seed(record_property: Callable[[str, object], None]) -> None:
    total = run_many(seeds=SEEDS)

    record_property("simulation", summary(total))
    shown = [failure.text + "\n" + "\n".join(failure.trace[-60:]) for failure in total.failures[:3]]
    assert not total.failures, "\n\n".join([f"{len(total.failures)} of {SEEDS} seeds failed", *shown])
    assert total.seeds == SEEDS
    if SEEDS >= ENOUGH_FOR_EVERY_FAULT:
        assert {fault for fault in NOT_EVER if total.faults[fault]} == set(NOT_EVER), "a fault was never injected"
        assert {"completed", "failed", "canceled"} <= set(total.statuses)
        assert total.statuses["completed"] > 0.8 * total.jobs, "so many jobs fail that little is tested"
