"""What a pipeline author gets: `simulate` with workflows and a scenario of one's own."""

from __future__ import annotations

import asyncio

import pytest

from penstock import Again, Context, Penstock, Workflow
from penstock.simulation import Violation, World, effect, expect, simulate, tally
from penstock.simulation.loop import Stuck, VirtualLoop

pages = Workflow("pages", payload=int)


@pages.step
async def read(page: int, ctx: Context) -> int:
    await effect("read", str(page))
    tally(ctx, pages=1)
    return page


@pages.step
def publish(page: int, ctx: Context) -> int:
    return page


async def five_pages(app: Penstock, world: World) -> None:
    for page in range(5):
        await app.submit(pages, page, key=f"page {page}")


QUIET: dict[str, float] = {}


def test_a_scenario_of_ones_own_runs_to_its_end() -> None:
    report = simulate([pages], five_pages, seed=1, faults=QUIET)

    assert report.statuses == {"completed": 5}
    assert report.effects == {"read": 5}
    assert not report.faults


def test_crashes_repeat_effects_and_lose_no_job() -> None:
    report = simulate([pages], five_pages, seed=2, faults={"crash after effect": 0.6})

    assert report.jobs == 5
    assert report.effects["read"] > 5
    assert report.faults["crash after effect"] > 0


def test_hours_pass_in_a_moment() -> None:
    slow = Workflow("slow", payload=int)

    @slow.step
    async def wait(hour: int, ctx: Context) -> int | Again:
        return Again(hour + 1, after=3600) if hour < 12 else hour

    async def scenario(app: Penstock, world: World) -> None:
        await app.submit(slow, 0)

    report = simulate([slow], scenario, seed=1, faults=QUIET, workers=1, patience=24 * 3600)

    assert report.statuses == {"completed": 1}
    assert report.seconds > 11 * 3600


def test_a_rule_of_the_pipelines_own_is_reported_with_its_seed_and_trace() -> None:
    wrong = Workflow("wrong", payload=int)

    @wrong.step
    async def check(n: int, ctx: Context) -> int:
        expect(n < 3, f"{n} is too much")
        return n

    async def scenario(app: Penstock, world: World) -> None:
        for n in range(5):
            await app.submit(wrong, n)

    with pytest.raises(Violation, match=r"(3|4) is too much") as caught:
        simulate([wrong], scenario, seed=7, faults=QUIET)

    assert caught.value.seed == 7
    assert any("step check" in line for line in caught.value.trace)


def test_a_job_that_never_ends_is_named() -> None:
    endless = Workflow("endless", payload=int)

    @endless.step
    async def turn(n: int, ctx: Context) -> Again:
        return Again(n, after=5)

    async def scenario(app: Penstock, world: World) -> None:
        await app.submit(endless, 0)

    with pytest.raises(Violation, match=r"liveness: 60 s after the last fault these hang: \w+ \(\w+, step turn"):
        simulate([endless], scenario, seed=1, faults=QUIET, patience=60)


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown faults: gremlins"):
        simulate([pages], five_pages, seed=1, faults={"gremlins": 1.0})


def test_outside_a_simulation_the_marks_do_nothing() -> None:
    expect(False, "nobody looks")
    asyncio.run(effect("read"))


def test_waiting_for_nothing_is_an_error_not_a_hang() -> None:
    loop = VirtualLoop(0.0)  # type: ignore[abstract]

    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="everybody waits"):
        loop.run_until_complete(forever())
    loop.close()


def test_virtual_time_jumps_to_the_next_timer() -> None:
    loop = VirtualLoop(100.0)  # type: ignore[abstract]
    seen: list[tuple[float, str]] = []

    async def say(after: float, word: str) -> None:
        await asyncio.sleep(after)
        seen.append((loop.time(), word))

    async def main() -> None:
        await asyncio.gather(say(3600, "late"), say(1, "soon"), say(1, "soon too"))

    loop.run_until_complete(main())
    loop.close()

    assert seen == [(101.0, "soon"), (101.0, "soon too"), (3700.0, "late")]
