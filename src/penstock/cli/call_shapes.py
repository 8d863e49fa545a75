"""What `--json` writes about remote calls and money: stable, and described by the schemas beside this module."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.cli.times import utc
from penstock.engine.call import Call, CallRow, held_by, label_of, view
from penstock.store.protocol import Budget, Cost


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
