"""The store in a few dictionaries: the oracle the databases are compared with, and what simulations run on.

It is written to be obviously right, not fast: a claim looks at every ready job. It shares the rules of a job's life
with the other stores and nothing else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, ClassVar

from penstock.engine import lifecycle
from penstock.engine.call import RESTING, CallRow
from penstock.engine.clock import Clock, SystemClock, to_the_tick
from penstock.engine.errors import Conflict, LostClaim, NotFound, PenstockError
from penstock.engine.lane import lane_of, limit_keys, parse, room_for, room_left, tenants_limited
from penstock.engine.model import FINAL, JOB_COLUMNS, Event, JobRow, NewJob
from penstock.engine.outcome import Move
from penstock.engine.priority import effective
from penstock.store import encoding
from penstock.store.memory_calls import MemoryCalls
from penstock.store.protocol import (
    ANY_QUEUE,
    KEPT_LINES,
    AddMeters,
    Announce,
    Applied,
    Asked,
    BatchRow,
    Beat,
    Budget,
    Claim,
    Claimed,
    ClaimJob,
    Commit,
    Control,
    DropSession,
    Fire,
    HandBack,
    Intend,
    JobFilter,
    Landed,
    Learn,
    Leave,
    LockFilter,
    LockRow,
    LogLine,
    Member,
    Note,
    Op,
    OpenBatch,
    PutSession,
    PutToken,
    Record,
    RemoveSchedule,
    RetryBatch,
    RevokeToken,
    ScheduleRow,
    Seal,
    SetBudget,
    SetCursor,
    SetLimits,
    SetSchedule,
    Submit,
    Submitted,
    TakeCalls,
    TakeLock,
    Tidied,
    Tidy,
    TouchToken,
    WorkerRow,
    Write,
    in_order,
)

_all_of = attrgetter(*JOB_COLUMNS)


class MemoryStore(MemoryCalls):
    """Everything is gone with the process. Several engines may share one instance, as several processes share a
    database."""

    url = "memory://"

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self.clock = clock or SystemClock()
        self.rows: dict[str, JobRow] = {}
        self.runs: dict[tuple[str, str, str], list[str]] = {}
        self.events: dict[str, list[Event]] = {}
        self.batch_rows: dict[str, BatchRow] = {}
        self.member_rows: dict[str, dict[str, str | None]] = {}
        self.lock_rows: dict[tuple[str, str], LockRow] = {}
        self.worker_rows: dict[str, WorkerRow] = {}
        self.schedule_rows: dict[tuple[str, str], ScheduleRow] = {}
        self.limit_rows: dict[str, int] = {}
        self.call_rows: dict[str, CallRow] = {}
        self.budget_rows: dict[str, Budget] = {}
        self.written: list[Any] = []
        self._hints: set[str] = set()
        self._crashed: list[tuple[str, str]] = []
        self._first_due: float | None = None
        self._replay = False
        self._listeners: list[Callable[[set[str]], None]] = []

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def now(self) -> float:
        return self._now()

    def _now(self) -> float:
        return to_the_tick(self.clock.now())

    async def apply(self, ops: Sequence[Op], *, replay: bool = False) -> Applied:
        answers: list[Any] = [None] * len(ops)
        self._hints = set()
        self._crashed = []
        self._first_due = None
        self._replay = replay
        recalled = self._recall(ops) if Asked in map(type, ops) else {}
        for place, op in in_order(ops):
            try:
                answers[place] = recalled[place] if place in recalled else self._do(op)
            except PenstockError as refused:
                answers[place] = refused
        if self._entries:
            self._write_audit()
        hints = self._hints
        if hints:
            for listener in list(self._listeners):
                listener(set(hints))
        due_in = None if self._first_due is None else self._first_due - self._now()
        return Applied(answers, hints, due_in, self._crashed)

    def _do(self, op: Op) -> Any:
        return self._DO[type(op)](self, op)

    def _submit(self, op: Submit) -> list[Submitted]:
        self._check(op.jobs)
        answers = []
        for new in op.jobs:
            last = self._found(new)
            if last is not None:
                self._join(new.batch, last)
                answers.append(Submitted(last.id, last.id == new.id, last.run, last.status))
            else:
                previous = self._last_run(new.tenant, new.workflow, new.key or new.id)
                row = self._create(new, 1 if previous is None else previous.run + 1)
                answers.append(Submitted(row.id, True, row.run, row.status))
        return answers

    def _check(self, jobs: Sequence[NewJob]) -> None:
        """Refuse all of a submit before any of it is done."""
        first: dict[tuple[str, str, str], NewJob] = {}
        for new in jobs:
            batch = self._open_batch_of(new)
            last = self._found(new)
            key = (new.tenant, new.workflow, new.key or new.id)
            same_key = last or first.setdefault(key, new)
            if same_key.id != new.id and same_key.digest != new.digest:
                raise Conflict(
                    f"key {key[2]!r} of workflow {new.workflow!r} is job {same_key.id},"
                    " which was submitted with another payload",
                    job=same_key.id,
                )
            if batch is not None and batch.sealed and (last is None or last.id not in self.member_rows[batch.id]):
                raise Conflict(f"batch {batch.id} is sealed and takes no more members", batch=batch.id)

    def _found(self, new: NewJob) -> JobRow | None:
        """The job that holds the key already, unless its run is over and another is wanted. One that this very
        request made, when it was asked for the first time, is never the last but one."""
        last = self._last_run(new.tenant, new.workflow, new.key or new.id)
        return None if last is None or (new.again and last.status in FINAL and last.id != new.id) else last

    def _create(self, new: NewJob, run: int) -> JobRow:
        batch = self.batch_rows[new.batch] if new.batch else None
        row = lifecycle.born(
            new,
            run=run,
            now=self._now(),
            by_tenant=tenants_limited(self.limit_rows),
            batch_limited=batch is not None and batch.limit is not None,
        )
        self.rows[row.id] = row
        self.runs.setdefault((row.tenant, row.workflow, row.key), []).append(row.id)
        self.events[row.id] = []
        if new.budget is not None:
            self.budget_rows[f"job:{row.id}"] = Budget(f"job:{row.id}", new.budget, 0)
        self._join(new.batch, row)
        self._announce(row)
        return row

    def _announce(self, row: JobRow) -> None:
        if row.phase == "ready" or (row.phase == "timed" and row.epoch == 0):
            self._hints.add(row.queue)
        if row.phase == "timed" and row.due is not None:
            self._first_due = row.due if self._first_due is None else min(self._first_due, row.due)

    def _open_batch_of(self, new: NewJob) -> BatchRow | None:
        if new.batch is None:
            return None
        batch = self.batch_rows.get(new.batch)
        if batch is None or batch.tenant != new.tenant:
            raise NotFound(f"there is no batch {new.batch}")
        return batch

    def _last_run(self, tenant: str, workflow: str, key: str) -> JobRow | None:
        ids = self.runs.get((tenant, workflow, key))
        return self.rows[ids[-1]] if ids else None

    def _join(self, batch_id: str | None, row: JobRow) -> None:
        if batch_id is None or row.id in self.member_rows[batch_id]:
            return
        batch = self.batch_rows[batch_id]
        batch.members += 1
        self.member_rows[batch_id][row.id] = None
        if row.batch is None:
            row.batch = batch_id
        if row.status in FINAL:
            self._end_member(batch, row)

    def _end_member(self, batch: BatchRow, row: JobRow) -> None:
        self.member_rows[batch.id][row.id] = row.status
        setattr(batch, row.status, getattr(batch, row.status) + 1)
        self._end_batch(batch)

    def _end_batch(self, batch: BatchRow) -> None:
        if batch.sealed is None or batch.finished is not None or batch.ended < batch.members:
            return
        batch.finished = self._now()
        if batch.then is not None:
            follow_up = self._create(encoding.load(batch.then), 1)
            batch.follow_up = follow_up.id

    def _settle(self, row: JobRow, event: Event) -> None:
        """After any change of a row: its history, what it no longer holds, and who is waiting for that."""
        self._tell(row.id, event)
        self._announce(row)
        if row.phase != "held" and (self.limit_rows or row.batch):
            self._hints.add(ANY_QUEUE)
        if row.status not in FINAL:
            return
        for lock in [lock for lock, held in self.lock_rows.items() if held.job == row.id]:
            del self.lock_rows[lock]
        for batch_id in sorted(self.member_rows):
            if self.member_rows[batch_id].get(row.id, row) is None:
                self._end_member(self.batch_rows[batch_id], row)

    def _commit(self, op: Commit) -> Landed:
        move = op.move
        row = self.rows.get(move.job)
        if row is not None and any(e.epoch == move.epoch and e.move == move.number for e in self.events[row.id]):
            return self._landed(row, move.epoch)
        row = self._held(move.job, move.epoch)
        if row.moves >= move.number:
            raise _lost(move.job, move.epoch)
        refused = row.gate == "cancel" and row.status != "canceling" and move.kind != "checkpoint"
        if any(self.call_rows[c].state in RESTING for c in move.until if c in self.call_rows):
            move = replace(move, after=0.0)
        resource, ran, before = row.resource, (row.step, row.attempt), _copied(row)
        lifecycle.land(row, move, now=self._now(), by_tenant=tenants_limited(self.limit_rows))
        if not refused:
            self._check_effects(move, before)
        self._settle(row, lifecycle.told(row, move, now=self._now(), ran=ran, refused=refused))
        if move.logs:
            lines = self.log_lines.setdefault(row.id, [])
            lines.extend(LogLine(at, *ran, level, text) for at, level, text in move.logs)
            del lines[:-KEPT_LINES]
        if not refused:
            self.written.extend(move.writes)
            for name in move.release:
                lock = self.lock_rows.get((row.tenant, name))
                if lock is not None and lock.job == row.id:
                    del self.lock_rows[row.tenant, name]
            if move.spawn:
                self._submit(Submit(move.spawn))
            for batch_id in move.seal:
                self._seal(Seal(batch_id))
        if resource and resource != row.resource and self.limit_rows:
            self._hints.add(ANY_QUEUE)
        return self._landed(row, move.epoch)

    def _check_effects(self, move: Move, before: JobRow) -> None:
        """What a tick spawns is checked against its job as it lands (it may spawn its own next run); a refusal undoes
        that."""
        try:
            self._check(move.spawn)
            for batch_id in move.seal:
                if batch_id not in self.batch_rows:
                    raise NotFound(f"there is no batch {batch_id}")
        except PenstockError:
            self.rows[before.id] = before
            raise

    def _landed(self, row: JobRow, epoch: int) -> Landed:
        return Landed(copy.copy(row), row.phase == "held" and row.epoch == epoch)

    def _held(self, job_id: str, epoch: int) -> JobRow:
        row = self.rows.get(job_id)
        if row is None or row.phase != "held" or row.epoch != epoch:
            raise _lost(job_id, epoch)
        return row

    def _claim(self, op: Claim) -> Claimed:
        self._wake_and_give_up(None)
        self._must_live(op.worker)
        now = self._now()
        taken: list[JobRow] = []
        for turn in range(op.room):
            ready = self._claimable(op.queue, op.workflows)
            if not ready:
                break
            if turn < op.oldest:
                row = min(ready, key=lambda r: (r.aged_from, r.id))
            else:
                row = min(
                    ready, key=lambda r: (-effective(r.base, r.period, r.cap, now - r.aged_from), r.aged_from, r.id)
                )
            lifecycle.claim(row, worker=op.worker, now=now, lease=None)
            taken.append(_copied(row))
        more = bool(self._claimable(op.queue, op.workflows))
        return Claimed(taken, 0.0 if more else self._until_due(now))

    def _claimable(self, queue: str, workflows: tuple[str, ...]) -> list[JobRow]:
        return [
            row
            for row in self.rows.values()
            if row.phase == "ready" and row.queue == queue and row.workflow in workflows and self._fits(row)
        ]

    def _fits(self, row: JobRow) -> bool:
        keys = limit_keys(row.lane, self.limit_rows)
        if not keys:
            return True
        held = [(r.lane, 1) for r in self.rows.values() if r.phase == "held"]
        batch = parse(row.lane).batch
        batches = []
        if batch:
            started = sum(1 for r in self.rows.values() if r.batch_slot == batch and r.started is not None)
            batches.append((batch, self.batch_rows[batch].limit or 0, started))
        room = room_left(self.limit_rows, held, batches, self._held_amounts().items())
        return all(room_for(key, room, self.limit_rows) > 0 for key in keys)

    def _claim_job(self, op: ClaimJob) -> Claimed:
        now = self._now()
        row = self.rows.get(op.job)
        if row is None or row.workflow not in op.workflows:
            return Claimed([], None)
        self._wake_and_give_up(op.job)
        if row.phase in ("timed", "held"):
            return Claimed([], None if row.due is None else max(0.0, row.due - now))
        if row.phase != "ready":
            return Claimed([], None)
        if op.lease is None:
            self._must_live(op.worker)
        if not self._fits(row):
            return Claimed([], None)
        lifecycle.claim(row, worker=op.worker, now=now, lease=op.lease)
        return Claimed([_copied(row)], None)

    def _must_live(self, worker: str) -> None:
        if worker not in self.worker_rows:
            raise LostClaim(f"worker {worker} was given up; it must start anew")

    def _wake_and_give_up(self, only: str | None) -> Tidied:
        """Timers that fell due, leases that ran out, and the jobs of workers that died; of one job where a claim is
        by id."""
        now = self._now()
        by_tenant = tenants_limited(self.limit_rows)
        dead = {w.id for w in self.worker_rows.values() if w.expires <= now}
        given_up = woken = 0
        for row in sorted(self.rows.values(), key=lambda r: r.id):
            if only is not None and row.id != only:
                continue
            if row.phase == "timed" and row.due is not None and row.due <= now:
                lifecycle.fall_due(row)
                self._hints.add(row.queue)
                woken += 1
            elif row.phase == "held" and (row.worker in dead or (row.due is not None and row.due <= now)):
                step, attempt, worker = row.step, row.attempt, row.worker
                lifecycle.crash(row, now=now, by_tenant=by_tenant)
                self._crashed.append((row.workflow, row.status))
                self._settle(
                    row, Event(row.id, now, "crash", step, row.status, row.epoch, 0, attempt, None, worker, row.error)
                )
                given_up += 1
        if only is None:
            for worker in dead:
                del self.worker_rows[worker]
        return Tidied(given_up, woken)

    def _until_due(self, now: float) -> float | None:
        dues = [row.due for row in self.rows.values() if row.phase in ("timed", "held") and row.due is not None]
        return max(0.0, min(dues) - now) if dues else None

    def _take_lock(self, op: TakeLock) -> bool:
        row = self._held(op.job, op.epoch)
        lock = self.lock_rows.setdefault((row.tenant, op.name), LockRow(row.tenant, op.name, row.id, self._now()))
        return lock.job == row.id

    def _note(self, op: Note) -> str:
        row = self._held(op.job, op.epoch)
        row.progress = op.progress
        return row.gate

    def _control(self, op: Control) -> JobRow:
        row = self.rows.get(op.job)
        if row is None or (op.tenant is not None and row.tenant != op.tenant):
            raise NotFound(f"there is no job {op.job}")
        now = self._now()
        if op.action == "retry" and row.status != "paused":
            new = lifecycle.second_run(row, new_id=op.new_id or "")
            last = self.runs[row.tenant, row.workflow, row.key][-1]
            if self._replay and last == op.new_id:
                return _copied(self.rows[last])
            if last != row.id:
                raise Conflict(f"job {row.id} has been run again already")
            self._inherit_calls(new.id, row.id)
            row = self._create(new, row.run + 1)
            self._tell(row.id, Event(row.id, now, "retry", row.step, row.status, worker=op.actor))
            return _copied(row)
        lifecycle.control(row, op.action, reason=op.reason, now=now, by_tenant=tenants_limited(self.limit_rows))
        self._settle(row, Event(row.id, now, op.action, row.step, row.status, worker=op.actor, note=op.reason))
        if row.phase == "timed":
            self._hints.add(row.queue)
        return _copied(row)

    def _open_batch(self, op: OpenBatch) -> BatchRow:
        then = None if op.then is None else encoding.dump(lifecycle.follow_up(op.then, batch=op.id))
        known = [b for b in self.batch_rows.values() if (b.tenant, b.key) == (op.tenant, op.key)]
        if known:
            return copy.copy(max(known, key=lambda b: b.generation))
        batch = BatchRow(op.id, op.tenant, op.key, 1, op.limit, then, self._now())
        self.batch_rows[batch.id] = batch
        self.member_rows[batch.id] = {}
        if op.budget is not None:
            self.budget_rows[f"batch:{batch.id}"] = Budget(f"batch:{batch.id}", op.budget, 0)
        return copy.copy(batch)

    def _seal(self, op: Seal) -> BatchRow:
        batch = self.batch_rows.get(op.batch)
        if batch is None:
            raise NotFound(f"there is no batch {op.batch}")
        if batch.sealed is None:
            batch.sealed = self._now()
            self._end_batch(batch)
        return copy.copy(batch)

    def _retry_batch(self, op: RetryBatch) -> BatchRow:
        old = self.batch_rows.get(op.batch)
        if old is None:
            raise NotFound(f"there is no batch {op.batch}")
        if self._replay and op.new_id in self.batch_rows:
            return copy.copy(self.batch_rows[op.new_id])
        if old.finished is None:
            raise Conflict(f"batch {old.id} has not ended: {old.ended} of {old.members} members have")
        if any(
            b.key == old.key and b.tenant == old.tenant and b.generation > old.generation
            for b in self.batch_rows.values()
        ):
            raise Conflict(f"batch {old.id} has been retried already")
        if not old.failed:
            raise Conflict(f"batch {old.id} has no failed members to retry")
        then = None
        if old.then is not None:
            then = encoding.dump(replace(encoding.load(old.then), id=op.new_job(), fan_in=op.new_id))
        batch = BatchRow(op.new_id, old.tenant, old.key, old.generation + 1, old.limit, then, self._now())
        members = [self.rows[job_id] for job_id in sorted(self.member_rows[old.id]) if job_id in self.rows]
        last_runs = {
            row.id: row for row in (self._last_run(m.tenant, m.workflow, m.key) for m in members) if row is not None
        }
        again = {
            row.id: replace(lifecycle.second_run(row, new_id=op.new_job()), batch=batch.id)
            for row in last_runs.values()
            if row.status == "failed"
        }
        self.batch_rows[batch.id] = batch
        self.member_rows[batch.id] = {}
        for row in last_runs.values():
            if row.id in again:
                self._inherit_calls(again[row.id].id, row.id)
                self._create(again[row.id], row.run + 1)
            else:
                self._join(batch.id, row)
        return self._seal(Seal(batch.id))

    def _set_limits(self, op: SetLimits) -> None:
        before = tenants_limited(self.limit_rows)
        self.limit_rows = dict(op.limits)
        by_tenant = tenants_limited(self.limit_rows)
        for row in self.rows.values():
            if row.status not in FINAL and by_tenant != before:
                row.lane = lane_of(row, by_tenant=by_tenant)
        self._hints.add(ANY_QUEUE)

    def _set_schedule(self, op: SetSchedule) -> None:
        old = self.schedule_rows.get((op.tenant, op.name))
        same = old is not None and (old.cron, old.timezone) == (op.cron, op.timezone)
        self.schedule_rows[op.tenant, op.name] = ScheduleRow(
            op.name,
            op.tenant,
            op.cron,
            op.timezone,
            old.next_due if same and old else op.next_due,
            encoding.dump(op.job),
            op.enabled,
            old.last_fired if old else None,
        )

    def _remove_schedule(self, op: RemoveSchedule) -> bool:
        return self.schedule_rows.pop((op.tenant, op.name), None) is not None

    def _fire(self, op: Fire) -> bool:
        old = self.schedule_rows.get((op.tenant, op.name))
        if old is None or not old.enabled or old.next_due != op.due:
            return False
        self._submit(Submit((op.job,)))
        self.schedule_rows[op.tenant, op.name] = replace(old, next_due=op.next_due, last_fired=op.due)
        return True

    def _beat(self, op: Beat) -> bool:
        now = self._now()
        old = self.worker_rows.get(op.worker)
        if old is None and not op.first:
            return False
        started = old.started if old else now
        info = old.info if old and not op.first else op.info
        self.worker_rows[op.worker] = WorkerRow(op.worker, started, now, now + op.ttl, info)
        return True

    def _leave(self, op: Leave) -> int:
        self.worker_rows.pop(op.worker, None)
        return self._give_back(op.worker, frozenset(), op.blamed, died=op.died)

    def _hand_back(self, op: HandBack) -> int:
        return self._give_back(op.worker, op.known, None)

    def _give_back(
        self, worker: str, known: frozenset[tuple[str, int]], blamed: str | None, *, died: bool = False
    ) -> int:
        now = self._now()
        by_tenant = tenants_limited(self.limit_rows)
        rows = [
            r for r in self.rows.values() if r.phase == "held" and r.worker == worker and (r.id, r.epoch) not in known
        ]
        for row in sorted(rows, key=lambda r: r.id):
            crashed = died or row.id == blamed
            kind, step, attempt = "crash" if crashed else "hand back", row.step, row.attempt
            if crashed:
                lifecycle.crash(row, now=now, by_tenant=by_tenant)
                self._crashed.append((row.workflow, row.status))
            else:
                lifecycle.hand_back(row, now=now, by_tenant=by_tenant)
            self._settle(
                row, Event(row.id, now, kind, step, row.status, row.epoch, 0, attempt, None, worker, row.error)
            )
        return len(rows)

    def _write(self, op: Write) -> list[Submitted]:
        self._check(op.jobs)
        self.written.extend(op.statements)
        return self._submit(Submit(op.jobs)) if op.jobs else []

    def _tidy(self, op: Tidy) -> Tidied:
        done = self._wake_and_give_up(None)
        self._orphan_calls()
        dropped = 0
        for keep, statuses in ((op.keep_completed, ("completed", "canceled")), (op.keep_failed, ("failed",))):
            if keep is None:
                continue
            old = [
                row for row in self.rows.values() if row.status in statuses and self._outlived(row, self._now() - keep)
            ]
            for row in sorted(old, key=lambda r: (r.finished or 0.0, r.id))[: op.most - dropped]:
                self._drop(row)
                dropped += 1
        if op.keep_completed is not None:
            self._drop_batches(self._now() - op.keep_completed)
        self._tidy_records(op.keep_audit)
        return Tidied(done.given_up, done.woken, dropped)

    def _drop_batches(self, cutoff: float) -> None:
        for batch in list(self.batch_rows.values()):
            old = batch.finished is not None and batch.finished <= cutoff
            if old and batch.key == batch.id and not self.member_rows[batch.id] and self._is_over(batch):
                del self.batch_rows[batch.id], self.member_rows[batch.id]

    def _outlived(self, row: JobRow, cutoff: float) -> bool:
        if row.finished is None or row.finished > cutoff or not row.lane:
            return False
        return all(self._is_over(self.batch_rows[b]) for b, jobs in self.member_rows.items() if row.id in jobs)

    def _is_over(self, batch: BatchRow) -> bool:
        """Whether nobody will ask for the members' results any more."""
        follow_up = self.rows.get(batch.follow_up or "")
        return batch.finished is not None and (follow_up is None or follow_up.finished is not None)

    def _drop(self, row: JobRow) -> None:
        """What somebody may submit again keeps its key; the rest goes."""
        runs = self.runs[row.tenant, row.workflow, row.key]
        self._forget(row.id)
        self._strip_calls(row.id)
        for members in self.member_rows.values():
            members.pop(row.id, None)
        if row.key != row.id or len(runs) > 1:
            row.payload, row.lane, row.result, row.counters, row.progress, row.error = "", "", None, None, None, None
        else:
            del self.rows[row.id], self.events[row.id], self.runs[row.tenant, row.workflow, row.key]

    _DO: ClassVar[dict[type, Callable[[MemoryStore, Any], Any]]] = {
        Submit: _submit,
        Claim: _claim,
        ClaimJob: _claim_job,
        Commit: _commit,
        TakeLock: _take_lock,
        Note: _note,
        Control: _control,
        OpenBatch: _open_batch,
        Seal: _seal,
        RetryBatch: _retry_batch,
        SetLimits: _set_limits,
        SetSchedule: _set_schedule,
        RemoveSchedule: _remove_schedule,
        Fire: _fire,
        Beat: _beat,
        Leave: _leave,
        HandBack: _hand_back,
        Tidy: _tidy,
        Write: _write,
        Intend: MemoryCalls._intend,
        Learn: MemoryCalls._learn,
        TakeCalls: MemoryCalls._take_calls,
        SetBudget: MemoryCalls._set_budget,
        Asked: MemoryCalls._asked,
        Record: MemoryCalls._record,
        Announce: MemoryCalls._announce_line,
        PutToken: MemoryCalls._put_token,
        RevokeToken: MemoryCalls._revoke_token,
        TouchToken: MemoryCalls._touch_token,
        PutSession: MemoryCalls._put_session,
        DropSession: MemoryCalls._drop_session,
        AddMeters: MemoryCalls._add_meters,
        SetCursor: MemoryCalls._set_cursor,
    }

    async def job(self, job_id: str) -> JobRow | None:
        return None if (row := self.rows.get(job_id)) is None else _copied(row)

    async def jobs(self, where: JobFilter) -> list[JobRow]:
        found = [
            row
            for row in self.rows.values()
            if (where.tenant is None or row.tenant == where.tenant)
            and (where.workflow is None or row.workflow == where.workflow)
            and (not where.status or row.status in where.status)
            and (where.key is None or row.key == where.key)
            and (where.batch is None or row.id in self.member_rows.get(where.batch, {}))
            and (where.before is None or row.id < where.before)
            and (where.after is None or row.id > where.after)
            and (where.parent is None or row.parent == where.parent)
            and (where.ids is None or row.id in where.ids)
            and (not where.dead or self._is_dead(row))
        ]
        copies = [_copied(row) for row in sorted(found, key=lambda r: r.id, reverse=True)[: where.limit]]
        for row in copies if where.brief else ():
            row.payload, row.result = "", None
        return copies

    async def count(self, *, tenant: str | None = None) -> dict[tuple[str, str], int]:
        counts: dict[tuple[str, str], int] = {}
        for row in self.rows.values():
            if tenant is None or row.tenant == tenant:
                counts[row.workflow, row.status] = counts.get((row.workflow, row.status), 0) + 1
        return counts

    async def history(self, job_id: str) -> list[Event]:
        return list(self.events.get(job_id, ()))

    async def batch(self, batch_id: str) -> BatchRow | None:
        return copy.copy(self.batch_rows.get(batch_id))

    async def members(self, batch_id: str, *, after: str = "", limit: int = 1000) -> list[Member]:
        members = sorted(self.member_rows.get(batch_id, {}).items())
        return [Member(batch_id, job, ended) for job, ended in members if job > after][:limit]

    def _is_dead(self, row: JobRow) -> bool:
        return row.status == "failed" and self.runs[row.tenant, row.workflow, row.key][-1] == row.id

    async def locks(self, where: LockFilter | None = None) -> list[LockRow]:
        where = where or LockFilter()
        found = [
            lock
            for key, lock in self.lock_rows.items()
            if where.tenant in (None, lock.tenant)
            and where.job in (None, lock.job)
            and where.name in (None, lock.name)
            and (where.after is None or key > where.after)
        ]
        return sorted(found, key=lambda k: (k.tenant, k.name))[: where.limit]

    async def workers(self) -> list[WorkerRow]:
        holds: dict[str | None, int] = {}
        for row in self.rows.values():
            if row.phase == "held":
                holds[row.worker] = holds.get(row.worker, 0) + 1
        return [replace(w, holds=holds.get(w.id, 0)) for w in sorted(self.worker_rows.values(), key=lambda w: w.id)]

    async def schedules(self) -> list[ScheduleRow]:
        return sorted(self.schedule_rows.values(), key=lambda s: (s.tenant, s.name))

    async def limits(self) -> dict[str, int]:
        return dict(self.limit_rows)

    async def held_amounts(self, names: Sequence[str]) -> dict[str, int]:
        return {name: amount for name, amount in self._held_amounts().items() if name in names}

    async def halting(self, worker: str) -> dict[str, str]:
        return {
            row.id: row.gate for row in self.rows.values() if row.phase == "held" and row.worker == worker and row.gate
        }

    async def ready_queues(self) -> list[str]:
        return sorted({row.queue for row in self.rows.values() if row.phase == "ready"})

    async def next_due(self) -> float | None:
        dues = [row.due for row in self.rows.values() if row.phase in ("timed", "held") and row.due is not None]
        dues += [s.next_due for s in self.schedule_rows.values() if s.enabled]
        return min(dues, default=None)

    def on_change(self, listener: Callable[[set[str]], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def keeper(self) -> MemoryKeeper:
        return MemoryKeeper(self)


class MemoryKeeper:
    """Beats straight into the dictionaries."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def beat(self, worker: str, ttl: float) -> bool:
        return self._store._beat(Beat(worker, ttl))

    def leave(self, worker: str, blamed: str | None) -> None:
        self._store._leave(Leave(worker, blamed))

    def close(self) -> None:
        pass


def _lost(job_id: str, epoch: int) -> LostClaim:
    return LostClaim(f"job {job_id} is no longer held by claim {epoch}")


def _copied(row: JobRow) -> JobRow:
    """As `copy.copy`, which is five times slower; simulations spend their time here."""
    return JobRow(*_all_of(row))
