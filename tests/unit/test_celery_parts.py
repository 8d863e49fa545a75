"""The parts of delivery by Celery that need no broker: names, settings, turns, and hints that cannot be sent."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Again, Context, InvalidConfiguration, Penstock, Workflow
from penstock.config import load
from penstock.delivery.celery.application import make_celery
from penstock.delivery.celery.child import Ending, Heard, bound
from penstock.delivery.celery.consuming import SAY_AGAIN_AFTER, Outage
from penstock.delivery.celery.hints import FURTHEST, Hints
from penstock.delivery.celery.naming import PUMP, SWEEP, celery_queue, checked_broker, require_celery
from penstock.delivery.celery.tasks import SUBMITTERS, submitter
from penstock.delivery.celery.turn import Turns
from tests.support.cli import Cli

NOWHERE = "redis://:geheim@127.0.0.1:1/0"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_each_queue_has_one_at_the_broker() -> None:
    assert [celery_queue(name) for name in ("default", "gpu")] == ["penstock", "penstock.gpu"]
    assert PUMP not in [celery_queue(name) for name in ("pump", "-pump", "default")]


def test_messages_are_json_acknowledged_late_and_taken_one_at_a_time(tmp_path: Path) -> None:
    told = load(None, {"celery.broker_url": NOWHERE, "celery.hard_limit": "20m"}, cwd=tmp_path).celery
    conf = make_celery(told, queues=["default", "gpu"]).conf
    assert (conf.task_serializer, conf.accept_content, conf.enable_utc, conf.timezone) == (
        "json",
        ["json"],
        True,
        "UTC",
    )
    assert conf.task_acks_late and conf.task_reject_on_worker_lost and conf.task_track_started
    assert (conf.worker_prefetch_multiplier, conf.task_soft_time_limit, conf.task_time_limit) == (1, 270, 1200)
    assert conf.broker_transport_options["visibility_timeout"] > conf.task_time_limit
    assert [queue.name for queue in conf.task_queues] == ["penstock", "penstock.gpu", PUMP]
    assert conf.task_ignore_result


def test_beat_sends_nothing_but_hints(tmp_path: Path) -> None:
    told = load(None, {"celery.broker_url": NOWHERE}, cwd=tmp_path).celery
    schedule = make_celery(told).conf.beat_schedule
    assert {name: entry["task"] for name, entry in schedule.items()} == dict.fromkeys(
        ("sweep", "sla-check", "snapshots"), SWEEP
    )
    assert schedule["sweep"]["schedule"] == 5.0
    assert all("args" not in entry for entry in schedule.values())


def test_rabbitmq_gets_no_options_of_redis(tmp_path: Path) -> None:
    told = load(None, {"celery.broker_url": "amqp://guest:guest@127.0.0.1:1//"}, cwd=tmp_path).celery
    conf = make_celery(told).conf
    assert conf.broker_transport_options == {}
    assert conf.broker_transport is None


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"celery.broker_url": "memory://"}, r"celery.broker_url: must be a URL like redis://"),
        ({"celery.broker_url": "http://user:geheim@host"}, r"celery.broker_url: must be a URL like redis://"),
        ({"celery.soft_limit": "300s"}, r"hard_limit must be longer than soft_limit"),
        ({"celery.processes": 0}, r"celery.processes: must be greater than or equal to 1"),
    ],
)
def test_wrong_settings_are_refused_and_show_no_password(told: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=said) as refused:
        load(None, told, cwd=tmp_path)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("package", ["celery", "redis"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InvalidConfiguration, match=rf"needs {package}.*pip install 'penstock\[celery\]'"):
        require_celery()


def test_a_worker_without_a_broker_says_how_to_name_one(cli: Cli) -> None:
    with pytest.raises(InvalidConfiguration, match="PENSTOCK_CELERY__BROKER_URL"):
        checked_broker(None)
    said = cli("worker", "--delivery", "celery", code=2)
    assert "needs the address of a broker: set celery.broker_url" in said.sentence


def test_a_worker_refuses_what_it_cannot_do(cli: Cli) -> None:
    cli.environ["PENSTOCK_CELERY__BROKER_URL"] = NOWHERE
    refused = {
        ("--processes", "2"): "--concurrency says how many processes there are",
        ("--stop-when-idle", "1s"): "--concurrency says how many processes there are",
        ("--store", "memory://"): "memory:// is gone with its process",
    }
    for options, why in refused.items():
        assert why in cli.inside("worker", "--delivery", "celery", *options, code=2).err
    assert "are for --delivery celery" in cli.inside("worker", "--no-beat", code=2).err


def test_the_doctor_says_whether_the_broker_answers(cli: Cli) -> None:
    cli.environ |= {"PENSTOCK_CELERY__BROKER_URL": NOWHERE, "PENSTOCK_DELIVERY": "celery"}
    said = cli.inside("doctor", code=1)
    (line,) = [line for line in said.out.splitlines() if "broker" in line and "does not answer" in line]
    assert "redis://:***@127.0.0.1:1/0" in line
    assert "geheim" not in said.out + said.err


def test_two_tasks_of_one_name_are_refused() -> None:
    try:
        add = submitter("tests.twice")

        @add
        async def first(app: Penstock) -> None: ...

        async def second(app: Penstock) -> None: ...

        assert add(first) is first
        with pytest.raises(ValueError, match=r"two tasks named 'tests\.twice'"):
            add(second)
    finally:
        SUBMITTERS.pop("tests.twice")


def test_no_step_runs_longer_than_the_limits() -> None:
    flow = Workflow("flow")

    @flow.step
    async def unlimited(n: int, ctx: Context) -> int:
        return n

    @flow.step(timeout=5, hard_timeout=10)
    async def short(n: int, ctx: Context) -> int:
        return n

    @flow.step(timeout=4000)
    async def long(n: int, ctx: Context) -> int:
        return n

    @flow.cleanup
    async def tidy(n: int, ctx: Context) -> None: ...

    bound(flow, soft=270, hard=300)
    limits = {name: (step.timeout, step.hard_timeout) for name, step in flow.steps.items()}
    assert limits == {"unlimited": (270, 300), "short": (5, 10), "long": (270, 300), "tidy": (270, 300)}
    assert flow.cleanup_step is flow.steps["tidy"]


def test_what_the_worker_asks_of_its_processes_only_grows() -> None:
    ending = Ending()
    assert ending.asked == 0
    ending.ask(2)
    ending.ask(1)
    assert ending.asked == 2


def test_silence_is_measured_from_the_last_word() -> None:
    heard = Heard()
    assert not heard.nothing_for(60) and not heard.no_sweep_for(60)
    assert heard.nothing_for(0) and heard.no_sweep_for(0)


def test_a_broker_that_is_away_is_told_of_once_a_minute_and_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    outage = Outage(lambda: now)
    with caplog.at_level(logging.INFO, "penstock.worker"):
        outage.back("redis://there")
        assert caplog.messages == []
        while now < 2.5 * SAY_AGAIN_AFTER:
            outage.lost("redis://there", ConnectionError("refused"))
            now += 2.0
        outage.back("redis://there")
        outage.back("redis://there")
    assert [message[:60] for message in caplog.messages] == [
        "the broker at redis://there does not answer (refused): start",
        "the broker at redis://there has not answered for 60 s (refus",
        "the broker at redis://there has not answered for 120 s (refu",
        "the broker at redis://there answers again after 150 s",
    ]


def test_hints_that_cannot_be_sent_call_whoever_does_the_work_instead(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = load(None, {"celery.broker_url": NOWHERE}, cwd=tmp_path).celery
    failed = threading.Event()
    hints = Hints(lambda: make_celery(told), failed=failed.set)
    with caplog.at_level(logging.WARNING, "penstock.delivery"):
        hints.tell("default")
        assert failed.wait(30)
        hints.close()
    assert hints.away and caplog.messages == []


def test_hints_that_cannot_be_sent_are_told_of_once_and_hold_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = load(None, {"celery.broker_url": NOWHERE}, cwd=tmp_path).celery
    hints = Hints(lambda: make_celery(told))
    with caplog.at_level(logging.WARNING, "penstock.delivery"):
        for _ in range(100):
            hints.tell("default")
        hints.tell("default", FURTHEST + 1)
        hints.close()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "no hint was sent" in line and "geheim" not in line
    hints.tell("default")


def turning(
    check: Callable[[Penstock, Callable[..., Turns], list[tuple[str, float]]], Any], workflows: list[Workflow]
) -> None:
    async def main() -> None:
        told: list[tuple[str, float]] = []

        def turns(**options: Any) -> Turns:
            def tell(queue: str, after: float) -> None:
                told.append((queue, after))

            return Turns(app.engine, tell, queues=["default"], **{"at_once": 20, **options})

        async with Penstock(workflows=workflows, store="memory://", outputs=".") as app:
            await check(app, turns, told)

    asyncio.run(main())


def chain() -> Workflow:
    flow = Workflow("chain", payload=int)

    @flow.step
    async def count(n: int, ctx: Context) -> int | Again:
        return n if n <= 0 else Again(n - 1)

    @flow.step
    async def wait(n: int, ctx: Context) -> int | Again:
        return n if n < 0 else Again(-1, after=30)

    return flow


def test_a_turn_takes_what_there_is_and_tells_when_the_rest_is_due() -> None:
    async def check(app: Penstock, make: Callable[..., Turns], told: list[tuple[str, float]]) -> None:
        await app.submit_many("chain", [3] * 30)
        turns = make(at_once=7, portion=3)
        assert await turns.advance("default") >= 30
        assert {job.status for job in await app.jobs()} == {"waiting"}
        queue, after = told[-1]
        assert queue == "default" and 0 < after <= 30
        assert await turns.advance("default") == 0

    turning(check, [chain()])


def test_a_turn_that_cannot_take_all_calls_for_help_and_ends_in_time() -> None:
    go = asyncio.Event()
    slow = Workflow("slow", payload=int)

    @slow.step
    async def hold(n: int, ctx: Context) -> None:
        await go.wait()

    async def check(app: Penstock, make: Callable[..., Turns], told: list[tuple[str, float]]) -> None:
        jobs = await app.submit_many("slow", [1, 2, 3])
        turns = make(at_once=2, longest=0.05)
        assert await turns.advance("default") == 2
        assert told and set(told) == {("default", 0.0)}
        assert turns.running == 2, "the ticks go on when their turn is over"
        go.set()
        while turns.running:
            await asyncio.sleep(0)
        assert await turns.advance("default") == 1
        assert [(await app.wait(job.job_id)).status for job in jobs] == ["completed"] * 3

    turning(check, [slow])


def test_a_turn_ends_at_once_when_the_worker_stops_and_hands_back_what_runs() -> None:
    begun = asyncio.Event()
    slow = Workflow("slow", payload=int)

    @slow.step
    async def hold(n: int, ctx: Context) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def check(app: Penstock, make: Callable[..., Turns], told: list[tuple[str, float]]) -> None:
        job = await app.submit("slow", 1)
        turns = make()
        turn = asyncio.create_task(turns.advance("default"))
        await begun.wait()
        turns.end()
        assert await turn == 1
        assert told[-1] == ("default", 0.0), "whoever is left is told"
        await turns.stop(0.0)
        found = await app.job(job.job_id)
        assert (found.status, found.attempt, found.worker) == ("queued", 0, None)

    turning(check, [slow])


def test_a_turn_that_no_hint_began_makes_way_for_one_that_a_hint_begins() -> None:
    go = asyncio.Event()
    slow = Workflow("slow", payload=int)

    @slow.step
    async def hold(n: int, ctx: Context) -> None:
        await go.wait()

    async def check(app: Penstock, make: Callable[..., Turns], told: list[tuple[str, float]]) -> None:
        await app.submit("slow", 1, queue="other")
        turns = make(longest=3600.0)
        looking = asyncio.create_task(turns.look("other"))
        while not turns.running:
            await asyncio.sleep(0)
        job = await app.submit("slow", 2)
        hinted = asyncio.create_task(turns.advance("default"))
        assert await looking == 1
        assert await turns.look("other") == 0, "a turn is under way, so there is no other"
        go.set()
        assert (await app.wait(job.job_id)).status == "completed"
        assert await hinted == 1

    turning(check, [slow])
