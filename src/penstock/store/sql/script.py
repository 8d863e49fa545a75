"""One transaction: a group of operations, carried out together on any SQL database.

The script yields requests (`requests.py`) and is sent the answers, so the same lines run on SQLite, where a statement
is a function call, and on PostgreSQL, where it is a message. Ticks' commits and submits are done set by set,
everything else one by one. Refusals are raised before the first row of an operation is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine import lifecycle
from penstock.engine.errors import Conflict, InvalidRequest, NotFound, PenstockError
from penstock.engine.lane import tenants_limited
from penstock.engine.model import Event, JobRow, NewJob
from penstock.store import encoding
from penstock.store.protocol import (
    ANY_QUEUE,
    AddMeters,
    Announce,
    Applied,
    Beat,
    Claim,
    ClaimJob,
    Commit,
    Control,
    DropSession,
    Fire,
    HandBack,
    Intend,
    Learn,
    Leave,
    Note,
    Op,
    OpenBatch,
    PutSession,
    PutToken,
    Record,
    RemoveSchedule,
    RetryBatch,
    RevokeToken,
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
    Write,
)
from penstock.store.sql.commits import lost
from penstock.store.sql.records import Records
from penstock.store.sql.requests import Ask, Contended, Guarded, Opening, Steps, Tell


class Script(Records):
    """A group of operations on its way; the parts it is made of are its bases."""

    def run(self) -> Steps[Applied]:
        self.now, self.limits = yield Opening()
        self.by_tenant = tenants_limited(self.limits)
        answers: list[Any] = [None] * len(self.ops)
        recalled: dict[int, int] = (yield from self._recall(answers)) if self.asked else {}
        commits: list[tuple[int, Commit]] = []
        submits: list[tuple[int, tuple[NewJob, ...]]] = []
        one_by_one: list[tuple[int, Op]] = []
        for place, op in enumerate(self.ops):
            if place in recalled:
                continue
            if type(op) is Commit:
                commits.append((place, op))
            elif type(op) is Submit:
                submits.append((place, op.jobs))
            else:
                one_by_one.append((place, op))
        yield from self._foresee()
        if commits:
            others = yield from self._plain_commits(commits, answers)
            if others:
                yield from self._commits(others, answers)
        if submits:
            yield from self._submits(submits, answers)
        for kinds in (_OTHERS, _LOOKING, _SENDING, _BY_ID, _BY_PRIORITY):
            if kinds is _SENDING:
                yield from self._hold_names()
            for place, op in one_by_one:
                handler = kinds.get(type(op))
                if handler is None:
                    continue
                try:
                    answers[place] = yield from handler(self, op)
                except PenstockError as refused:
                    answers[place] = refused
        last = [op for _, op in one_by_one if type(op) in _LAST]
        if last:
            yield from self._write_last(last)
        if self.asked:
            yield from self._remember(answers, recalled)
        due_in = None if self.first_due is None else self.first_due - self.now
        return Applied(answers, self.hints, due_in, self.crashed)

    def _take_lock(self, op: TakeLock) -> Steps[bool]:
        row = yield from self._held(op.job, op.epoch)
        yield Tell("take_lock", [(row.tenant, op.name, row.id, self.now)])
        holder = yield Ask("lock_holder", (row.tenant, op.name))
        if not holder:
            raise Contended
        return bool(holder[0][0] == row.id)

    def _note(self, op: Note) -> Steps[str]:
        row = yield from self._held(op.job, op.epoch)
        yield Tell("note_progress", [(op.progress, row.id)])
        return row.gate

    def _held(self, job_id: str, epoch: int) -> Steps[JobRow]:
        rows = yield from self._lock_jobs([job_id])
        row = rows.get(job_id)
        if row is None or row.phase != "held" or row.epoch != epoch:
            raise lost(job_id, epoch)
        return row

    def _control(self, op: Control) -> Steps[JobRow]:
        rows = yield from self._lock_jobs([op.job])
        row = rows.get(op.job)
        if row is None or (op.tenant is not None and row.tenant != op.tenant):
            raise NotFound(f"there is no job {op.job}")
        if op.action == "retry" and row.status != "paused":
            return (yield from self._retry(op, row))
        lifecycle.control(row, op.action, reason=op.reason, now=self.now, by_tenant=self.by_tenant)
        self.events.append(Event(row.id, self.now, op.action, row.step, row.status, worker=op.actor, note=op.reason))
        yield from self._settle([row])
        if row.phase == "timed":
            self.hints.add(row.queue)
        return row

    def _retry(self, op: Control, row: JobRow) -> Steps[JobRow]:
        new = lifecycle.second_run(row, new_id=op.new_id or "")
        last = (yield from self._last_runs([(row.tenant, row.workflow, row.key)]))[row.tenant, row.workflow, row.key]
        if self.replay and last.id == op.new_id:
            return last
        if last.id != row.id:
            raise Conflict(f"job {row.id} has been run again already")
        fresh = yield from self._create([new], [row.run + 1])
        yield from self._inherit_calls([(fresh[0].id, row.id)])
        self.events.append(Event(fresh[0].id, self.now, "retry", fresh[0].step, fresh[0].status, worker=op.actor))
        yield from self._settle([])
        return fresh[0]

    def _set_limits(self, op: SetLimits) -> Steps[None]:
        """Jobs that wait already are put into the lanes that the new limits ask for."""
        yield Tell("drop_limits", [()])
        if op.limits:
            yield Tell("insert_limits", sorted(op.limits.items()))
        self.limits = dict(op.limits)
        if tenants_limited(op.limits) != self.by_tenant:
            self.by_tenant = not self.by_tenant
            yield Tell("relane", [(self.by_tenant,)])
        self.hints.add(ANY_QUEUE)

    def _set_schedule(self, op: SetSchedule) -> Steps[None]:
        yield Tell(
            "put_schedule", [(op.name, op.tenant, op.cron, op.timezone, op.next_due, encoding.dump(op.job), op.enabled)]
        )

    def _remove_schedule(self, op: RemoveSchedule) -> Steps[bool]:
        return bool((yield Tell("drop_schedule", [(op.tenant, op.name)])))

    def _fire(self, op: Fire) -> Steps[bool]:
        if not (yield Ask("schedule_due", (op.tenant, op.name, op.due))):
            return False
        told: list[Any] = [None]
        yield from self._submits([(0, (op.job,))], told)
        if isinstance(told[0], PenstockError):
            raise told[0]
        yield Tell("fire_schedule", [(op.next_due, op.tenant, op.name, op.due)])
        return True

    def _beat(self, op: Beat) -> Steps[bool]:
        if op.first:
            yield Tell("enter_worker", [(op.worker, self.now, self.now, self.now + op.ttl, op.info)])
            return True
        return bool((yield Tell("beat", [(self.now, self.now + op.ttl, op.worker)])))

    def _leave(self, op: Leave) -> Steps[int]:
        yield Ask("lock_worker", (op.worker,))
        count = yield from self._give_back(op.worker, frozenset(), op.blamed, died=op.died)
        yield Tell("drop_worker", [(op.worker,)])
        return count

    def _hand_back(self, op: HandBack) -> Steps[int]:
        return (yield from self._give_back(op.worker, op.known, None))

    def _give_back(
        self, worker: str, known: frozenset[tuple[str, int]], blamed: str | None, *, died: bool = False
    ) -> Steps[int]:
        held = [JobRow(*values) for values in (yield Ask("held_by", ([worker],)))]
        rows = [row for row in held if (row.id, row.epoch) not in known]
        for row in rows:
            crashed = died or row.id == blamed
            kind, step, attempt = "crash" if crashed else "hand back", row.step, row.attempt
            if crashed:
                lifecycle.crash(row, now=self.now, by_tenant=self.by_tenant)
                self.crashed.append((row.workflow, row.status))
            else:
                lifecycle.hand_back(row, now=self.now, by_tenant=self.by_tenant)
            self.events.append(
                Event(row.id, self.now, kind, step, row.status, row.epoch, 0, attempt, None, worker, row.error)
            )
        yield from self._settle(rows)
        return len(rows)

    def _write(self, op: Write) -> Steps[list[Submitted]]:
        if any(job.key is not None for job in op.jobs):
            raise InvalidRequest("jobs that start with rows of a pipeline's own have no key")
        yield from self._plan(op.jobs, {})
        error: BaseException | None = yield Guarded(op.statements)
        if error is not None:
            raise error
        if op.jobs:
            told: list[Any] = [None]
            yield from self._submits([(0, op.jobs)], told)
            assert not isinstance(told[0], BaseException), told[0]
            return list(told[0])
        return []

    def _tidy(self, op: Tidy) -> Steps[Tidied]:
        given_up, woken = yield from self._wake_and_give_up()
        yield from self._orphan_calls()
        dropped = 0
        for keep, statuses in ((op.keep_completed, ["completed", "canceled"]), (op.keep_failed, ["failed"])):
            if keep is None:
                continue
            old = yield Ask("outlived", (statuses, self.now - keep, op.most - dropped))
            if not old:
                continue
            dropped += len(old)
            yield Tell("drop_history", [(job,) for job, _ in old])
            yield Tell("drop_logs", [(job,) for job, _ in old])
            yield Tell("drop_members", [(job,) for job, _ in old])
            yield Tell("strip_calls", [(job,) for job, _ in old])
            stripped = [(job,) for job, tombstone in old if tombstone]
            gone = [(job,) for job, tombstone in old if not tombstone]
            if stripped:
                yield Tell("strip_jobs", stripped)
            if gone:
                yield Tell("drop_jobs", gone)
        if op.keep_completed is not None:
            yield Tell("drop_batches", [(self.now - op.keep_completed,)])
        yield from self._tidy_records(op.keep_audit)
        return Tidied(given_up, woken, dropped)


Handler = Callable[[Script, Any], Steps[Any]]

_OTHERS: dict[type, Handler] = {
    TakeLock: Script._take_lock,
    Note: Script._note,
    Control: Script._control,
    OpenBatch: Script._open_batch,
    Seal: Script._seal,
    RetryBatch: Script._retry_batch,
    SetLimits: Script._set_limits,
    SetSchedule: Script._set_schedule,
    RemoveSchedule: Script._remove_schedule,
    Fire: Script._fire,
    Beat: Script._beat,
    Leave: Script._leave,
    HandBack: Script._hand_back,
    Tidy: Script._tidy,
    Write: Script._write,
    Learn: Script._learn,
    SetBudget: Script._set_budget,
    Announce: Script._announce_line,
    PutToken: Script._put_token,
    RevokeToken: Script._revoke_token,
    PutSession: Script._put_session,
    DropSession: Script._drop_session,
}
_LOOKING: dict[type, Handler] = {TakeCalls: Script._take_calls}
_SENDING: dict[type, Handler] = {Intend: Script._intend}
_BY_ID: dict[type, Handler] = {ClaimJob: Script.claim_job}
_BY_PRIORITY: dict[type, Handler] = {Claim: Script.claim}
_LAST = frozenset({Record, TouchToken, AddMeters, SetCursor})
