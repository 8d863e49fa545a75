"""A run depends on its seed alone: not on the process, its hash seed, or what ran before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.simulation.many import run_seed

SEEDS = (3, 4, 19, 39, 59)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_the_same_trace_twice(seed: int) -> None:
    first = run_seed(seed, trace=True)
    second = run_seed(seed, trace=True)

    assert first.trace == second.trace
    assert first.digest == second.digest


def test_different_seeds_give_different_runs() -> None:
    assert len({run_seed(seed, trace=True).digest for seed in range(20)}) == 20


@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_another_process_replays_a_seed_exactly(hash_seed: str) -> None:
    here = [run_seed(seed, trace=True).digest for seed in SEEDS]

    program = (
        "from penstock.simulation.many import run_seed\n"
        f"for seed in {SEEDS!r}: print(run_seed(seed, trace=True).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == here
