"""A batch, and how it is shown: a long-running operation, bent by the faults that were dealt to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.gemini_local.faults import Fault
from penstock.gemini_local.wire import Json, rfc3339

PENDING, RUNNING, SUCCEEDED = "PENDING", "RUNNING", "SUCCEEDED"
FAILED, CANCELLED, EXPIRED = "FAILED", "CANCELLED", "EXPIRED"

_type = "type.googleapis.com/google.ai.generativelanguage.v1main."


@dataclass(slots=True, frozen=True)
class Batch:
    number: int
    id: str
    embeds: bool
    inline: bool
    model: str
    title: str
    created: float
    updated: float
    started: float | None
    ended: float | None
    state: str
    rows: int
    succeeded: int
    failed: int
    tokens: int
    error: Json | None
    faults: tuple[Fault, ...]
    deleted: bool

    @property
    def name(self) -> str:
        return f"batches/{self.id}"

    @property
    def result_name(self) -> str:
        return f"files/batch-{self.id}"

    def fault(self, kind: str) -> Fault | None:
        return next((fault for fault in self.faults if fault.kind == kind), None)

    def lasts(self, kind: str, since: float | None, now: float) -> bool:
        """Whether a fault that lasts some seconds from `since` (for ever, if it does not say) is still in force."""
        fault = self.fault(kind)
        if fault is None:
            return False
        seconds = fault.options.get("seconds")
        return seconds is None or now < (since or now) + float(seconds)


def is_listed(batch: Batch, now: float) -> bool:
    return not batch.lasts("list_omits", batch.created, now) and not batch.lasts("list_lag", batch.created, now)


def is_found(batch: Batch, now: float) -> bool:
    return not batch.deleted and not batch.lasts("get_404_for", batch.created, now)


def has_output(batch: Batch, now: float) -> bool:
    if batch.state != SUCCEEDED or batch.lasts("succeeded_before_output", batch.ended, now):
        return False
    unknown = batch.fault("unknown_state")
    return unknown is None or bool(unknown.option("output"))


def shown_state(batch: Batch) -> str:
    if batch.state == SUCCEEDED:
        if (unknown := batch.fault("unknown_state")) is not None:
            return str(unknown.option("state"))
        if batch.fault("partially_succeeded") is not None:
            return "BATCH_STATE_PARTIALLY_SUCCEEDED"
    return f"BATCH_STATE_{batch.state}"


def operation(batch: Batch, now: float, rows: list[Any] | None = None, *, listed: bool = False) -> Json:
    """`rows` are the answers of an inline batch; None: they are gone. A listing leaves the output out."""
    done = batch.ended is not None and batch.fault("unknown_state") is None
    metadata: Json = {
        "@type": _type + ("EmbedContentBatch" if batch.embeds else "GenerateContentBatch"),
        "model": f"models/{batch.model}",
        "displayName": batch.title,
        "createTime": rfc3339(batch.created),
        "updateTime": rfc3339(batch.updated),
        "batchStats": _stats(batch),
        "state": shown_state(batch),
        "name": batch.name,
    }
    if batch.ended is not None:
        metadata["endTime"] = rfc3339(batch.ended)
    view: Json = {"name": batch.name, "metadata": metadata}
    if done:
        view["done"] = True
    if batch.error is not None:
        view["error"] = batch.error
    elif not listed and has_output(batch, now):
        output = _output(batch, rows or [])
        metadata["output"] = output
        kind = "AsyncBatchEmbedContentResponse" if batch.embeds else "BatchGenerateContentResponse"
        view["response"] = {"@type": _type + kind, **output}
    return view


def _output(batch: Batch, rows: list[Any]) -> Json:
    if not batch.inline:
        return {"responsesFile": batch.result_name}
    field = "inlinedEmbedContentResponses" if batch.embeds else "inlinedResponses"
    # Google leaves a list without elements out.
    return {field: {"inlinedResponses": rows} if rows else {}}


def _stats(batch: Batch) -> Json:
    """Counts of nothing are left out, as the service does."""
    counts = {
        "requestCount": batch.rows,
        "successfulRequestCount": batch.succeeded,
        "failedRequestCount": batch.failed,
        "pendingRequestCount": batch.rows - batch.succeeded - batch.failed if batch.ended is None else 0,
    }
    return {name: str(count) for name, count in counts.items() if count}
