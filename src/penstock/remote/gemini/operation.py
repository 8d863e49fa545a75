"""A batch as Google tells it: the raw long-running operation, read for what the SDK drops (its error, its counts,
whether it is done) and without the SDK's trouble with states it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.remote.protocol import Polled, PolledState

OUTPUT_GRACE = 3600.0
"""Seconds a batch that has succeeded may be without a result before somebody is told. Google's clock and ours may
differ, so nothing ends by it."""

STATES: dict[str, PolledState] = {
    "UNSPECIFIED": "running",
    "QUEUED": "running",
    "PENDING": "running",
    "RUNNING": "running",
    "UPDATING": "running",
    "PAUSED": "running",
    "CANCELLING": "running",
    "SUCCEEDED": "succeeded",
    "PARTIALLY_SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
    "EXPIRED": "expired",
}
"""The wire says BATCH_STATE_*, the documentation's samples JOB_STATE_*."""

_CANCELLED = 1


@dataclass(slots=True, frozen=True)
class Operation:
    name: str
    label: str
    state: PolledState
    error: str | None
    done: int | None
    total: int | None
    created: float | None
    ended: float | None
    file: str | None
    inlined: list[dict[str, Any]] | None

    @property
    def has_result(self) -> bool:
        return self.file is not None or self.inlined is not None

    def polled(self, now: float) -> Polled:
        """A batch has succeeded when its result is there: Google says so a little before. One that stays without is to
        be collected all the same: that fails, is counted, and at last a person is asked."""
        state = self.state
        if state == "succeeded" and not self.has_result:
            late = self.ended is not None and now - self.ended > OUTPUT_GRACE
            state = "succeeded" if late else "running"
        return Polled(state=state, error=self.error, done=self.done, total=self.total)


def read_operation(raw: Mapping[str, Any]) -> Operation:
    metadata = _mapping(raw.get("metadata"))
    output = _mapping(metadata.get("output")) or _mapping(raw.get("response"))
    stats = _mapping(metadata.get("batchStats"))
    total = _number(stats.get("requestCount"))
    succeeded, failed = (_number(stats.get(name)) for name in ("successfulRequestCount", "failedRequestCount"))
    error = _mapping(raw.get("error")) or _mapping(metadata.get("error"))
    return Operation(
        name=str(raw.get("name") or metadata.get("name") or ""),
        label=str(metadata.get("displayName") or ""),
        state=_state(raw, metadata, error, output),
        error=_said(error),
        done=None if succeeded is None and failed is None and total is None else (succeeded or 0) + (failed or 0),
        total=total,
        created=moment(metadata.get("createTime")),
        ended=moment(metadata.get("endTime")) or moment(metadata.get("updateTime")),
        file=_text(output.get("responsesFile") or output.get("responses_file")),
        inlined=_inlined(output),
    )


def _state(
    raw: Mapping[str, Any], metadata: Mapping[str, Any], error: Mapping[str, Any], output: Mapping[str, Any]
) -> PolledState:
    written = str(metadata.get("state") or "")
    name = written.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_").removeprefix("STATE_")
    state = STATES.get(name, "unknown") if name else "running"
    if state in ("running", "unknown") and raw.get("done") is True:
        # The operation itself says that it has ended, in words every long-running operation has.
        if error:
            return "cancelled" if error.get("code") == _CANCELLED else "failed"
        if output:
            return "succeeded"
    return state


def _said(error: Mapping[str, Any]) -> str | None:
    if not error:
        return None
    return f"{str(error.get('message') or 'no reason given')[:2000]} (code {error.get('code')})"


def _inlined(output: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    for name in ("inlinedResponses", "inlinedEmbedContentResponses"):
        if name in output:
            held = output[name]
            rows = held.get("inlinedResponses", []) if isinstance(held, Mapping) else held
            return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return None


def moment(written: Any) -> float | None:
    """Seconds of an RFC 3339 time; Google writes up to nine decimals."""
    try:
        return datetime.fromisoformat(str(written)).timestamp() if written else None
    except ValueError:
        return None


def _number(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
