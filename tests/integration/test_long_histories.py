"""A job with a long history is shown, and answered for, a part at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.engine.model import Event
from penstock.service.dashboard.pages.job import LINES, timeline
from penstock.store.protocol import Announce
from tests.support.api import Api, serving
from tests.support.house import in_a_loop

AMOUNT = 2 * LINES + 50


async def long_job(api: Api, amount: int = AMOUNT) -> str:
    job = (await api.penstock.submit("holds", "the printer")).job_id
    await api.penstock.engine.store.apply([Announce(job, f"news {n}") for n in range(amount)])
    return job


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the whole history was read")


@in_a_loop
async def test_a_page_of_a_timeline_reads_no_more_than_itself(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        job = await long_job(api)
        kinds = [event.kind for event in await api.penstock.history(job)]
        api.penstock.engine.store.history = never  # type: ignore[method-assign]
        seen: list[str] = []
        cursor = ""
        while True:
            answer = (await client.get(f"/api/v1/jobs/{job}/timeline?limit=100{cursor}")).json()
            assert len(answer["items"]) <= 100
            seen += [event["kind"] for event in answer["items"]]
            if answer["next"] is None:
                break
            cursor = f"&cursor={answer['next']}"
        assert seen == kinds and len(seen) == AMOUNT


@in_a_loop
async def test_what_happens_meanwhile_moves_no_page_of_a_timeline(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        job = await long_job(api, 10)
        first = (await client.get(f"/api/v1/jobs/{job}/timeline?limit=6")).json()
        await long_job(api, 5)
        await api.penstock.engine.store.apply([Announce(job, "more")])
        rest = (await client.get(f"/api/v1/jobs/{job}/timeline?limit=6&cursor={first['next']}")).json()
        kinds = [event["kind"] for event in first["items"] + rest["items"]]
        assert kinds == [*(f"news {n}" for n in range(10)), "more"] and rest["next"] is None


@in_a_loop
async def test_the_page_of_a_job_shows_the_newest_lines_and_leads_to_the_older_ones(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        client.headers["Accept"] = "text/html"
        job = await long_job(api)
        api.penstock.engine.store.history = never  # type: ignore[method-assign]
        seen: list[int] = []
        path: str | None = f"/ui/jobs/{job}"
        pages = 0
        while path:
            html = (await client.get(path)).text
            table = html.partition('id="history"')[2].partition("</table>")[0]
            shown = [int(n) for n in re.findall(r"news (\d+)", table)]
            assert 0 < len(shown) <= LINES
            seen += shown
            pages += 1
            older = re.search(rf'href="(/ui/jobs/{job}\?before=\d+)" rel="next"', html)
            path = older[1] if older else None
        assert seen == list(range(AMOUNT))[::-1] and pages == 3


@in_a_loop
async def test_a_place_in_a_history_that_no_link_has_is_the_first_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        client.headers["Accept"] = "text/html"
        job = await long_job(api, 3)
        for odd in ("x", "-1", "9" * 40, "0", "²"):
            answer = await client.get(f"/ui/jobs/{job}?before={odd}")
            assert answer.status_code == 200 and "news 2" in answer.text, odd


def ticks(amount: int, *, took: float = 0.01, wait: float = 30.0, step: str = "poll") -> list[Event]:
    return [
        Event("a", 1000.0 + wait * n, "again", step, "waiting", 1, n, 1, took, "worker", None) for n in range(amount)
    ]


async def tracks_of(tmp_path: Path, history: Sequence[Event], *, whole: bool = True) -> Any:
    async with serving(tmp_path) as api:
        job = await api.penstock.job((await api.penstock.submit("holds", "x")).job_id)
    job = type(job)(**{**{name: getattr(job, name) for name in job.__slots__}, "created": 990.0})
    return timeline(job, history, [], history[-1].at + 1.0, whole=whole)


@in_a_loop
async def test_short_ticks_that_follow_each_other_are_one_bar_that_says_how_many(tmp_path: Path) -> None:
    _, tracks = await tracks_of(tmp_path, ticks(LINES))
    poll = next(track for track in tracks if track.label == "poll")
    assert poll.note == f"{LINES}×"
    assert [bar.title for bar in poll.bars if not bar.thin] == [f"poll: again, {LINES} times in 2 h"]


@in_a_loop
async def test_ticks_that_can_be_told_apart_have_a_bar_each(tmp_path: Path) -> None:
    _, tracks = await tracks_of(tmp_path, ticks(5))
    poll = next(track for track in tracks if track.label == "poll")
    assert sum(not bar.thin for bar in poll.bars) == 5 and poll.note == "5×"


@in_a_loop
async def test_a_timeline_of_the_newest_lines_begins_with_the_first_of_them(tmp_path: Path) -> None:
    history = [event for event in ticks(40) if event.at > 1500]
    axis, tracks = await tracks_of(tmp_path, history, whole=False)
    assert axis.start > 1490
    poll = next(track for track in tracks if track.label == "poll")
    assert not any(bar.title.startswith("queued") for bar in poll.bars)
