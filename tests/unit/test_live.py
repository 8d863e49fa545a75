"""What listeners are told, and how far a reader of numbered lines has come: the rules, without a database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from penstock.engine.errors import InvalidRequest
from penstock.engine.identity import first_id, made_at
from penstock.engine.model import Event
from penstock.engine.workflow import Workflow
from penstock.service.live import MOST_WAITING, Position, Subscription, Told, Wanted, parse_position
from penstock.service.notices import WEBHOOK_WORKFLOW, notice_of
from penstock.service.tail import PATIENCE, Tail
from penstock.service.told import MOST_ONE_BY_ONE, Item, last_lines, placed, summed_up
from penstock.store.protocol import Change

NOW = 1_800_000_000.0


def line(number: int, job: str = "j", kind: str = "next", status: str = "queued", **more: object) -> Change:
    note = more.pop("note", None)
    at = more.pop("at", NOW)
    event = Event(job, at, kind, "step", status, note=note)  # type: ignore[arg-type]
    facts = {"tenant": "default", "workflow": "w", "key": job, "run": 1, "batch": None, **more}
    return Change(number, event, **facts)  # type: ignore[arg-type]


class Clock:
    time = 0.0

    def now(self) -> float:
        return NOW + self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class Lines:
    """Numbered lines that appear when they are put here: what a store shows of its history."""

    def __init__(self, clock: Clock) -> None:
        self.there: dict[int, Change] = {}
        self.asked: tuple[int, ...] = ()
        self._clock = clock

    def put(self, *numbers: int, at: float = NOW) -> None:
        self.there.update({number: line(number, f"job {number}", at=at) for number in numbers})

    async def changes(self, after: int, *, also: Sequence[int] = (), limit: int = 1000) -> list[Change]:
        self.asked = tuple(also)
        new = sorted(number for number in self.there if number > after)[:limit]
        return [self.there[number] for number in sorted([*(n for n in also if n in self.there), *new])]

    async def last_change(self) -> int:
        return max(self.there, default=0)

    async def now(self) -> float:
        return self._clock.now()


def tailed() -> tuple[Tail, Lines, Clock]:
    clock = Clock()
    lines = Lines(clock)
    return Tail(lines, clock), lines, clock  # type: ignore[arg-type]


def read(tail: Tail, limit: int = 1000) -> list[int]:
    return [change.id for change in asyncio.run(tail.read(limit))]


def test_a_line_whose_number_appears_late_is_read_when_it_does() -> None:
    tail, lines, _ = tailed()
    lines.put(1, 2, 5)
    assert read(tail) == [1, 2, 5]
    assert (tail.low, tail.high) == (2, 5), "who begins anew must begin before what is missing"
    lines.put(4, 6)
    assert read(tail) == [4, 6]
    assert (tail.low, tail.high) == (2, 6)
    lines.put(3)
    assert read(tail) == [3]
    assert (tail.low, tail.high) == (6, 6)


def test_a_number_that_never_comes_is_given_up_after_a_while() -> None:
    tail, lines, clock = tailed()
    lines.put(1, 3)
    read(tail)
    assert read(tail) == [] and lines.asked == (2,)
    clock.time += PATIENCE + 1
    read(tail)
    assert tail.low == 3
    read(tail)
    assert lines.asked == ()


def test_a_number_that_came_at_the_last_moment_is_read_before_it_is_given_up() -> None:
    tail, lines, clock = tailed()
    lines.put(1, 3)
    read(tail)
    clock.time += PATIENCE + 1
    lines.put(2)
    assert read(tail) == [2]


def test_numbers_below_lines_of_long_ago_are_not_waited_for() -> None:
    tail, lines, _ = tailed()
    lines.put(1000, 5000, at=NOW - PATIENCE - 1)
    assert read(tail) == [1000, 5000]
    assert tail.low == 5000


def test_who_begins_at_the_end_is_told_of_what_is_on_its_way_already() -> None:
    tail, lines, _ = tailed()
    lines.put(*range(1, 100), 101)
    asyncio.run(tail.skip_to_end())
    assert (tail.low, tail.high) == (99, 101)
    lines.put(100, 102)
    assert read(tail) == [100, 102]


def test_of_each_job_the_last_line_is_told_in_the_order_of_those_lines() -> None:
    told = last_lines([line(1, "a"), line(2, "b"), line(3, "a", "done", "completed"), line(4, "c")])
    assert [(item.data["id"], item.data["event"]) for item in told] == [("b", "next"), ("a", "done"), ("c", "next")]


def test_calls_are_told_beside_their_job() -> None:
    told = last_lines([line(1, "a", "call quarantined", "running"), line(2, "a", "park", "paused")])
    assert [(item.kind, item.data["event"]) for item in told] == [("call", "call quarantined"), ("job", "park")]


def test_a_batch_is_told_once_however_many_of_its_members_changed() -> None:
    told = last_lines([line(n, f"job {n}", batch="b", tenant="acme") for n in range(5)])
    batches = [item for item in told if item.kind == "batch"]
    assert [(item.data, item.tenant) for item in batches] == [({"id": "b", "tenant": "acme"}, "acme")]


def test_a_long_note_is_shortened() -> None:
    (item,) = last_lines([line(1, note="x" * 5000)])
    assert len(item.data["note"]) == 200


def test_listeners_get_what_they_want_and_tenants_never_meet() -> None:
    job = Item("job", {}, "acme", "j1", "pages", "b1")
    worker = Item("worker", {})
    assert Wanted().takes(job) and Wanted().takes(worker)
    assert Wanted(tenant="acme").takes(job) and not Wanted(tenant="acme").takes(worker)
    assert not Wanted(tenant="other", job="j1").takes(job)
    assert Wanted(job="j1").takes(job) and not Wanted(job="j2").takes(job) and not Wanted(job="j1").takes(worker)
    assert Wanted(workflow="pages").takes(job) and not Wanted(workflow="videos").takes(job)
    assert Wanted(batch="b1").takes(job) and not Wanted(batch="b2").takes(job)


def test_many_jobs_are_told_as_a_number() -> None:
    jobs = [Item("job", {"status": "queued" if n % 2 else "completed"}, job=str(n)) for n in range(1000)]
    batch = Item("batch", {})
    told = summed_up([*jobs, batch])
    assert told[0].data == {"changed": 1000, "statuses": {"completed": 500, "queued": 500}}
    assert (told[0].kind, told[1:]) == ("jobs", [batch])
    assert summed_up(jobs[:MOST_ONE_BY_ONE]) == jobs[:MOST_ONE_BY_ONE]


def place(number: int) -> Position:
    return Position(number, "0000000000")


def test_a_listeners_place_moves_with_the_lines_it_was_told_and_at_the_end_of_the_turn() -> None:
    async def main() -> None:
        subscription = Subscription(Wanted(), place(5))
        told = [Item("job", {}), Item("job", {}, line=7), Item("job", {}, line=9), Item("batch", {}), Item("job", {})]
        subscription.put(placed(told, place(5), place(8)), place(8))
        assert subscription.position == str(place(5))
        ids = [(await anext(subscription)).id for _ in told]
        assert ids == [str(place(n)) for n in (5, 7, 8, 8, 8)], "8 is missing yet: nobody goes on behind it"
        subscription.put([], place(12))
        assert subscription.position == str(place(12)), "what was not wanted need not be looked at again"

    asyncio.run(main())


def test_a_listener_that_takes_nothing_is_told_that_it_missed_something() -> None:
    async def main() -> None:
        subscription = Subscription(Wanted(), place(0))
        for turn in range(MOST_WAITING // 100 + 1):
            subscription.put([Told(str(place(turn)), "job", {})] * 100, place(turn))
        told = await anext(subscription)
        assert (told.kind, told.id) == ("reset", str(place(turn)))
        subscription.put([Told(str(place(99)), "job", {"id": "next"})], place(99))
        assert (await anext(subscription)).data == {"id": "next"}

    asyncio.run(main())


@pytest.mark.parametrize(
    "text", ["", "5", "1-5", "2-5-0000000000", "1--0000000000", "1-5-000000000u", "1-5-0000000000\n", "1-٣-0000000000"]
)
def test_a_place_that_was_never_told_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_position(text)


def test_a_place_is_read_as_it_was_told() -> None:
    assert str(parse_position("1-42-01h8zq4b7k")) == "1-42-01h8zq4b7k"


def test_a_moment_has_its_place_among_the_ids() -> None:
    assert first_id(NOW) < first_id(NOW) + "0" * 10 < first_id(NOW + 0.001)
    assert made_at(first_id(NOW) + "a" * 10) == NOW


@pytest.mark.parametrize(
    ("kind", "status", "note", "event"),
    [
        ("done", "completed", None, "job.completed"),
        ("fail", "failed", "ValueError: no", "job.failed"),
        ("crash", "failed", "WorkerDied: …", "job.failed"),
        ("cleaned", "canceled", None, "job.canceled"),
        ("cancel", "canceled", None, "job.canceled"),
        ("refused", "canceled", None, "job.canceled"),
        ("park", "paused", "OverBudget: budget tenant:a: …", "budget.paused"),
        ("call quarantined", "paused", None, "call.quarantined"),
        ("sla breached", "running", None, "sla.breached"),
        ("sla breached", "completed", None, "sla.breached"),
        ("park", "paused", "Ambiguous: who knows", None),
        ("pause", "paused", "OverBudget: said a person", None),
        ("cancel", "canceling", None, None),
        ("call collected", "completed", None, None),
        ("crash", "queued", None, None),
        ("next", "queued", None, None),
    ],
)
def test_which_lines_the_outside_is_told_of(kind: str, status: str, note: str | None, event: str | None) -> None:
    notice = notice_of(line(7, "j", kind, status, note=note, tenant="acme"))
    assert (notice and notice.event) == event
    if notice is not None:
        assert (notice.id, notice.tenant, notice.about["job"]["status"]) == ("j.7", "acme", status)
    assert notice_of(line(7, "j", kind, status, note=note, workflow=WEBHOOK_WORKFLOW)) is None


@pytest.mark.parametrize("sla", [0, -1, float("inf"), float("nan")])
def test_a_promise_is_a_number_of_seconds(sla: float) -> None:
    with pytest.raises(InvalidRequest, match="sla must be more than 0 seconds"):
        Workflow("w", sla=sla)
