"""Where a job's life is decided: every change of a job's status is made by a function of this module.

The functions are pure but for the row they are given, which is the caller's own copy. Stores read a row under their
lock, let one of these change it, and write it back; they decide nothing themselves.

                      ┌────────────── retry, again ──────────────┐
                      ▼                                          │
    submit ──▶ queued ──claim──▶ running ──▶ waiting ──due──▶ queued
                 ▲  │               │
          resume │  └──── pause ────┤ (the tick in flight commits first)
                 │                  ▼
               paused           completed · failed
                    any of these, on cancel ──▶ canceling ──clean-up──▶ canceled
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.engine.clock import to_the_tick
from penstock.engine.errors import Conflict, InvalidRequest
from penstock.engine.lane import lane_of
from penstock.engine.model import FINAL, Event, JobRow, NewJob
from penstock.engine.outcome import Move

MOST_CRASHES = 5


def born(new: NewJob, *, run: int, now: float, by_tenant: bool, batch_limited: bool) -> JobRow:
    """The row of a job that was just submitted."""
    row = JobRow(
        id=new.id,
        tenant=new.tenant,
        workflow=new.workflow,
        key=new.key or new.id,
        run=run,
        queue=new.queue,
        digest=new.digest,
        parent=new.parent,
        fan_in=new.fan_in,
        cleanup=new.cleanup,
        base=new.base,
        period=new.period,
        cap=new.cap,
        aged_from=now if new.aged_from is None else to_the_tick(new.aged_from),
        created=now,
        status=_ready_status(new.step, new.cleanup),
        phase="ready",
        step=new.step,
        payload=new.payload,
        lane="",
        batch=new.batch,
        batch_slot=new.batch if batch_limited else None,
        resource=new.resource,
    )
    if new.after > 0:
        _wait(row, to_the_tick(now + new.after))
    row.lane = lane_of(row, by_tenant=by_tenant)
    return row


def claim(row: JobRow, *, worker: str, now: float, lease: float | None) -> None:
    """Hand the job to a worker. The new epoch fences out everybody who held it before."""
    row.phase = "held"
    if row.status != "canceling":
        row.status = "running"
    row.epoch += 1
    row.attempt += 1
    row.worker = worker
    row.due = None if lease is None else to_the_tick(now + lease)
    if row.started is None:
        row.started = now
    if row.entered is None:
        row.entered = now


def land(row: JobRow, move: Move, *, now: float, by_tenant: bool) -> None:
    """What a tick decided becomes the job's state. A cancel that came meanwhile wins over whatever the tick decided."""
    row.moves = move.number
    if move.kind == "checkpoint":
        if move.payload != row.payload:
            # It got further than any worker that died: those are not held against it.
            row.crashes = 0
        _carry(row, move)
        row.lane = lane_of(row, by_tenant=by_tenant)
        return
    if row.gate == "cancel" and row.status != "canceling":
        _let_go(row)
        _to_canceling(row, now=now)
        row.lane = lane_of(row, by_tenant=by_tenant)
        return
    if move.kind not in _DECIDES_NOTHING:
        _carry(row, move)
    _MOVES[move.kind](row, move, now)
    row.lane = lane_of(row, by_tenant=by_tenant)


def crash(row: JobRow, *, now: float, by_tenant: bool) -> None:
    """The worker died holding the job: somebody else may take it, unless it has taken too many with it."""
    row.crashes += 1
    row.epoch += 1
    worker = row.worker
    _let_go(row)
    if row.gate == "cancel" and row.status != "canceling":
        _to_canceling(row, now=now)
    elif row.crashes >= MOST_CRASHES:
        row.error = f"WorkerDied: {row.crashes} workers died running step {row.step!r}, the last was {worker}"
        finish(row, "failed", now)
    else:
        _requeue(row, after=0.0, now=now)
    row.lane = lane_of(row, by_tenant=by_tenant)


def hand_back(row: JobRow, *, now: float, by_tenant: bool) -> None:
    """The worker gives the job up unharmed (it drains, or never learned that it had claimed it): not a try."""
    row.epoch += 1
    _let_go(row)
    row.attempt = max(0, row.attempt - 1)
    if row.gate == "cancel" and row.status != "canceling":
        _to_canceling(row, now=now)
    else:
        _requeue(row, after=0.0, now=now)
    row.lane = lane_of(row, by_tenant=by_tenant)


def fall_due(row: JobRow) -> None:
    """The wait is over."""
    row.phase = "ready"
    row.due = row.reason = None
    if row.status == "waiting":
        row.status = "queued"


def wake(row: JobRow) -> None:
    """Something it may have waited for has come: no wait goes on, also not one that a pause interrupted."""
    if row.phase == "timed":
        fall_due(row)
    elif row.status == "paused":
        row.due = None


def pause(row: JobRow, *, reason: str | None) -> None:
    """Pausing what is paused is no error; a tick in flight commits first."""
    if row.status in FINAL or row.status == "canceling" or row.gate == "cancel":
        raise Conflict(f"job {row.id} is {_spoken(row)} and cannot be paused")
    row.reason = reason
    if row.phase == "held":
        row.gate = "pause"
    else:
        row.status, row.phase = "paused", "idle"


def resume(row: JobRow, *, now: float) -> None:
    """Go on where it stopped; a wait that was interrupted goes on to its own end."""
    if row.gate == "pause":
        row.gate, row.reason = "", None
        return
    if row.status != "paused":
        raise Conflict(f"job {row.id} is {_spoken(row)}, not paused")
    row.reason = None
    row.entered = None
    row.status, row.phase = _ready_status(row.step, row.cleanup), "ready"
    if row.due is not None and row.due > now:
        _wait(row, row.due)
    else:
        row.due = None


def cancel(row: JobRow, *, now: float, by_tenant: bool) -> None:
    """Stop at the next gate and clean up. Cancelling what is being cancelled is no error."""
    if row.status in FINAL:
        raise Conflict(f"job {row.id} is {row.status} and cannot be canceled")
    if row.status == "canceling" or row.gate == "cancel":
        return
    if row.phase == "held":
        row.gate = "cancel"
        return
    _to_canceling(row, now=now)
    row.lane = lane_of(row, by_tenant=by_tenant)


def finish(row: JobRow, status: str, now: float) -> None:
    """Final is final, and holds nothing."""
    row.status = status
    row.phase = "idle"
    row.finished = now
    row.due = None
    row.gate = ""
    row.reason = None
    row.batch_slot = None
    row.worker = None


def second_run(row: JobRow, *, new_id: str) -> NewJob:
    """`retry`: the next run of a failed job, from the step where it stopped and with the payload that step had."""
    if row.status != "failed":
        raise Conflict(f"job {row.id} is {_spoken(row)}; only a failed job can be retried")
    if not row.payload:
        raise Conflict(f"job {row.id} is older than retention keeps payloads; submit it anew with `again`")
    return NewJob(
        id=new_id,
        workflow=row.workflow,
        step=row.step,
        payload=row.payload,
        digest=row.digest,
        tenant=row.tenant,
        key=row.key,
        again=True,
        queue=row.queue,
        base=row.base,
        period=row.period,
        cap=row.cap,
        parent=row.parent,
        fan_in=row.fan_in,
        cleanup=row.cleanup,
        resource=row.resource,
    )


def follow_up(then: NewJob, *, batch: str) -> NewJob:
    """The job a batch starts when it has ended. It is the batch's own: a key or another batch could refuse it when
    nobody is there to hear of that."""
    if then.key is not None or then.batch is not None:
        raise InvalidRequest("the job that follows a batch can have neither a key nor a batch of its own")
    return replace(then, fan_in=batch)


def control(row: JobRow, action: str, *, reason: str | None, now: float, by_tenant: bool) -> None:
    """What a person may ask of one job. A parked job is retried by letting it go on."""
    if action == "pause":
        pause(row, reason=reason)
    elif action == "cancel":
        cancel(row, now=now, by_tenant=by_tenant)
    elif action == "resume" or (action == "retry" and row.status == "paused"):
        resume(row, now=now)
    else:
        raise InvalidRequest(f"unknown action {action!r}: use pause, resume, cancel or retry")


def told(row: JobRow, move: Move, *, now: float, ran: tuple[str, int], refused: bool) -> Event:
    """The line of history a committed tick leaves: which step ran, as which try, and where the job stands now."""
    step, attempt = ran
    kind = "refused" if refused else move.kind
    note = _storable(move.error)
    return Event(row.id, now, kind, step, row.status, move.epoch, move.number, attempt, move.took, move.worker, note)


def _ready_status(step: str, cleanup: str | None) -> str:
    """A job whose next step is its clean-up is being cancelled, also in its second run or after it was parked."""
    return "canceling" if step == cleanup else "queued"


def _carry(row: JobRow, move: Move) -> None:
    row.payload = move.payload
    if move.counters is not None:
        row.counters = move.counters
    if move.progress is not None:
        row.progress = move.progress


def _storable(text: str | None) -> str | None:
    """An exception may say anything (file names that are no text, NUL); no database may refuse a commit for that."""
    return text and text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def _let_go(row: JobRow) -> None:
    row.worker = None
    row.due = None


def _wait(row: JobRow, due: float) -> None:
    row.phase = "timed"
    row.due = due
    if row.status != "canceling":
        row.status = "waiting"


def _requeue(row: JobRow, *, after: float, now: float) -> None:
    """Off the worker: to wait, to the queue, or, where somebody asked meanwhile, to rest."""
    _let_go(row)
    if after > 0:
        _wait(row, to_the_tick(now + after))
    else:
        row.phase = "ready"
        if row.status != "canceling":
            row.status = "queued"
    if row.gate == "pause":
        row.gate = ""
        row.status, row.phase = "paused", "idle"


def _to_canceling(row: JobRow, *, now: float) -> None:
    row.gate = ""
    row.due = None
    row.attempt = row.throttled = row.crashes = 0
    row.entered = None
    row.error = row.reason = None
    if row.cleanup is None:
        finish(row, "canceled", now)
    else:
        row.status, row.phase, row.step = "canceling", "ready", row.cleanup


def _next(row: JobRow, move: Move, now: float) -> None:
    row.step = move.step
    row.attempt = row.throttled = row.crashes = 0
    row.error = None
    limited = move.resource != row.resource and move.resource != ""
    row.resource = move.resource
    if move.keep and not row.gate and not limited:
        row.attempt = 1
        row.entered = now
        return
    row.entered = None
    _requeue(row, after=0.0, now=now)


def _again(row: JobRow, move: Move, now: float) -> None:
    row.attempt = row.throttled = row.crashes = 0
    row.error = None
    paused = row.gate == "pause"
    _requeue(row, after=move.after, now=now)
    if not paused:
        row.reason = _storable(move.waits) if row.phase == "timed" else None


def _retry(row: JobRow, move: Move, now: float) -> None:
    row.error = _storable(move.error)
    if move.throttled:
        row.throttled += 1
        row.attempt -= 1
    _requeue(row, after=move.after, now=now)


def _done(row: JobRow, move: Move, now: float) -> None:
    row.result = move.result
    row.error = None
    finish(row, "completed", now)


def _fail(row: JobRow, move: Move, now: float) -> None:
    row.error = _storable(move.error)
    finish(row, "failed", now)


def _cleaned(row: JobRow, move: Move, now: float) -> None:
    finish(row, "canceled", now)


def _park(row: JobRow, move: Move, now: float) -> None:
    _let_go(row)
    row.attempt = max(0, row.attempt - 1)
    row.gate = ""
    row.status, row.phase = "paused", "idle"
    row.reason = _storable(move.error)


def _hand_back(row: JobRow, move: Move, now: float) -> None:
    row.attempt = max(0, row.attempt - 1)
    _requeue(row, after=0.0, now=now)


_DECIDES_NOTHING = frozenset({"hand back", "retry", "fail", "park"})
"""Moves that leave payload and counters as they are stored: a checkpoint of the tick may have landed without its
knowing."""

_MOVES: dict[str, Callable[[JobRow, Move, float], None]] = {
    "next": _next,
    "again": _again,
    "retry": _retry,
    "done": _done,
    "fail": _fail,
    "cleaned": _cleaned,
    "park": _park,
    "hand back": _hand_back,
}


def _spoken(row: JobRow) -> str:
    return "being canceled" if row.gate == "cancel" else row.status
