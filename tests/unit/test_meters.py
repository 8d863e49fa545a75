"""What is counted, how it is handed to the store, and what keeps it small."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock import Again, Context, Penstock, Permanent, RateLimited, Retry, Workflow
from penstock.engine import meters as metering
from penstock.engine.call import CallRow
from penstock.engine.errors import CommitUnknown, StoreUnavailable
from penstock.engine.meters import BUCKETS, LABELS, OTHER, Meters, by_minute, totals
from penstock.service.metrics import HELP, counted
from penstock.store.memory import MemoryStore
from penstock.store.protocol import AddMeters, Applied, Op

Counts = dict[tuple[str, tuple[tuple[str, str], ...]], float]
PATIENCE = 30.0


def told(rows: Sequence[tuple[str, str, float]]) -> Counts:
    return {(name, tuple(sorted(json.loads(labels).items()))): value for name, labels, value in rows}


def value(counts: Counts, name: str, **labels: str) -> float:
    return counts.get((name, tuple(sorted(labels.items()))), 0)


def a_call(state: str, **changes: object) -> CallRow:
    row = CallRow("c", "t", "j", "w", "shop", "k", 1, 10.0, state=state, model="m")
    for name, change in changes.items():
        setattr(row, name, change)
    return row


def test_every_counted_name_has_labels_and_help_and_none_names_a_tenant() -> None:
    assert set(HELP) == set(LABELS)
    assert not any("tenant" in labels for labels in LABELS.values())


def test_nothing_is_counted_twice_and_what_was_not_stored_comes_again() -> None:
    meters = Meters()
    assert meters.take() is None
    meters.add("crashes", ("w",))
    meters.observe("queue_seconds", ("w",), 0.2)
    first = meters.take()
    assert first is not None
    assert meters.take() is None
    meters.add("crashes", ("w",), 2)
    meters.put_back(first)
    again = meters.take()
    assert again is not None
    counts = told(totals(again))
    assert value(counts, "crashes", workflow="w") == 3
    assert value(counts, "queue_seconds_bucket", workflow="w", le="0.25") == 1
    assert value(counts, "queue_seconds_sum", workflow="w") == 0.2


def test_somebody_is_told_once_that_there_is_something_to_store() -> None:
    told_so: list[None] = []
    meters = Meters(lambda: told_so.append(None))
    meters.add("crashes", ("a",))
    meters.add("crashes", ("b",))
    meters.observe("queue_seconds", ("a",), 1)
    assert len(told_so) == 1
    meters.take()
    meters.add("crashes", ("a",))
    assert len(told_so) == 2


def test_labels_that_somebody_makes_up_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "MOST_LABELS", 3)
    meters = Meters()
    for n in range(10):
        meters.add("tokens", ("shop", f"model-{n}", "input"))
        meters.observe("queue_seconds", (f"w{n}",), 1.0)
    taken = meters.take()
    assert taken is not None
    counts = told(totals(taken))
    assert sum(amount for (name, _), amount in counts.items() if name == "tokens") == 10
    assert value(counts, "tokens", remote=OTHER, model=OTHER, kind=OTHER) == 7
    assert len([key for key in counts if key[0] == "queue_seconds_sum"]) == 4


def test_a_value_on_a_bound_belongs_to_that_bucket_and_the_last_bucket_has_none() -> None:
    meters = Meters()
    bounds = BUCKETS["call_seconds"]
    for seconds in (bounds[0], bounds[-1], bounds[-1] + 1, -5.0):
        meters.observe("call_seconds", ("shop",), seconds)
    taken = meters.take()
    assert taken is not None
    (family,) = [f for f in counted(totals(taken)) if f.name == "penstock_call_seconds"]
    buckets = {sample.labels["le"]: sample.value for sample in family.samples if sample.name.endswith("_bucket")}
    assert len(buckets) == len(bounds) + 1
    assert (buckets["0.1"], buckets["86400.0"], buckets["+Inf"]) == (2, 3, 4)
    (total,) = [sample.value for sample in family.samples if sample.name.endswith("_sum")]
    assert total == sum((bounds[0], bounds[-1], bounds[-1] + 1)), "a clock that was set back takes nothing away"


def test_a_bucket_of_an_earlier_version_counts_in_the_next_one_there_is() -> None:
    rows = [("tick_seconds_bucket", json.dumps({"workflow": "w", "step": "s", "le": "0.07"}), 2.0)]
    (family,) = [f for f in counted(rows) if f.name == "penstock_tick_seconds"]
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}
    assert (buckets["0.025"], buckets["0.1"], buckets["+Inf"]) == (0, 2, 2)


def test_only_what_is_new_about_a_call_counts() -> None:
    meters = Meters()
    meters.call_intended(a_call("intent"))
    sent = a_call("submitted", submitted=11.0)
    meters.call_learned(sent, meters.known_call("c"))
    meters.call_learned(sent, meters.known_call("c"))
    home = a_call("collected", submitted=11.0, finished=14.0, cost=700, input=10, output=5, cached=2)
    meters.call_learned(home, meters.known_call("c"))
    meters.call_learned(home, meters.known_call("c"))
    meters.call_left("c")
    meters.call_learned(home, meters.known_call("c"))
    taken = meters.take()
    assert taken is not None
    counts = told(totals(taken))
    assert {key[1][1][1]: n for key, n in counts.items() if key[0] == "calls"} == {
        "intent": 1,
        "submitted": 1,
        "collected": 1,
    }
    assert value(counts, "cost_microdollars", remote="shop", model="m") == 700
    assert value(counts, "tokens", remote="shop", model="m", kind="input") == 10
    assert value(counts, "tokens", remote="shop", model="m", kind="thinking") == 0
    assert value(counts, "call_seconds_sum", remote="shop") == 3.0


def test_a_fact_that_lands_after_its_step_was_stopped_counts() -> None:
    meters = Meters()
    meters.call_begins(a_call("intent"))
    known = meters.known_call("c")
    meters.call_left("c")
    meters.call_learned(a_call("submitted", submitted=11.0), known)
    taken = meters.take()
    assert taken is not None
    assert value(told(totals(taken)), "calls", remote="shop", state="submitted") == 1


class Stubborn(MemoryStore):
    """Refuses what is counted with these errors, one after the other, then takes it."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)
        self.tries = 0

    async def apply(self, ops: Sequence[Op], *, replay: bool = False) -> Applied:
        if any(type(op) is AddMeters for op in ops):
            self.tries += 1
            if self.errors:
                raise self.errors.pop(0)
        return await super().apply(ops, replay=replay)


def flow() -> Workflow:
    workflow = Workflow("w", payload=int, retry=Retry(attempts=3, base=0.001))
    tried: dict[int, int] = {}

    @workflow.step
    async def work(n: int, ctx: Context) -> int | Again:
        tried[n] = tried.get(n, 0) + 1
        if n == 1 and tried[n] == 1:
            return Again(n, after=0.001)
        if n == 2 and tried[n] == 1:
            raise RateLimited("slow", retry_after=0.001)
        if n == 3 and tried[n] == 1:
            raise ValueError("once")
        if n == 4:
            raise Permanent("never")
        return n

    @workflow.step
    async def end(n: int, ctx: Context) -> int:
        return n

    return workflow


def counts_of(store: MemoryStore) -> Counts:
    """Five jobs are run, each of which ends otherwise, and one is cancelled by a person; then the process ends."""

    async def main() -> None:
        app = Penstock(workflows=[flow()], store=store)
        async with app:
            stopped = await app.submit("w", 9, after=3600)
            assert (await app.cancel(stopped.job_id)).status == "canceled"
            async with app.worker():
                for n in range(5):
                    submitted = await app.submit("w", n)
                    await app.wait(submitted.job_id, timeout=PATIENCE)

    asyncio.run(main())
    return told([(name, labels, amount) for (name, labels), amount in store.meter_rows.items()])


def test_ticks_count_by_how_they_ended_and_jobs_when_they_are_final() -> None:
    store = MemoryStore()
    counts = counts_of(store)
    outcomes = {
        (dict(labels)["step"], dict(labels)["outcome"]): amount
        for (name, labels), amount in counts.items()
        if name == "ticks"
    }
    assert outcomes == {
        ("work", "next"): 4,
        ("work", "again"): 1,
        ("work", "throttled"): 1,
        ("work", "retry"): 1,
        ("work", "fail"): 1,
        ("end", "done"): 4,
    }
    assert value(counts, "jobs_ended", workflow="w", status="completed") == 4
    assert value(counts, "jobs_ended", workflow="w", status="failed") == 1
    assert value(counts, "jobs_ended", workflow="w", status="canceled") == 1
    for name, seen in (("queue_seconds", 5), ("tick_seconds", 12)):
        assert sum(n for (key, _), n in counts.items() if key == f"{name}_bucket") == seen


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_tick_counts_for_the_step_that_ran_not_for_the_one_that_follows(kind: str, tmp_path: Path) -> None:
    workflow = Workflow("two", payload=int)

    @workflow.step
    async def lasting(n: int, ctx: Context) -> int:
        await asyncio.sleep(0.03)
        return n

    @workflow.step
    async def quick(n: int, ctx: Context) -> int:
        return n

    async def main() -> Counts:
        store = MemoryStore() if kind == "memory" else f"sqlite:///{tmp_path}/store.db"
        async with (app := Penstock(workflows=[workflow], store=store)):
            async with app.worker():
                await app.wait((await app.submit("two", 1)).job_id, timeout=PATIENCE)
            await app.engine.store_meters()
            return told(await app.engine.store.meters())

    counts = asyncio.run(main())
    ticks = {labels: amount for (name, labels), amount in counts.items() if name == "ticks"}
    assert {(dict(labels)["step"], dict(labels)["outcome"]): n for labels, n in ticks.items()} == {
        ("lasting", "next"): 1,
        ("quick", "done"): 1,
    }
    assert value(counts, "tick_seconds_sum", workflow="two", step="lasting") >= 0.03


def test_what_charts_show_is_also_kept_by_minute() -> None:
    store = MemoryStore()
    counts = counts_of(store)
    by_status: dict[str, float] = {}
    for (minute, name, labels), amount in store.series_rows.items():
        assert (name, math.fmod(minute, 60)) == ("jobs_ended", 0)
        status = json.loads(labels)["status"]
        by_status[status] = by_status.get(status, 0) + amount
    assert by_status == {"completed": 4, "failed": 1, "canceled": 1}
    assert by_minute(metering.Counted({("crashes", "w"): 1.0}, {})) == ()
    assert value(counts, "jobs_ended", workflow="w", status="completed") == 4


def test_what_was_surely_not_stored_is_sent_again() -> None:
    async def main() -> None:
        store = Stubborn(StoreUnavailable("away"))
        app = Penstock(workflows=[flow()], store=store)
        async with app:
            app.engine.meters.add("crashes", ("w",), 3)
            await app.engine.store_meters()
            assert not store.meter_rows
        assert store.tries == 2
        assert sum(store.meter_rows.values()) == 3

    asyncio.run(main())


class Unsure(MemoryStore):
    """The first COMMIT of what was counted is unknown: stored, or not."""

    def __init__(self, *, lands: bool) -> None:
        super().__init__()
        self.lands = lands
        self.asked = 0

    async def apply(self, ops: Sequence[Op], *, replay: bool = False) -> Applied:
        if any(type(op) is AddMeters for op in ops):
            self.asked += 1
            if self.asked == 1:
                if self.lands:
                    await super().apply(ops, replay=replay)
                raise CommitUnknown("the line went dead")
        return await super().apply(ops, replay=replay)


@pytest.mark.parametrize("lands", [True, False])
def test_after_an_unknown_commit_each_thing_is_counted_at_most_once(lands: bool) -> None:
    async def main() -> None:
        store = Unsure(lands=lands)
        app = Penstock(workflows=[flow()], store=store)
        async with app:
            app.engine.meters.add("crashes", ("w",), 3)
            await app.engine.store_meters()
        assert store.asked == 2
        assert sum(store.meter_rows.values()) == (3 if lands else 0)

    asyncio.run(main())
