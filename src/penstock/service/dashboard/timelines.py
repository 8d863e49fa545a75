"""A remote call as a line on a time axis: made, sent, at work, ended."""

from __future__ import annotations

from penstock.engine.call import ENDED, LIVE, Call
from penstock.service.dashboard.charts import Axis, Bar, Track
from penstock.service.dashboard.wording import length


def track_of_call(call: Call, axis: Axis, now: float) -> Track:
    end = call.finished or (now if call.state in LIVE else (call.submitted or call.created))
    sent = min(call.submitted or (end if call.state in ("intent", "unsent", "absent", "lost") else call.created), end)
    bars = []
    if sent > call.created:
        took = length(sent - call.created)
        bars.append(Bar(axis.x(call.created), axis.width(call.created, sent), "intent", f"on its way: {took}"))
    if end > sent or not bars:
        words = (
            f"{call.state} after {length(end - sent)}"
            if call.state in ENDED
            else f"{call.state} for {length(end - sent)}"
        )
        bars.append(Bar(axis.x(sent), axis.width(sent, end), f"call-{call.state}", words))
    bars.append(Bar(axis.x(end), "0%", f"call-{call.state}", call.state, point=True))
    label = f"{call.key}#{call.attempt}" if call.attempt > 1 else call.key
    earlier = end < axis.start
    return Track(label, () if earlier else tuple(bars), call.remote, f"/ui/calls/{call.id}", "call", earlier)
