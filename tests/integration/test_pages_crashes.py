"""A process of the pages pipeline dies: at every commit, every request to Gemini and every file operation, alone and
together with faults of Gemini. Another goes on, and in the end every page is done or dead, nothing is paid twice, and
all counts agree.

Of the many places some are chosen, evenly; `PENSTOCK_EVERY_CRASH=1` takes them all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from tests.integration.test_pages_faults import BELIEVED, PATIENT, QUICK, cases, name_of
from tests.support.pages import books_wrong
from tests.support.pages_town import Town, town_of

BOOKS = {"Alabama/Howard College/1849": [1, 2, 7], "Maine/Ob%er: x/1901": [1]}
EVERY = bool(os.environ.get("PENSTOCK_EVERY_CRASH"))
KINDS_OF_POINTS = ("before commit", "after commit", "before request", "after request", "before file", "torn file")
ALONE = 12
"""Places of each kind at which a process dies while Gemini is well."""

FROZEN = 6
"""Places of each kind at which one stands still."""

TOGETHER = 1
"""Places at which one dies for each fault of Gemini."""

Point = tuple[str, int]
PROMISE_BROKEN = {"list_omits": "a batch that no list shows cannot be found: that is Gemini's word against ours"}
FAULTS = [fault for fault in cases() if "times" in fault and fault["kind"] not in PROMISE_BROKEN]


def survived(plan: Sequence[Point], faults: Sequence[dict[str, Any]] = (), **options: Any) -> Town:
    """A run whose first processes die at the points of the plan."""
    every = max((PATIENT.get(fault["kind"], 2.0) for fault in faults), default=2.0)
    gemini = {"poll_at_most": every}
    with town_of(BOOKS, faults=faults, plan=plan, tempo=QUICK, gemini=gemini, **options) as (town, library):
        run = library.run(batch={"poll_interval_seconds": every})
        job = town.play(town.whole_run(run))
        swapped = any(fault["kind"] in BELIEVED for fault in faults)
        wrong = town.play(books_wrong(town.app, run, library, swapped=swapped))
        wrong += town.paid_twice() + town.differing_outputs()
        assert (job.status, wrong) == ("completed", []), (plan, faults, job.error)
        return town


@cache
def points() -> dict[str, int]:
    """How many points of each kind a run passes by to which nothing happens."""
    return dict(survived([]).lives[0].points)


def chosen(kind: str, most: int) -> list[Point]:
    """The points of a kind at which a process dies: evenly spread, the first and the last among them."""
    count = points()[kind]
    if EVERY or count <= most:
        return [(kind, number) for number in range(1, count + 1)]
    return [(kind, 1 + round(place * (count - 1) / (most - 1))) for place in range(most)]


def test_a_run_passes_by_every_kind_of_point() -> None:
    assert set(points()) == set(KINDS_OF_POINTS)


@pytest.mark.parametrize("kind", KINDS_OF_POINTS)
@pytest.mark.timeout(600)
def test_a_process_dies_at_every_point(kind: str) -> None:
    tried = chosen(kind, ALONE)
    print(f"{kind}: {len(tried)} of {points()[kind]} points")
    for point in tried:
        town = survived([point])
        assert town.lives[0].dead or point == (kind, points()[kind]), f"nobody died {point}"


@pytest.mark.timeout(1200)
def test_processes_die_one_after_the_other() -> None:
    for seed in range(100 if EVERY else 8):
        survived(_random_points(random.Random(f"deaths {seed}"), 3), seed=seed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS_OF_POINTS[:4])
def test_a_process_stands_still_until_others_have_taken_its_work(kind: str) -> None:
    """And then goes on with what it was about to do."""
    for point in chosen(kind, FROZEN):
        town = survived([], freezes=point)
        assert town.lives[0].frozen_until or point == (kind, points()[kind]), f"nobody stood still {point}"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_every_fault_with_a_crash(fault: dict[str, Any]) -> None:
    if EVERY:
        for kind in KINDS_OF_POINTS:
            for point in chosen(kind, 1):
                survived([point], [fault])
        return
    rng = random.Random(f"crash {name_of(fault)}")
    for _ in range(TOGETHER):
        survived(_random_points(rng, 1), [fault])


def _random_points(rng: random.Random, count: int) -> list[Point]:
    kinds = rng.choices(KINDS_OF_POINTS, k=count)
    return [(kind, rng.randint(1, points()[kind])) for kind in kinds]
