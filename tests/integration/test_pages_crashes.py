"""A process of the pages pipeline dies: at every commit, every request to Gemini and every file operation, alone and
together with faults of Gemini. Another goes on, and in the end every page is done or dead, nothing is paid twice, and
all counts agree.

Of the many places some are chosen, evenly; `PENSTOCK_EVERY_CRASH=1` takes them all.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any

import pytest

from penstock.engine.errors import Conflict
from penstock.engine.model import Job
from penstock.pipelines.pages import outputs, ticking
from penstock.pipelines.pages.ledger import Ledger
from penstock.pipelines.pages.ledger_rows import Failure
from penstock.pipelines.pages.model import Run
from penstock.pipelines.pages.rules import Judged
from tests.integration.test_pages_faults import BELIEVED, PATIENT, QUICK, cases, name_of, patience, tempo
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
UNHURRIED = [fault for fault in cases() if "times" in fault and fault["kind"] not in (*PATIENT, "list_omits")]
FAULTS = [fault for fault in cases() if "times" in fault and fault["kind"] not in PROMISE_BROKEN]


def survived(
    plan: Sequence[Point], faults: Sequence[dict[str, Any]] = (), *, within: float = 6 * 3600.0, **options: Any
) -> Town:
    """A run whose first processes die at the points of the plan."""
    every = patience(faults)
    options |= {"faults": faults, "plan": plan, "gemini": {"poll_at_most": every}, "tempo": tempo(every)}
    with town_of(BOOKS, **options) as (town, library):
        run = library.run(batch={"poll_interval_seconds": every})
        job = town.play(town.whole_run(run, within=within))
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
    there = points()[kind]
    if EVERY or there <= most:
        return [(kind, number) for number in range(1, there + 1)]
    return [(kind, 1 + round(place * (there - 1) / (most - 1))) for place in range(most)]


def test_a_run_passes_by_every_kind_of_point() -> None:
    assert set(points()) == set(KINDS_OF_POINTS)


@pytest.mark.parametrize("kind", KINDS_OF_POINTS)
@pytest.mark.timeout(600)
def test_a_process_dies_at_every_point(kind: str, record_property: Callable[[str, object], None]) -> None:
    tried = chosen(kind, ALONE)
    # Printed with what the simulation says of its seeds, at the end of the tests.
    record_property("simulation", f"pages: {len(tried)} of {points()[kind]} crashes {kind}")
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


@pytest.mark.timeout(1200)
def test_a_run_is_canceled_or_paused_while_processes_die() -> None:
    """What it left behind is taken in by the next one."""
    for seed in range(200 if EVERY else 8):
        rng = random.Random(f"canceled {seed}")
        faults = rng.sample(UNHURRIED, rng.choice([0, 1]))
        plan = _random_points(rng, rng.choice([1, 2]))
        with town_of(BOOKS, faults=faults, plan=plan, tempo=QUICK, seed=seed) as (town, library):
            run = library.run()

            async def scenario(town: Town = town, run: Run = run, rng: random.Random = rng) -> Job:
                job = await town.begun(run)
                await asyncio.sleep(rng.random() * 5)
                with suppress(Conflict):
                    await rng.choice([town.app.cancel, town.app.pause])(job)
                await asyncio.sleep(rng.random() * 20)
                with suppress(Conflict):
                    await town.app.resume(job)
                await town.settled(job)
                return await town.whole_run(run)

            job = town.play(scenario())
            swapped = any(fault["kind"] in BELIEVED for fault in faults)
            wrong = town.play(books_wrong(town.app, run, library, swapped=swapped))
            wrong += town.paid_twice() + town.differing_outputs()
            assert (job.status, wrong) == ("completed", []), (seed, plan, faults, job.error)


def ask_under_another_key_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    asked = count()
    patch.setattr(ticking, "called", lambda number: f"batch-{number:06d}-{next(asked)}")


def write_what_differs_each_time(patch: pytest.MonkeyPatch) -> None:
    written, times = outputs.written, count()
    patch.setattr(outputs, "written", lambda data, told: written(data, {**told, "time": next(times)}))


def forget_what_was_staged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "stage", lambda self, book, name, file: None)


def count_what_was_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "clear", lambda self, book, number: None)
    strike = Ledger.strike

    def twice(self: Ledger, failure: Failure, judged: Judged, now: float) -> None:
        strike(self, failure, judged, now)
        strike(self, failure, judged, now)

    patch.setattr(Ledger, "strike", twice)


@pytest.mark.parametrize(
    "bug",
    [
        ask_under_another_key_after_a_crash,
        write_what_differs_each_time,
        forget_what_was_staged,
        count_what_was_counted,
    ],
)
def test_a_planted_bug_is_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    tried = chosen("before commit", 3 * ALONE)
    bug(monkeypatch)
    with pytest.raises((AssertionError, TimeoutError)):
        for point in tried:
            survived([point], [{"kind": "row_error", "times": 1}], within=60.0)


def _random_points(rng: random.Random, many: int) -> list[Point]:
    kinds = rng.choices(KINDS_OF_POINTS, k=many)
    return [(kind, rng.randint(1, points()[kind])) for kind in kinds]
