"""Remote calls as a step's author sees them: made once, found again, collected whatever becomes of the job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Again, Call, Context, Embedded, InvalidRequest, Penstock, Retry, Workflow
from penstock.engine.call import Hold
from penstock.engine.errors import Ambiguous, Conflict, Permanent, RateLimited, Transient
from penstock.engine.model import Job
from penstock.remote.protocol import Found
from penstock.store.protocol import Learn
from tests.support.provider import Provider, answer, raising

PATIENCE = 30.0
RESTS = ("completed", "failed", "canceled", "paused")


def asking(provider: Provider, *, attempts: int = 1, resource: str = "") -> Workflow:
    """One step that makes one call, waits for it, and returns what became of it."""
    workflow = Workflow("ask", payload=dict[str, Any])

    @workflow.step(retry=Retry(attempts=4, base=0.02), resource=resource)
    async def ask(payload: dict[str, Any], ctx: Context) -> dict[str, Any] | Again:
        call = await ctx.call(provider, "it", payload, attempts=attempts)
        return answer(call) if call.ended else Again(payload, until=call)

    return workflow


def run(
    tmp_path: Path,
    provider: Provider,
    main: Callable[[Penstock], Awaitable[None]],
    *,
    workflow: Workflow | None = None,
    limits: dict[str, int] | None = None,
) -> None:
    async def inside() -> None:
        flows = [workflow or asking(provider)]
        app = Penstock(
            workflows=flows, store=f"sqlite:///{tmp_path}/it.db", remotes=[provider], limits=limits, outputs=tmp_path
        )
        async with app:
            # Looks for what became due by another's doing more often than every few seconds.
            delivery = Embedded(app.engine, sweep_every=0.2)
            await delivery.start()
            try:
                await main(app)
            finally:
                await delivery.stop()

    asyncio.run(inside())


async def ended(app: Penstock, job_id: str) -> Job:
    return await app.wait(job_id, timeout=PATIENCE, until=RESTS)


async def until(app: Penstock, test: Callable[[list[Call]], bool], *, job: str | None = None) -> list[Call]:
    async with asyncio.timeout(PATIENCE):
        while True:
            calls = await app.calls(job=job)
            if test(calls):
                return calls
            await asyncio.sleep(0.02)


def test_a_call_is_made_once_and_its_result_comes_back(tmp_path: Path) -> None:
    provider = Provider()

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {"n": 1})).job_id)
        assert job.result == {"state": "collected", "result": {"id": "work-1"}, "attempt": 1}
        (call,) = await app.calls()
        assert (call.cost, call.usage.input, call.usage.output, call.provider_id) == (700, 10, 5, "work-1")
        (cost,) = await app.costs()
        assert (cost.calls, cost.cost, cost.reserved) == (1, 700, 0)

    run(tmp_path, provider, main)
    assert len(provider.works) == 1
    assert provider.tidied == 1


@pytest.mark.parametrize("error", [Ambiguous("the reply was lost"), ValueError("no idea"), TimeoutError()])
def test_a_lost_reply_is_adopted_and_not_repeated(tmp_path: Path, error: Exception) -> None:
    provider = Provider(on_submit=raising(error))

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert job.result == {"state": "collected", "result": {"id": "work-1"}, "attempt": 1}

    run(tmp_path, provider, main)
    assert len(provider.works) == 1


@pytest.mark.parametrize("error", [Transient("busy"), RateLimited("slow down", retry_after=0.01)])
def test_a_refused_call_is_sent_again_under_the_same_name(tmp_path: Path, error: Exception) -> None:
    provider = Provider(on_submit=raising(error), takes_first=False)

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert job.result["attempt"] == 1
        assert len(await app.calls()) == 1

    run(tmp_path, provider, main)
    assert len(provider.works) == 1


def test_a_call_that_never_arrived_is_sent_again_only_when_that_is_proved(tmp_path: Path) -> None:
    provider = Provider(on_submit=raising(Ambiguous("who knows")), takes_first=False, submit_timeout=0.2)

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        (call,) = await until(app, lambda calls: bool(calls) and calls[0].error is not None)
        assert call.state == "intent", "an early look that finds nothing proves nothing"
        # The window in which it may be sent is a minute; nobody waits for that here.
        await app.engine.write("UPDATE calls SET submit_before = created - 60, due = created")
        job = await ended(app, submitted.job_id)
        assert job.result == {"state": "collected", "result": {"id": "work-1"}, "attempt": 2}
        assert [c.state for c in await app.calls()] == ["collected", "absent"]

    run(tmp_path, provider, main)


def test_what_cannot_be_decided_waits_for_a_person(tmp_path: Path) -> None:
    provider = Provider(on_submit=raising(Ambiguous("who knows")), complete=False)
    provider.find = _nothing  # type: ignore[method-assign]

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls))
        async with asyncio.timeout(PATIENCE):
            while (await app.calls())[0].state != "quarantined":
                await app.engine.write("UPDATE calls SET submit_before = created - 60, due = created, strikes = 98")
                await asyncio.sleep(0.02)
        job = await ended(app, submitted.job_id)
        (call,) = await app.calls()
        assert job.status == "paused"
        assert call.id in (job.reason or "")
        with pytest.raises(InvalidRequest, match="say the id"):
            await app.decide_call(call.id, "adopt")
        await app.decide_call(call.id, "adopt", provider_id="work-1", actor="ann")
        job = await app.wait(submitted.job_id, timeout=PATIENCE)
        assert job.result["result"] == {"id": "work-1"}
        with pytest.raises(Conflict, match="only a quarantined call"):
            await app.decide_call(call.id, "discard")

    async def main_with_history(app: Penstock) -> None:
        await main(app)
        (job,) = await app.jobs()
        kinds = [(event.kind, event.worker) for event in await app.history(job.id) if event.kind.startswith("call")]
        assert kinds == [("call quarantined", None), ("call submitted", "ann"), ("call collected", "ann")]

    run(tmp_path, provider, main_with_history)
    assert len(provider.works) == 1


async def _nothing(order: Any) -> Any:
    return Found((), complete=False)


def test_a_paused_job_submits_nothing_but_its_call_is_collected(tmp_path: Path) -> None:
    provider = Provider(finishes="running")

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].state == "running")
        await app.pause(submitted.job_id)
        provider.finishes = "succeeded"
        await until(app, lambda calls: calls[0].state == "collected")
        assert (await app.job(submitted.job_id)).status == "paused"
        await app.resume(submitted.job_id)
        job = await app.wait(submitted.job_id, timeout=PATIENCE)
        assert job.result["result"] == {"id": "work-1"}

    run(tmp_path, provider, main)


def test_a_canceled_job_is_canceled_at_the_provider(tmp_path: Path) -> None:
    provider = Provider(finishes="running")

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].state == "running")
        await app.cancel(submitted.job_id)
        await until(app, lambda calls: calls[0].state == "cancelled")

    run(tmp_path, provider, main)
    assert provider.works["work-1"].state == "cancelled"


def test_an_overdue_call_is_shown_and_can_be_split(tmp_path: Path) -> None:
    provider = Provider(finishes="running", overdue_after=0.05)
    workflow = Workflow("ask", payload=dict[str, Any])

    @workflow.step
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        whole = await ctx.call(provider, "whole", [1, 2])
        if whole.state == "overdue":
            await ctx.cancel_call(whole)
        if not whole.ended:
            return Again(payload, until=whole, after=0.1)
        provider.finishes = "succeeded"
        halves = [await ctx.call(provider, f"half {n}", [n]) for n in (1, 2)]
        return [half.state for half in halves] if all(half.ended for half in halves) else Again(payload, until=halves)

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert job.result == ["collected", "collected"]
        assert "call overdue" in [event.kind for event in await app.history(job.id)]
        with pytest.raises(Conflict, match="only one that is under way"):
            await app.decide_call((await app.calls())[0].id, "cancel")

    run(tmp_path, provider, main, workflow=workflow)
    assert [work.state for work in provider.works.values()] == ["cancelled", "succeeded", "succeeded"]


def test_a_person_may_cancel_a_call_under_way(tmp_path: Path) -> None:
    provider = Provider(finishes="running")

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        (call,) = await until(app, lambda calls: bool(calls) and calls[0].state == "running")
        await app.decide_call(call.id, "cancel", actor="ann")
        job = await ended(app, submitted.job_id)
        assert job.result["state"] == "cancelled"

    run(tmp_path, provider, main)


def test_a_canceled_jobs_result_that_came_anyway_is_paid_and_counted(tmp_path: Path) -> None:
    provider = Provider(finishes="running")

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].state == "running")
        provider.works["work-1"].state = "succeeded"
        await app.cancel(submitted.job_id)
        await until(app, lambda calls: calls[0].state == "collected")
        (cost,) = await app.costs(tenant="default")
        assert cost.cost == 700

    run(tmp_path, provider, main)


def test_a_retry_takes_over_what_was_paid_for(tmp_path: Path) -> None:
    provider = Provider()
    workflow = Workflow("ask", payload=dict[str, Any])
    broken = [True]

    @workflow.step
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        call = await ctx.call(provider, "it", payload)
        if not call.ended:
            return Again(payload, until=call)
        if broken:
            broken.pop()
            raise Permanent("a bug in our code")
        return answer(call)

    async def main(app: Penstock) -> None:
        failed = await ended(app, (await app.submit("ask", {})).job_id)
        assert failed.status == "failed"
        again = await app.retry(failed.id)
        job = await ended(app, again.id)
        assert job.result == {"state": "collected", "result": {"id": "work-1"}, "attempt": 1}

    run(tmp_path, provider, main, workflow=workflow)
    assert len(provider.works) == 1


def test_a_failed_call_is_made_again_as_often_as_the_step_says(tmp_path: Path) -> None:
    provider = Provider(finishes="failed")

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert job.result == {"state": "failed", "result": None, "attempt": 3}
        assert {call.error for call in await app.calls()} == {"it broke"}

    run(tmp_path, provider, main, workflow=asking(provider, attempts=3))
    assert len(provider.works) == 3


def test_an_answer_that_is_lost_is_paid_again_but_not_for_ever(tmp_path: Path) -> None:
    provider = Provider(guarantee="repeatable", inline=True, on_submit=raising(Ambiguous("gone")))

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {"n": 5})).job_id)
        assert job.result == {"state": "collected", "result": {"n": 5}, "attempt": 2}
        (cost,) = await app.costs()
        assert cost.cost == 700 + 1000, "what was lost counts as paid, by its estimate"

    run(tmp_path, provider, main)
    assert len(provider.works) == 2


def test_one_key_is_one_request(tmp_path: Path) -> None:
    provider = Provider(guarantee="repeatable", inline=True)
    workflow = Workflow("ask", payload=dict[str, Any])

    @workflow.step
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        first, same = await asyncio.gather(ctx.call(provider, "a", {"n": 1}), ctx.call(provider, "a", {"n": 1}))
        assert first.id == same.id
        other = await ctx.call(provider, "b", {"n": 2})
        assert other.result == {"n": 2}
        await ctx.call(provider, "a", {"n": 3})

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert job.status == "failed"
        assert "a key of its own" in (job.error or "")

    run(tmp_path, provider, main, workflow=workflow)
    assert len(provider.works) == 2


def test_a_budget_is_reserved_and_the_run_pauses_when_nothing_is_left(tmp_path: Path) -> None:
    provider = Provider(finishes="running", cost=700, estimate=1000)

    async def main(app: Penstock) -> None:
        await app.set_budget("tenant:default", 0.0023)
        jobs = [(await app.submit("ask", {"n": n})).job_id for n in range(3)]
        await until(app, lambda calls: len(calls) == 2)
        (budget,) = await app.budgets()
        assert (budget.reserved, budget.spent) == (2000, 0)
        provider.finishes = "succeeded"
        states = [await ended(app, job) for job in jobs]
        assert sorted(job.status for job in states) == ["completed", "completed", "paused"]
        (paused,) = [job for job in states if job.status == "paused"]
        assert "OverBudget" in (paused.reason or "")
        assert "raise it to at least $0.0024" in (paused.reason or "")
        await app.set_budget("tenant:default", 0.0024)
        assert (await app.wait(paused.id, timeout=PATIENCE)).status == "completed"
        (budget,) = await app.budgets()
        assert (budget.reserved, budget.spent) == (0, 2100)

    run(tmp_path, provider, main)
    assert len(provider.works) == 3


def test_a_job_and_a_batch_bring_their_budgets_along(tmp_path: Path) -> None:
    provider = Provider(cost=700, estimate=1000)

    async def main(app: Penstock) -> None:
        poor = await ended(app, (await app.submit("ask", {}, key="poor", budget=0.0005)).job_id)
        assert poor.status == "paused"
        assert f"budget job:{poor.id}" in (poor.reason or "")
        again = await app.submit("ask", {}, key="poor", budget=7.0)
        assert (again.created, again.job_id) == (False, poor.id)
        assert [(b.scope, b.most) for b in await app.budgets()] == [(f"job:{poor.id}", 500)]
        batch = await app.open_batch(budget=0.0018)
        members = await app.submit_many("ask", [{"n": n} for n in range(3)], batch=batch.id)
        await app.seal_batch(batch.id)
        states = [(await ended(app, member.job_id)).status for member in members]
        assert sorted(states) == ["completed", "completed", "paused"]
        (cost,) = await app.costs(batch=batch.id)
        assert cost.cost == 1400

    run(tmp_path, provider, main)
    assert len(provider.works) == 2


def test_what_is_scarce_is_held_until_the_call_has_ended(tmp_path: Path) -> None:
    provider = Provider(finishes="running", holds=(Hold("resource:gpu"), Hold("tokens", 60, 100)))

    async def main(app: Penstock) -> None:
        jobs = [(await app.submit("ask", {"n": n})).job_id for n in range(3)]
        await until(app, lambda calls: len(calls) == 1)
        await asyncio.sleep(0.3)
        assert len(provider.works) == 1, "one GPU, one call"
        provider.finishes = "succeeded"
        for job in jobs:
            assert (await ended(app, job)).status == "completed"

    run(tmp_path, provider, main, workflow=asking(provider, resource="gpu"), limits={"resource:gpu": 1})


def test_a_call_that_can_never_fit_fails_at_once(tmp_path: Path) -> None:
    provider = Provider(holds=(Hold("tokens", 200, 100),))

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert job.status == "failed"
        assert "split it" in (job.error or "")

    run(tmp_path, provider, main)
    assert not provider.works


def test_a_provider_that_knows_nothing_of_it_frees_nothing(tmp_path: Path) -> None:
    provider = Provider(finishes="running")

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].state == "running")
        work = provider.works.pop("work-1")
        await until(app, lambda calls: calls[0].state == "quarantined")
        assert (await ended(app, submitted.job_id)).status == "paused"
        provider.works["work-1"] = work
        (call,) = await app.calls()
        provider.finishes = "succeeded"
        await app.decide_call(call.id, "adopt")
        assert (await app.wait(submitted.job_id, timeout=PATIENCE)).status == "completed"

    run(tmp_path, provider, main)
    assert len(provider.works) == 1


def test_a_budget_refuses_what_has_no_price(tmp_path: Path) -> None:
    provider = Provider(estimate=0, priced=False)

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {}, budget=5.0)).job_id)
        assert job.status == "paused"
        assert "nobody knows what some-model costs" in (job.reason or "")
        assert (await ended(app, (await app.submit("ask", {})).job_id)).status == "completed", "no budget, no question"

    run(tmp_path, provider, main)


def test_a_call_that_is_refused_for_good_leaves_nothing_uploaded(tmp_path: Path) -> None:
    provider = Provider(on_submit=raising(Permanent("no such model")), takes_first=False)

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert (job.status, job.error) == ("failed", "Permanent: no such model")
        (call,) = await app.calls()
        assert (call.state, call.cost) == ("unsent", 0)

    run(tmp_path, provider, main)
    assert provider.tidied == 1


def test_a_discarded_call_that_turns_up_after_all_is_stopped(tmp_path: Path) -> None:
    provider = Provider(finishes="running")

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].state == "running")
        work = provider.works.pop("work-1")
        (call,) = await until(app, lambda calls: calls[0].state == "quarantined")
        assert (await ended(app, submitted.job_id)).status == "paused"
        await app.decide_call(call.id, "discard")
        assert (await app.wait(submitted.job_id, timeout=PATIENCE)).result["state"] == "discarded"
        provider.works["work-1"] = work
        # An hour later; nobody waits for that here.
        await app.engine.write("UPDATE calls SET due = created")
        await until(app, lambda calls: calls[0].state == "cancelled")

    run(tmp_path, provider, main)
    assert provider.works["work-1"].state == "cancelled"


def test_waiting_for_several_calls_costs_no_ticks_once_some_have_ended(tmp_path: Path) -> None:
    quick, slow = Provider(name="quick"), Provider(name="slow", finishes="running")
    workflow = Workflow("ask", payload=dict[str, Any])
    ticks = [0]

    @workflow.step
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        ticks[0] += 1
        calls = [await ctx.call(quick, "a", 1), await ctx.call(slow, "b", 2)]
        return "done" if all(call.ended for call in calls) else Again(payload, until=calls)

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: {call.state for call in calls} == {"collected", "running"})
        await asyncio.sleep(0.3)
        slow.finishes = "succeeded"
        assert (await ended(app, submitted.job_id)).result == "done"

    run(tmp_path, quick, main, workflow=workflow)
    assert ticks[0] <= 4


def test_a_clean_up_steps_own_calls_are_wanted(tmp_path: Path) -> None:
    provider = Provider(finishes="running")
    workflow = Workflow("ask", payload=dict[str, Any])

    @workflow.step
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        return Again(payload, until=await ctx.call(provider, "it", payload))

    @workflow.cleanup
    async def undo(payload: dict[str, Any], ctx: Context) -> Any:
        call = await ctx.call(provider, "undo", payload)
        if not call.ended:
            return Again(payload, until=call)
        ctx.count(undone=call.ok)
        return None

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].state == "running")
        await app.cancel(submitted.job_id)
        await until(app, lambda calls: len(calls) == 2 and calls[1].state == "cancelled")
        await app.engine.sweep()
        provider.finishes = "succeeded"
        job = await app.wait(submitted.job_id, timeout=PATIENCE)
        assert (job.status, job.counters) == ("canceled", {"undone": 1})

    run(tmp_path, provider, main, workflow=workflow)


def test_a_retried_job_makes_the_call_again_that_failed(tmp_path: Path) -> None:
    provider = Provider(finishes="failed")
    workflow = Workflow("ask", payload=dict[str, Any])

    @workflow.step
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        call = await ctx.call(provider, "it", payload)
        if not call.ended:
            return Again(payload, until=call)
        if not call.ok:
            raise Permanent(f"the call {call.state}")
        return answer(call)

    async def main(app: Penstock) -> None:
        failed = await ended(app, (await app.submit("ask", {})).job_id)
        assert failed.error == "Permanent: the call failed"
        provider.finishes = "succeeded"
        again = await ended(app, (await app.retry(failed.id)).id)
        assert again.result == {"state": "collected", "result": {"id": "work-2"}, "attempt": 1}

    run(tmp_path, provider, main, workflow=workflow)


async def elsewhere(tmp_path: Path, provider: Provider, main: Callable[[Penstock], Awaitable[None]]) -> None:
    """Another worker on the same store, whose provider is another one of the same name."""
    app = Penstock(workflows=[asking(provider)], store=f"sqlite:///{tmp_path}/it.db", remotes=[provider])
    async with app, app.worker(queues=("other",)):
        await main(app)


def test_a_worker_with_another_provider_of_that_name_leaves_a_call_alone(tmp_path: Path) -> None:
    """A worker without a key has a Gemini of its own: that it knows nothing of a batch at Google proves nothing."""
    google = Provider(identity="google", on_submit=raising(Ambiguous("the reply was lost")))
    own = Provider(identity="own")

    async def main(app: Penstock) -> None:
        async def watch(_: Penstock) -> None:
            submitted = await app.submit("ask", {})
            await until(app, lambda calls: bool(calls))
            await app.engine.write("UPDATE calls SET submit_before = created - 60, due = created")
            assert (await ended(app, submitted.job_id)).result["attempt"] == 1

        await elsewhere(tmp_path, own, watch)

    run(tmp_path, google, main)
    assert (len(google.works), len(own.works)) == (1, 0)


def test_a_job_waits_for_a_worker_of_the_place_where_its_call_was_made(tmp_path: Path) -> None:
    google, own = Provider(identity="google", finishes="running"), Provider(identity="own")

    async def first(app: Penstock) -> None:
        await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].state == "running")
        await app.engine.write("UPDATE jobs SET due = created")

    async def second(app: Penstock) -> None:
        async with asyncio.timeout(PATIENCE):
            while not ((job := (await app.jobs())[0]).error or "").startswith("Blocked: call 'it' was made at"):
                await asyncio.sleep(0.02)
        assert job.status == "waiting"

    run(tmp_path, google, first)
    run(tmp_path, own, second)
    assert not own.works


def test_one_refusal_while_collecting_does_not_lose_what_was_paid(tmp_path: Path) -> None:
    provider = Provider()
    collect, refusals = provider.collect, [Permanent("403: a wrong key"), Permanent("404"), ValueError("no idea")]

    async def refused(order: Any, provider_id: str) -> Any:
        if refusals:
            raise refusals.pop()
        return await collect(order, provider_id)

    provider.collect = refused  # type: ignore[method-assign]

    async def main(app: Penstock) -> None:
        assert (await ended(app, (await app.submit("ask", {})).job_id)).result["state"] == "collected"

    run(tmp_path, provider, main)
    assert not refusals


def test_what_a_failed_run_left_running_is_stopped_when_another_run_begins(tmp_path: Path) -> None:
    provider = Provider(finishes="running")
    workflow = Workflow("ask", payload=dict[str, Any])
    broken = [True]

    @workflow.step
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        call = await ctx.call(provider, "it", payload)
        if broken:
            broken.pop()
            raise Permanent("a bug in our code")
        return answer(call) if call.ended else Again(payload, until=call)

    async def main(app: Penstock) -> None:
        failed = await ended(app, (await app.submit("ask", {}, key="k")).job_id)
        await app.engine.sweep()
        assert provider.works["work-1"].state == "running", "a retry may still want it"
        again = await app.submit("ask", {}, key="k", again=True)
        await until(app, lambda calls: calls[0].state == "cancelled", job=failed.id)
        provider.finishes = "succeeded"
        assert (await ended(app, again.job_id)).result["result"] == {"id": "work-2"}

    run(tmp_path, provider, main, workflow=workflow)


def test_a_wish_to_stop_is_not_put_off_by_a_look_that_was_under_way(tmp_path: Path) -> None:
    provider = Provider(finishes="running", poll_every=300.0, poll_at_most=300.0)
    looking, go_on = asyncio.Event(), asyncio.Event()
    poll = provider.poll

    async def slow(order: Any, provider_id: str) -> Any:
        polled = await poll(order, provider_id)
        looking.set()
        await go_on.wait()
        return polled

    provider.poll = slow  # type: ignore[method-assign]

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].state == "submitted")
        await app.engine.write("UPDATE calls SET due = created")
        await looking.wait()
        await app.cancel(submitted.job_id)
        await app.engine.sweep()
        go_on.set()
        await until(app, lambda calls: calls[0].state == "cancelled")

    run(tmp_path, provider, main)


def test_a_submit_that_never_answers_is_cut_off_and_looked_for(tmp_path: Path) -> None:
    provider = Provider(submit_timeout=0.2)
    submit = provider.submit

    async def hanging(order: Any) -> Any:
        await submit(order)
        await asyncio.sleep(3600)

    provider.submit = hanging  # type: ignore[method-assign]

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert job.result == {"state": "collected", "result": {"id": "work-1"}, "attempt": 1}

    run(tmp_path, provider, main)
    assert len(provider.works) == 1


def test_a_call_nobody_ever_hears_of_is_not_made_for_ever(tmp_path: Path) -> None:
    provider = Provider(guarantee="repeatable", inline=True)
    submit = provider.submit

    async def deaf(order: Any) -> Any:
        await submit(order)
        raise Ambiguous("no answer")

    provider.submit = deaf  # type: ignore[method-assign]
    workflow = Workflow("ask", payload=dict[str, Any])

    @workflow.step(retry=Retry(attempts=50, base=0.001))
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        return answer(await ctx.call(provider, "it", payload))

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert job.status == "failed"
        assert "was made 6 times" in (job.error or "")
        (cost,) = await app.costs()
        assert cost.cost == 6 * 1000

    run(tmp_path, provider, main, workflow=workflow)
    assert len(provider.works) == 6


def test_what_was_learned_lands_although_the_step_is_stopped_meanwhile(tmp_path: Path) -> None:
    provider = Provider()
    workflow = Workflow("ask", payload=dict[str, Any])
    finds = [0]

    async def counted(order: Any) -> Any:
        finds[0] += 1
        return await Provider.find(provider, order)

    provider.find = counted  # type: ignore[method-assign]

    @workflow.step(timeout=0.3, retry=Retry(attempts=5, base=0.5))
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        call = await ctx.call(provider, "it", payload)
        return answer(call) if call.ended else Again(payload, until=call)

    async def main(app: Penstock) -> None:
        commit, slow = app.engine.commit, [True]

        async def late(op: Any) -> Any:
            if isinstance(op, Learn) and op.fact.kind == "sent" and slow:
                slow.pop()
                await asyncio.sleep(0.6)
            return await commit(op)

        app.engine.commit = late  # type: ignore[method-assign]
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert job.result["attempt"] == 1
        history = [event.note for event in await app.history(job.id) if event.kind == "retry"]
        assert any("ran longer" in (note or "") for note in history), "the step was stopped"

    run(tmp_path, provider, main, workflow=workflow)
    assert finds[0] == 0, "nobody had to look for it"


def test_an_empty_list_proves_nothing_until_its_margin_is_over(tmp_path: Path) -> None:
    provider = Provider(on_submit=raising(Ambiguous("who knows")), submit_timeout=1.0, listing_margin=1.0)
    shown = asyncio.Event()

    async def lagging(order: Any) -> Any:
        return await Provider.find(provider, order) if shown.is_set() else Found((), complete=True)

    provider.find = lagging  # type: ignore[method-assign]

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].error is not None)
        now = await app.engine.store.now()
        await app.engine.write(("UPDATE calls SET submit_before = :now, due = :now", {"now": now}))
        await asyncio.sleep(0.5)
        shown.set()
        assert (await ended(app, submitted.job_id)).result["attempt"] == 1

    run(tmp_path, provider, main)
    assert len(provider.works) == 1


def test_of_two_that_carry_one_label_the_later_is_stopped_and_shown(tmp_path: Path) -> None:
    provider = Provider(finishes="running")
    submit = provider.submit

    async def twice(order: Any) -> Any:
        await submit(order)
        await submit(order)
        raise Ambiguous("a proxy sent it twice")

    provider.submit = twice  # type: ignore[method-assign]

    async def main(app: Penstock) -> None:
        submitted = await app.submit("ask", {})
        await until(app, lambda calls: bool(calls) and calls[0].provider_id == "work-1")
        notes = [event.note or "" for event in await app.history(submitted.job_id)]
        assert any("2 carried this label" in note and "work-2" in note for note in notes)
        provider.finishes = "succeeded"
        assert (await ended(app, submitted.job_id)).result["result"] == {"id": "work-1"}

    run(tmp_path, provider, main)
    assert [work.cancels for work in provider.works.values()] == [0, 1]


def test_a_live_call_refuses_another_request_under_its_key(tmp_path: Path) -> None:
    provider = Provider(finishes="running")
    workflow = Workflow("ask", payload=dict[str, Any])

    @workflow.step
    async def ask(payload: dict[str, Any], ctx: Context) -> Any:
        await ctx.call(provider, "it", {"n": 1})
        await ctx.call(provider, "it", {"n": 2})

    async def main(app: Penstock) -> None:
        job = await ended(app, (await app.submit("ask", {})).job_id)
        assert "a key of its own" in (job.error or "")

    run(tmp_path, provider, main, workflow=workflow)
    assert len(provider.works) == 1
