"""Notices: what the outside is told of, found in the lines of jobs' histories. Pure: a line is a notice, or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.engine.errors import OverBudget
from penstock.engine.model import FINAL, SLA_BREACHED
from penstock.service.told import shortened
from penstock.store.protocol import Change
from penstock.times import utc

WEBHOOK_WORKFLOW = "penstock.webhook"
"""Its jobs carry notices out; there are no notices about them."""


@dataclass(slots=True, frozen=True)
class Notice:
    """`id` never comes again; `about` is the JSON body without what depends on who is told."""

    id: str
    event: str
    tenant: str
    workflow: str
    about: dict[str, Any]


def notice_of(change: Change) -> Notice | None:
    """What a line means to the outside. The same line is always the same notice, whoever reads it and how often."""
    event = change.event
    kind = _kind(change)
    if kind is None:
        return None
    # A number alone would come again in a store that is made anew, and a receiver would take the notice for known.
    notice_id = f"{event.job}.{change.id}"
    about = {
        "id": notice_id,
        "event": kind,
        "at": utc(event.at),
        "job": {
            "id": event.job,
            "workflow": change.workflow,
            "key": change.key,
            "run": change.run,
            "tenant": change.tenant,
            "status": event.status,
            "step": event.step,
            "batch": change.batch,
        },
        "note": shortened(event.note),
    }
    return Notice(notice_id, kind, change.tenant, change.workflow, about)


def _kind(change: Change) -> str | None:
    event = change.event
    if change.workflow == WEBHOOK_WORKFLOW:
        return None
    if event.kind == SLA_BREACHED:
        return "sla.breached"
    if event.kind.startswith("call "):
        # A call's news may come when its job is final: that is not the job's end once more.
        return "call.quarantined" if event.kind == "call quarantined" else None
    if event.status in FINAL:
        return f"job.{event.status}"
    if event.kind == "park" and (event.note or "").startswith(f"{OverBudget.__name__}:"):
        return "budget.paused"
    return None
