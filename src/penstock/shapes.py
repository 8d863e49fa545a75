"""What programs read of jobs, calls and money: the same words in the command line's `--json` and in the HTTP API.

Stable: the schemas of the command line and the OpenAPI document describe them. Times are RFC 3339 in UTC, to the
millisecond; amounts of money are told twice, in dollars and in whole millionths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from penstock.engine.call import Call, CallRow, held_by, label_of, view
from penstock.engine.model import Batch, Event, Job, Schedule
from penstock.store.protocol import Budget, Cost, LogLine
from penstock.times import utc


def summary(job: Job) -> dict[str, Any]:
    """A job without its payload and result, which may be large."""
    return {
        "id": job.id,
        "workflow": job.workflow,
        "tenant": job.tenant,
        "key": job.key,
        "run": job.run,
        "queue": job.queue,
        "status": job.status,
        "step": job.step,
        "attempt": job.attempt,
        "priority": job.priority,
        "error": job.error,
        "reason": job.reason,
        "halting": job.halting or None,
        "progress": asdict(job.progress) if job.progress else None,
        "counters": job.counters,
        "created": utc(job.created),
        "started": utc(job.started),
        "due": utc(job.due),
        "finished": utc(job.finished),
        "worker": job.worker,
        "parent": job.parent,
        "batch": job.batch,
        "fan_in": job.fan_in,
    }


def detail(job: Job) -> dict[str, Any]:
    return {**summary(job), "payload": job.payload, "result": job.result}


def happening(event: Event) -> dict[str, Any]:
    """One line of a job's history."""
    return {
        "at": utc(event.at),
        "kind": event.kind,
        "step": event.step,
        "status": event.status,
        "attempt": event.attempt,
        "took": event.took,
        "by": event.worker,
        "note": event.note,
    }


def log_line(line: LogLine) -> dict[str, Any]:
    return {"at": utc(line.at), "step": line.step, "attempt": line.attempt, "level": line.level, "text": line.text}


def batch_state(batch: Batch) -> str:
    """One word for where a batch is."""
    if batch.finished is not None:
        return "ended"
    return "open" if batch.sealed is None else "sealed"


def batch_line(batch: Batch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "tenant": batch.tenant,
        "key": batch.key,
        "generation": batch.generation,
        "state": batch_state(batch),
        "limit": batch.limit,
        "members": batch.members,
        "completed": batch.completed,
        "failed": batch.failed,
        "canceled": batch.canceled,
        "created": utc(batch.created),
        "sealed": utc(batch.sealed),
        "finished": utc(batch.finished),
        "follow_up": batch.follow_up,
    }


def schedule_line(schedule: Schedule) -> dict[str, Any]:
    """A schedule without its payload, which may be large."""
    return {
        "name": schedule.name,
        "tenant": schedule.tenant,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "workflow": schedule.workflow,
        "enabled": schedule.enabled,
        "next_due": utc(schedule.next_due),
        "last_fired": utc(schedule.last_fired),
    }


def schedule_detail(schedule: Schedule) -> dict[str, Any]:
    return {**schedule_line(schedule), "payload": schedule.payload}


def money(name: str, millionths: int) -> dict[str, Any]:
    """An amount twice: in dollars, for reading, and in whole millionths of a dollar, for adding up."""
    return {f"{name}_usd": millionths / 1_000_000, f"{name}_microdollars": millionths}


def call_summary(call: Call) -> dict[str, Any]:
    """A call without its result, which may be large."""
    return {
        "id": call.id,
        "tenant": call.tenant,
        "job": call.job,
        "workflow": call.workflow,
        "remote": call.remote,
        "key": call.key,
        "attempt": call.attempt,
        "state": call.state,
        "unwanted": call.unwanted,
        "model": call.model or None,
        "provider_id": call.provider_id,
        "error": call.error,
        "tokens": asdict(call.usage),
        **money("estimate", call.estimate),
        **money("cost", call.cost),
        "done": call.done,
        "total": call.total,
        "created": utc(call.created),
        "submitted": utc(call.submitted),
        "next_look": utc(call.due),
        "finished": utc(call.finished),
    }


def call_detail(row: CallRow) -> dict[str, Any]:
    call = view(row)
    return {
        **call_summary(call),
        "label": label_of(row.id),
        "submit_before": utc(row.submit_before),
        "last_look": utc(row.checked),
        "looks": row.looks,
        "strikes": row.strikes,
        "decided_by": row.decided_by,
        "holds": [{"name": name, "amount": amount} for name, amount in held_by(row)],
        "result": call.result,
    }


def cost_line(cost: Cost, by: tuple[str, ...]) -> dict[str, Any]:
    return {"group": dict(zip(by, cost.group, strict=True)), **cost_amounts(cost)}


def cost_amounts(cost: Cost) -> dict[str, Any]:
    return {
        "calls": cost.calls,
        "unfinished": cost.live,
        "input_tokens": cost.input,
        "cached_tokens": cost.cached,
        "output_tokens": cost.output,
        **money("cost", cost.cost),
        **money("reserved", cost.reserved),
    }


def budget_line(budget: Budget) -> dict[str, Any]:
    return {
        "scope": budget.scope,
        **money("budget", budget.most),
        **money("spent", budget.spent),
        **money("reserved", budget.reserved),
        **money("left", left(budget)),
    }


def left(budget: Budget) -> int:
    """What may still be promised to new calls; below 0 where the budget was lowered under what is spent."""
    return budget.most - budget.spent - budget.reserved


def total_of(costs: Sequence[Cost]) -> Cost:
    """All of them as one."""
    return Cost(
        (),
        sum(cost.calls for cost in costs),
        sum(cost.live for cost in costs),
        sum(cost.input for cost in costs),
        sum(cost.output for cost in costs),
        sum(cost.cached for cost in costs),
        sum(cost.cost for cost in costs),
        sum(cost.reserved for cost in costs),
    )


def dearest_first(costs: Sequence[Cost], by: Sequence[str]) -> list[Cost]:
    """Days stay in their order."""
    days = [n for n, name in enumerate(by) if name == "day"]
    return sorted(costs, key=lambda cost: ([cost.group[n] for n in days], -cost.cost, cost.group))


CALL_MEANINGS = {
    "intent": "about to be sent, or nobody knows yet whether it was",
    "unsent": "the other side did not take it; it is sent again",
    "submitted": "the other side has it",
    "running": "the other side works on it",
    "overdue": "still running, longer than it should",
    "succeeded": "done there; its result is not here yet",
    "quarantined": "nobody knows what became of it; a person decides",
    "collected": "its result is here",
    "failed": "the other side could not do it",
    "expired": "the other side gave up on it",
    "cancelled": "stopped",
    "absent": "never arrived there; the next attempt is made",
    "lost": "nobody knows, and it cannot be looked up: counted as paid",
    "discarded": "a person gave up on it",
}
"""What each state of a remote call says, in a few words."""
