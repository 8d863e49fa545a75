"""Webhooks against a real receiver: signed, tried again, never twice, and nothing is missed whatever dies."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock import Context, Penstock, Permanent, Workflow
from penstock.cli.sessions import alive
from penstock.config import Settings
from penstock.config.settings import NOTICES, WebhookSettings
from penstock.engine.clock import SystemClock
from penstock.engine.errors import OverBudget, StoreUnavailable
from penstock.engine.machine import is_internal, workers_at_work
from penstock.engine.model import Job
from penstock.service import webhooks
from penstock.service.notices import WEBHOOK_WORKFLOW
from penstock.service.notifier import AT_ONCE, Notifier, cursor_of
from penstock.service.webhooks import LONGEST_WAIT, queue_of, signature, trial
from penstock.store.protocol import Op, SetCursor, Submit
from tests.support.receiver import Receiver

PATIENT = 20.0
SECRET = "a secret that nobody may see"
ROOT = Path(__file__).parents[2]


class MovedClock(SystemClock):
    """The machine's clock, put forward by hand."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def flow(sla: float | None = None) -> Workflow:
    work = Workflow("work", sla=sla)

    @work.step
    async def step(what: str, ctx: Context) -> str:
        if what == "fail":
            raise Permanent("it cannot be done")
        if what == "too dear":
            raise OverBudget("budget tenant:default: $1 is not enough")
        return what

    return work


def hook(receiver: Receiver | str, **more: Any) -> WebhookSettings:
    url = receiver if isinstance(receiver, str) else receiver.url
    return WebhookSettings(url=url, secret=SECRET, **more)


class World:
    """One service's process: an open Penstock with a worker, and its notifier."""

    def __init__(self, tmp_path: Path, store: str, clock: MovedClock, sla: float | None) -> None:
        self.clock = clock
        self.home = tmp_path / "home"
        self.app = Penstock(workflows=[flow(sla)], clock=clock, lease=3600.0)
        self.store = store

    def settings(self, **hooks: WebhookSettings) -> Settings:
        return Settings(home=self.home, webhooks=hooks, lease=3600.0)

    @contextlib.asynccontextmanager
    async def notifier(self, **hooks: WebhookSettings) -> AsyncIterator[Notifier]:
        notifier = Notifier(self.app, self.settings(**hooks))
        await notifier.start()
        if hooks:
            await notifier.read()
        try:
            yield notifier
        finally:
            await notifier.stop()

    async def run(self, what: str, *, tenant: str = "default", until: tuple[str, ...] = ()) -> Job:
        submitted = await self.app.submit("work", what, tenant=tenant)
        return await self.app.wait(submitted.job_id, timeout=PATIENT, until=until)

    async def deliveries(self, **where: Any) -> list[Job]:
        return await self.app.jobs(workflow=WEBHOOK_WORKFLOW, limit=1000, **where)


@contextlib.asynccontextmanager
async def world(tmp_path: Path, store: str | None = None, *, sla: float | None = None) -> AsyncIterator[World]:
    made = World(tmp_path, store or f"sqlite:///{tmp_path}/work.db", MovedClock(), sla)
    await made.app.open(store=made.store, settings=made.settings())
    try:
        async with made.app.worker():
            yield made
    finally:
        await made.app.close()


async def until(condition: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENT):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {what}") from None


async def ended(world: World, count: int, *statuses: str) -> list[Job]:
    async with asyncio.timeout(PATIENT):
        while len(found := await world.deliveries(status=statuses)) < count:
            await asyncio.sleep(0.02)
    return found


def test_a_job_that_ends_is_told_with_a_signature(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> Job:
        async with world(tmp_path) as here, here.notifier(ops=hook(receiver)):
            job = await here.run("well", tenant="acme")
            await until(lambda: receiver.received, "the notice")
            return job

    with Receiver() as receiver:
        job = asyncio.run(main(receiver))
    (got,) = receiver.received
    assert got.headers["Penstock-Event"] == got.json["event"] == "job.completed"
    assert got.headers["Penstock-Delivery"] == got.json["delivery"] == f"ops:{got.json['id']}"
    assert got.headers["Content-Type"] == "application/json"
    assert (
        got.json["job"] | {"id": job.id, "workflow": "work", "tenant": "acme", "status": "completed"} == got.json["job"]
    )
    at, signed = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", got.headers["Penstock-Signature"]).groups()  # type: ignore[union-attr]
    assert signed == hmac.new(SECRET.encode(), f"{at}.".encode() + got.body, hashlib.sha256).hexdigest()


def verify_of_the_documentation() -> Callable[..., bool]:
    page = (ROOT / "docs" / "how-to" / "webhooks.md").read_text()
    (block,) = re.findall(r"```python\n(import hashlib.*?)```", page, re.DOTALL)
    space: dict[str, Any] = {}
    exec(block, space)
    verify: Callable[..., bool] = space["verify"]
    return verify


def test_the_documented_way_to_verify_takes_what_is_sent_and_nothing_else(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here, here.notifier(ops=hook(receiver)):
            await here.run("well")
            await until(lambda: receiver.received, "the notice")

    with Receiver() as receiver:
        asyncio.run(main(receiver))
    verify = verify_of_the_documentation()
    (got,) = receiver.received
    signed = got.headers["Penstock-Signature"]
    assert verify(SECRET, got.body, signed)
    assert not verify("another secret, as long", got.body, signed)
    assert not verify(SECRET, got.body + b" ", signed)
    assert not verify(SECRET, got.body, signature(SECRET, got.body, 1_000_000))
    for wrong in ("", "t=1", "v1=00", "t=now,v1=00", signed.replace("v1=", "v0=")):
        assert not verify(SECRET, got.body, wrong)


def test_the_documentation_lists_every_event() -> None:
    page = (ROOT / "docs" / "how-to" / "webhooks.md").read_text()
    table = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert re.findall(r"`([a-z.]+)`", "".join(table)) == [*NOTICES, trial("ops", 0.0).event]
    assert (trial("ops", 0.0).about["job"], trial("ops", 0.0).about["note"]) == (None, None)


def test_each_kind_of_notice_is_told_to_who_wants_it(tmp_path: Path) -> None:
    async def main(everything: Receiver, failures: Receiver, tenants: Receiver, others: Receiver) -> None:
        async with (
            world(tmp_path) as here,
            here.notifier(
                everything=hook(everything),
                failures=hook(failures, events=("job.failed",)),
                tenants=hook(tenants, tenant="acme"),
                others=hook(others, workflows=("something else",)),
            ) as notifier,
        ):
            await here.run("well", tenant="acme")
            await here.run("fail")
            await here.run("too dear", until=("paused",))
            parked = (await here.app.jobs(status=["paused"]))[0]
            await here.app.cancel(parked.id)
            await notifier.read()
            await until(lambda: len(everything.received) >= 4, "four notices")
            await ended(here, 6, "completed")

    with Receiver() as everything, Receiver() as failures, Receiver() as tenants, Receiver() as others:
        asyncio.run(main(everything, failures, tenants, others))
    events = [got.json["event"] for got in everything.received]
    assert sorted(events) == ["budget.paused", "job.canceled", "job.completed", "job.failed"]
    assert [(got.json["event"], got.json["note"]) for got in failures.received] == [
        ("job.failed", "Permanent: it cannot be done")
    ]
    assert [got.json["job"]["tenant"] for got in tenants.received] == ["acme"]
    assert others.received == []


def test_a_receiver_that_fails_is_tried_again_until_it_takes_it(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here, here.notifier(ops=hook(receiver)):
            await here.run("well")
            for tries in (1, 2):
                await until(lambda tries=tries: len(receiver.received) == tries, f"try {tries}")
                (waiting,) = await ended(here, 1, "waiting")
                assert waiting.error == f"Transient: webhook 'ops' answered {(500, 404)[tries - 1]}"
                here.clock.ahead += 100
                here.app.engine.send_hints({queue_of("ops")})
            (job,) = await ended(here, 1, "completed")
            assert job.result == {"delivered": True, "status": 204}

    with Receiver(500, 404) as receiver:
        asyncio.run(main(receiver))
    assert len({got.headers["Penstock-Delivery"] for got in receiver.received}) == 1
    assert len({got.headers["Penstock-Signature"] for got in receiver.received}) == 3, "each try is signed anew"
    assert len({got.body for got in receiver.received}) == 1


def test_a_receiver_that_is_busy_says_when(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here, here.notifier(ops=hook(receiver)):
            await here.run("well")
            (waiting,) = await ended(here, 1, "waiting")
            assert waiting.due is not None
            assert 600 < waiting.due - here.clock.now() < 710
            here.clock.ahead += 720
            here.app.engine.send_hints({queue_of("ops")})
            await ended(here, 1, "completed")

    with Receiver((503, {"Retry-After": "700"})) as receiver:
        asyncio.run(main(receiver))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "Permanent: webhook 'ops' answered 400"),
        (401, "Permanent: webhook 'ops' answered 401"),
        (410, "Permanent: webhook 'ops' answered 410"),
        (302, "Permanent: webhook 'ops' answered 302: redirects are not followed; configure the address"),
    ],
)
def test_a_refusal_is_a_dead_letter_that_can_be_retried(tmp_path: Path, status: int, said: str) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here, here.notifier(ops=hook(receiver)):
            await here.run("well")
            (dead,) = await ended(here, 1, "failed")
            assert dead.error is not None and dead.error.startswith(said)
            assert len(receiver.received) == 1
            again = await here.app.retry(dead.id)
            done = await here.app.wait(again.id, timeout=PATIENT)
            assert done.status == "completed"

    with Receiver((status, {"Location": "http://127.0.0.1:1/elsewhere"})) as receiver:
        asyncio.run(main(receiver))
    assert [got.headers["Penstock-Delivery"] for got in receiver.received] == [
        receiver.received[0].headers["Penstock-Delivery"]
    ] * 2


def test_neither_secret_nor_address_is_in_what_people_see(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of a receiver that refuses, and of one that is not there; also where everything is logged."""

    async def main(receiver: Receiver) -> list[str]:
        nowhere = "http://user:pass-word@127.0.0.1:1/hooks/a-path-nobody-may-see?token=hidden-one"
        async with (
            world(tmp_path) as here,
            here.notifier(refuses=hook(receiver), nowhere=hook(nowhere)),
        ):
            await here.run("well")
            await ended(here, 1, "failed")
            (unreached,) = await ended(here, 1, "waiting")
            assert unreached.error == "Transient: webhook 'nowhere' could not be reached (ConnectError)"
            jobs = await here.deliveries()
            histories = [await here.app.history(job.id) for job in jobs]
            return [repr(jobs), repr(histories)]

    with Receiver(400) as receiver, caplog.at_level(logging.DEBUG):
        shown = asyncio.run(main(receiver))
        port = f"port={receiver.port}"
    for text in (*shown, caplog.text):
        for hidden in (SECRET, "pass-word", "hidden-one", "a-path-nobody-may-see", port, "port=1 "):
            assert hidden not in text


def test_a_receiver_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    async def main(stuck: Receiver, well: Receiver) -> None:
        many = 5 * AT_ONCE
        async with world(tmp_path) as here, here.notifier(stuck=hook(stuck), well=hook(well)):
            for _ in range(many):
                await here.run("well")
            await until(lambda: len(well.received) == many, "all notices for who answers")
            assert len(stuck.received) == AT_ONCE

    with Receiver(hangs=True) as stuck, Receiver() as well:
        asyncio.run(main(stuck, well))


def test_a_receiver_that_does_not_answer_in_time_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here, here.notifier(ops=hook(receiver)):
            await here.run("well")
            (waiting,) = await ended(here, 1, "waiting")
            assert waiting.error == "Transient: webhook 'ops' could not be reached (ReadTimeout)"

    monkeypatch.setattr(webhooks, "TIMEOUT", 0.3)
    with Receiver(hangs=True) as receiver:
        asyncio.run(main(receiver))


@pytest.mark.parametrize(
    ("said", "most"),
    [
        ("999999999", LONGEST_WAIT),
        ("9" * 400, LONGEST_WAIT),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT),
        ("\xb2", 60.0),
        ("-5", 60.0),
        ("soon", 60.0),
    ],
)
def test_what_a_receiver_asks_for_is_bounded(tmp_path: Path, said: str, most: float) -> None:
    """What is no time at all counts as if nothing had been said."""

    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here, here.notifier(ops=hook(receiver)):
            await here.run("well")
            (waiting,) = await ended(here, 1, "waiting")
            assert waiting.error == "RateLimited: webhook 'ops' answered 429"
            assert waiting.due is not None
            assert waiting.due - here.clock.now() <= most * 1.25

    with Receiver((429, {"Retry-After": said})) as receiver:
        asyncio.run(main(receiver))


def test_deliveries_are_not_told_of_themselves(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here, here.notifier(ops=hook(receiver)) as notifier:
            await here.run("well")
            await ended(here, 1, "failed")
            await notifier.read()
            assert len(await here.deliveries()) == 1

    with Receiver(400) as receiver:
        asyncio.run(main(receiver))
    assert len(receiver.received) == 1


def test_what_happened_while_no_service_ran_is_told_by_the_next(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> tuple[Job, Job]:
        async with world(tmp_path) as here:
            before = await here.run("well")
            async with here.notifier(ops=hook(receiver)):
                pass
            between = await here.run("well")
            async with here.notifier(ops=hook(receiver)):
                await ended(here, 1, "completed")
            return before, between

    with Receiver() as receiver:
        before, between = asyncio.run(main(receiver))
    told = {got.json["job"]["id"] for got in receiver.received}
    assert told == {between.id}, f"the first time it begins with the present, not with {before.id}"


def test_a_webhook_that_is_new_is_not_told_of_what_was_before(tmp_path: Path) -> None:
    """Whether there were others, and also where its name was used before."""

    async def main(first: Receiver, second: Receiver) -> list[str]:
        async with world(tmp_path) as here:
            ids = []
            for hooks, told in (
                ({"first": hook(first)}, 1),
                ({}, 1),
                ({"second": hook(second)}, 2),
                ({"first": hook(first), "second": hook(second)}, 4),
            ):
                ids.append((await here.run("well")).id)
                async with here.notifier(**hooks):
                    ids.append((await here.run("well")).id)
                    await ended(here, told, "completed")
            await here.run("well")
            async with here.notifier(first=hook(first), second=hook(second)):
                await ended(here, 6, "completed")
            return ids

    with Receiver() as first, Receiver() as second:
        ids = asyncio.run(main(first, second))
    told = [[got.json["job"]["id"] for got in receiver.received] for receiver in (first, second)]
    places = [[ids.index(job) for job in jobs if job in ids] for jobs in told]
    assert [sorted(each) for each in places] == [[1, 7], [5, 6, 7]]
    assert [len(each) for each in told] == [3, 4]


def test_a_line_that_is_committed_late_is_told_after_a_restart(postgres_url: str, tmp_path: Path) -> None:
    """A transaction takes its number, others pass it by, the service restarts, and then it commits."""

    async def main(receiver: Receiver) -> None:
        late = await asyncpg.connect(postgres_url)
        async with world(tmp_path, postgres_url) as here:
            store = here.app.engine.store
            paused = await here.run("too dear", until=("paused",))
            async with here.notifier(ops=hook(receiver)) as notifier:
                held = late.transaction()
                await held.start()
                number = await late.fetchval(
                    "INSERT INTO history (job, at, kind, step, status, epoch, move, attempt)"
                    " VALUES ($1, extract(epoch FROM now()), 'cancel', 'step', 'canceled', 1, 9, 1) RETURNING id",
                    paused.id,
                )
                await here.run("well")
                await notifier.read()
                await ended(here, 1, "completed")
                assert int(await store.cursor(cursor_of("ops")) or 0) < number
            async with here.notifier(ops=hook(receiver)) as notifier:
                await held.commit()
                await notifier.read()
                await ended(here, 2, "completed")
        await late.close()

    with Receiver() as receiver:
        asyncio.run(main(receiver))
    assert sorted(got.json["event"] for got in receiver.received) == ["job.canceled", "job.completed"]


def test_a_page_that_could_not_be_stored_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here, here.notifier(ops=hook(receiver)) as notifier:
            async with notifier._reading:
                await here.run("well")
                store = here.app.engine.store
                apply, failures = store.apply, iter([StoreUnavailable("away")])

                async def fails_once(ops: Sequence[Op], *args: Any, **more: Any) -> Any:
                    for op in ops:
                        if isinstance(op, Submit) and (error := next(failures, None)):
                            raise error
                    return await apply(ops, *args, **more)

                monkeypatch.setattr(store, "apply", fails_once)
            with pytest.raises(StoreUnavailable):
                await notifier.read()
            await notifier.read()
            await ended(here, 1, "completed")

    with Receiver() as receiver:
        asyncio.run(main(receiver))
    assert len(receiver.received) == 1


def test_a_death_between_the_jobs_and_the_place_tells_nothing_twice(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here:
            async with here.notifier(ops=hook(receiver)):
                place = await here.app.engine.store.cursor(cursor_of("ops"))
                for _ in range(3):
                    await here.run("well")
                await ended(here, 3, "completed")
            assert place is not None
            assert await here.app.engine.store.cursor(cursor_of("ops")) != place
            await here.app.engine.group.do(SetCursor(cursor_of("ops"), place))
            async with here.notifier(ops=hook(receiver)):
                await here.run("well")
                await ended(here, 4, "completed")

    with Receiver() as receiver:
        asyncio.run(main(receiver))
    deliveries = [got.headers["Penstock-Delivery"] for got in receiver.received]
    assert len(deliveries) == len(set(deliveries)) == 4


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_two_services_tell_everything_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    stores = {"memory": lambda: "memory://", "sqlite": lambda: None}
    store = stores.get(kind, lambda: request.getfixturevalue("postgres_url"))()

    async def main(receiver: Receiver) -> set[str]:
        async with (
            world(tmp_path, store) as here,
            here.notifier(ops=hook(receiver)) as one,
            here.notifier(ops=hook(receiver)) as two,
        ):
            jobs = {(await here.app.submit("work", "well")).job_id for _ in range(30)}
            for job in jobs:
                await here.app.wait(job, timeout=PATIENT)
                await asyncio.gather(one.read(), two.read())
            await ended(here, 30, "completed")
            return jobs

    with Receiver() as receiver:
        jobs = asyncio.run(main(receiver))
    assert sorted(got.json["job"]["id"] for got in receiver.received) == sorted(jobs)


def test_a_webhook_that_is_gone_ends_its_deliveries(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here:
            async with here.notifier(ops=hook(receiver)):
                await here.run("well")
                await ended(here, 1, "waiting")
            here.clock.ahead += 100
            async with here.notifier():
                (job,) = await ended(here, 1, "completed")
                assert job.result == {"delivered": False, "why": "webhook 'ops' is not configured any more"}

    with Receiver(500) as receiver:
        asyncio.run(main(receiver))
    assert len(receiver.received) == 1


def test_who_carries_notices_is_no_worker(tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path) as here:
            store = here.app.engine.store
            async with here.notifier(ops=hook(receiver)):
                await here.run("well")
                await ended(here, 1, "waiting")
            for hooks in ({"ops": hook(receiver)}, {}):
                async with here.notifier(**hooks):
                    rows = await store.workers()
                    (sender,) = [row for row in rows if is_internal(row)]
                    (worker,) = workers_at_work(rows, await store.now())
                    assert (len(rows), worker.id) == (2, here.app.engine.worker)
                    assert [row.id for row in await alive(here.app)] == [worker.id]
                    assert [row.id for row in await alive(here.app, WEBHOOK_WORKFLOW)] == [sender.id]

    with Receiver(500) as receiver:
        asyncio.run(main(receiver))


def test_without_webhooks_and_promises_there_is_nothing_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path) as here, here.notifier() as notifier:
            assert notifier._tasks == []
            assert len(await here.app.engine.store.workers()) == 1

    asyncio.run(main())


async def breaches(here: World, job: str) -> int:
    return [event.kind for event in await here.app.history(job)].count("sla breached")


@pytest.mark.parametrize("store", ["memory://", None])
def test_a_broken_promise_is_told_once(store: str | None, tmp_path: Path) -> None:
    async def main(receiver: Receiver) -> None:
        async with world(tmp_path, store, sla=300.0) as here:
            async with here.notifier(ops=hook(receiver, events=("sla.breached",))) as notifier:
                await notifier._sla.turn()
                kept = await here.run("well")
                late = await here.run("too dear", until=("paused",))
                for ahead, told in ((299, 0), (3, 1), (0, 1), (500, 1)):
                    here.clock.ahead += ahead
                    await notifier._sla.turn()
                    assert await breaches(here, late.id) == told
                await until(lambda: receiver.received, "the notice")
            assert await breaches(here, kept.id) == 0
            assert [got.json["job"]["id"] for got in receiver.received] == [late.id]
            assert receiver.received[0].json["note"] == "not final 5 min after it was submitted: paused in step 'step'"

    with Receiver() as receiver:
        asyncio.run(main(receiver))


def test_a_promise_is_counted_by_the_stores_clock(postgres_url: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, postgres_url, sla=0.2) as here, here.notifier() as notifier:
            job = (await here.app.submit("work", "well", after=3600.0)).job_id
            async with asyncio.timeout(PATIENT):
                while not await breaches(here, job):
                    await notifier._sla.turn()
            row = await here.app.job(job)
            line = next(event for event in await here.app.history(job) if event.kind == "sla breached")
            assert line.at >= row.created + 0.2

    asyncio.run(main())


def test_what_came_due_while_no_service_ran_is_found_by_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with world(tmp_path, sla=300.0) as here:
            async with here.notifier() as notifier:
                await notifier._sla.turn()
            early = (await here.app.submit("work", "well", after=86_400.0)).job_id
            here.clock.ahead += 50_000
            later = (await here.app.submit("work", "well", after=86_400.0)).job_id
            async with here.notifier() as notifier:
                await notifier._sla.turn()
                assert (await breaches(here, early), await breaches(here, later)) == (1, 0)

    asyncio.run(main())
