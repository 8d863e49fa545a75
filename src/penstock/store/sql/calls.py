"""Remote calls inside a transaction: what may be sent, what is learned, and the money both take.

Groups of several processes must never wait for each other in a circle, so a group takes its locks in one order: all
of its jobs, the budgets that it settles, its calls, and last the names of what its new calls will hold. Nobody sets a
budget meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any

from penstock.engine import budget, lifecycle
from penstock.engine.call import (
    CALL_CHANGING,
    CALL_COLUMNS,
    LIVE,
    RESTING,
    CallRow,
    Hold,
    decided_before,
    held_also,
    held_by,
    held_for,
    intended,
    learn,
    may_send,
)
from penstock.engine.clock import to_the_tick
from penstock.engine.errors import Halted, NotFound
from penstock.engine.model import FINAL, Event, JobRow
from penstock.store.protocol import (
    ANY_QUEUE,
    Budget,
    ClaimJob,
    Commit,
    Control,
    Intend,
    Intended,
    Learn,
    Note,
    SetBudget,
    TakeCalls,
    TakeLock,
)
from penstock.store.sql.claims import Claims
from penstock.store.sql.requests import Ask, Contended, Steps, Tell

_changing = attrgetter(*CALL_CHANGING, "id")
_whole = attrgetter(*CALL_COLUMNS)


class Calls(Claims):
    """The part of a transaction that deals with work outside."""

    def _held(self, job_id: str, epoch: int) -> Steps[JobRow]:
        raise NotImplementedError

    def _foresee(self) -> Steps[None]:
        """Lock the jobs that this group moves, and those that what it learns belongs to; then the budgets it
        settles."""
        about_calls = any(type(op) in (Intend, Learn) or (type(op) is Commit and op.move.until) for op in self.ops)
        if self.exact or not about_calls:
            return
        jobs = {op.move.job for op in self.ops if isinstance(op, Commit)}
        jobs |= {op.job for op in self.ops if isinstance(op, TakeLock | Note | Control | Intend | ClaimJob)}
        facts = [op.fact for op in self.ops if isinstance(op, Learn)]
        settled = {fact.call for fact in facts if fact.cost is not None or fact.kind == "lost"}
        scopes: set[str] = set()
        found = (yield Ask("holds_of_calls", (sorted({fact.call for fact in facts}),))) if facts else []
        for call, job, holds in found:
            jobs.add(job)
            if call in settled:
                scopes.update(_scopes(held_for(job, holds)))
        yield Ask("hold_jobs", (sorted(jobs),))
        if scopes:
            yield Ask("lock_budgets", (sorted(scopes),))

    def _hold_names(self) -> Steps[None]:
        """Lock what the group's new calls will hold, before anything of it is counted: limits, and budgets that
        there are."""
        new = [op for op in self.ops if isinstance(op, Intend)]
        if self.exact or not new:
            return
        names = {hold.name for op in new for hold in op.call.holds}
        scopes: set[str] = set()
        for job, tenant, batch in (yield Ask("hold_jobs", (sorted({op.job for op in new}),))):
            scopes.update(budget.scopes_of(tenant, job, batch))
        budgets = yield Ask("budgets", (sorted(scopes),))
        names.update(budget.hold_name(scope) for scope, _, _ in budgets)
        if names:
            yield Ask("lock_limits", (sorted(names),))

    def _intend(self, op: Intend) -> Steps[Intended]:
        job = yield from self._held(op.job, op.epoch)
        found = yield Ask("last_call", (job.id, op.call.key))
        last = CallRow(*found[0]) if found else None
        unheard = last is not None and last.state == "intent"
        if last is not None and self.replay and unheard and (last.attempt, last.epoch) == (op.call.attempt, op.epoch):
            return Intended(last, True)
        if not may_send(last, op.call):
            if last is None:
                raise NotFound(f"job {job.id} has no call {op.call.key!r} yet")
            return Intended(last, False)
        if job.gate:
            raise Halted(f"job {job.id} was asked to {job.gate}: nothing new is sent")
        if last is not None and unheard:
            # It is sent again, and holds what it needs already.
            holds = tuple(Hold(name, amount) for name, amount in held_by(last))
        else:
            scopes = budget.scopes_of(job.tenant, job.id, job.batch)
            names = {hold.name for hold in op.call.holds} | {budget.hold_name(scope) for scope in scopes}
            # In this order: of a call that ends between the two, both its hold and its cost count, never neither.
            held = dict((yield Ask("held_amounts", (sorted(names),))))
            budgets = yield Ask("budgets", (scopes,))
            holds = budget.admit(op.call, budgets, held, self.limits)
        row = intended(
            replace(op.call, holds=holds),
            last,
            job=job.id,
            tenant=job.tenant,
            workflow=job.workflow,
            epoch=op.epoch,
            now=self.now,
        )
        if row is last:
            yield Tell("put_calls", [_changing(row)])
        elif (yield Tell("insert_calls", [_whole(row)])) != 1:
            raise Contended
        if not unheard:
            yield from self._hold(row)
        return Intended(row, True)

    def _hold(self, row: CallRow) -> Steps[None]:
        held = held_by(row)
        if held:
            yield Tell("insert_holds", [(name, row.id, amount) for name, amount in held])

    def _learn(self, op: Learn) -> Steps[CallRow]:
        fact = op.fact
        found = yield Ask("job_of_call", (fact.call,))
        if not found:
            raise NotFound(f"there is no call {fact.call}")
        jobs = yield from self._lock_jobs([found[0][0]])
        found = yield Ask("lock_call", (fact.call,))
        if not found:
            raise Contended
        row = CallRow(*found[0])
        if row.job not in jobs:
            jobs = yield from self._lock_jobs([row.job])
        if self.replay and decided_before(row, fact):
            return row
        was_live, was_state, cost = row.state in LIVE, row.state, row.cost
        newer = yield Ask("superseded", (row.job, row.key, row.attempt))
        over = row.job not in jobs or jobs[row.job].status in FINAL
        if not learn(row, fact, now=self.now, superseded=over or bool(newer)):
            return row
        yield Tell("put_calls", [_changing(row)])
        if was_live and row.state not in LIVE:
            yield Tell("free_holds", [(row.id,)])
            self.hints.add(ANY_QUEUE)
        elif not was_live and row.state in LIVE:
            yield from self._hold(row)
        if row.cost != cost:
            scopes = _scopes(held_by(row))
            if scopes:
                yield Tell("spend", [(row.cost - cost, scope) for scope in scopes])
        job = jobs.get(row.job)
        if job is not None and row.state != was_state:
            yield from self._tell_job(job, row, was_state)
        return row

    def _tell_job(self, job: JobRow, row: CallRow, was: str) -> Steps[None]:
        """The job's history shows what became of its call, and a job that waits for it goes on."""
        if told := told_of(row, was, job, self.now):
            self.events.append(told)
        if row.state not in RESTING:
            yield from self._settle([])
            return
        before = (job.phase, job.due)
        lifecycle.wake(job)
        yield from self._settle([job] if (job.phase, job.due) != before else [])

    def _take_calls(self, op: TakeCalls) -> Steps[list[CallRow]]:
        found = yield Ask("take_calls", (self.now, list(op.places), op.room))
        rows = [CallRow(*values) for values in found]
        for row in rows:
            row.due = to_the_tick(self.now + op.lease)
        if rows:
            yield Tell("lease_calls", [(row.due, row.id) for row in rows])
        return rows

    def _orphan_calls(self) -> Steps[None]:
        """Calls that somebody is learning of at this moment are left for the next time."""
        found = yield Ask("orphaned_calls")
        if found:
            yield Tell("orphan_calls", [(1, self.now, call) for (call,) in found])

    def _set_budget(self, op: SetBudget) -> Steps[Budget | None]:
        """A budget counts what its run has spent already, and its calls know of it; a tenant's begins to count when it
        is set."""
        if op.most is None:
            yield Tell("drop_budget", [(op.scope,)])
            return None
        name = budget.hold_name(op.scope)
        known = yield Ask("budgets", ([op.scope],))
        if known:
            spent = known[0][2]
        else:
            kind, _, which = op.scope.partition(":")
            found = yield Ask(f"calls_of_{kind}", (which,))
            spent = 0 if kind == "tenant" else sum(cost for *_, cost in found)
            added = [
                (call, state, estimate, more)
                for call, job, holds, state, estimate, _ in found
                if (more := held_also(job, holds, name, estimate)) is not None
            ]
            if added:
                yield Tell("put_holds", [(more, call) for call, _, _, more in added])
            live = [(name, call, estimate) for call, state, estimate, _ in added if state in LIVE]
            if live:
                yield Tell("insert_holds", live)
        yield Tell("put_budget", [(op.scope, op.most, spent)])
        self.hints.add(ANY_QUEUE)
        held = dict((yield Ask("held_amounts", ([name],))))
        return Budget(op.scope, op.most, spent, held.get(name, 0))


def _scopes(held: list[tuple[str, int]]) -> list[str]:
    return sorted(scope for name, _ in held if (scope := budget.scope_of(name)) is not None)


def told_of(row: CallRow, was: str, job: JobRow, now: float) -> Event | None:
    """A line of the job's history. A call that was answered in the same breath leaves none."""
    if row.state in ("unsent", "running", "succeeded") or (was, row.state) == ("intent", "collected"):
        return None
    note: Any = f"{row.remote} {row.key}#{row.attempt}"
    if row.provider_id:
        note += f" {row.provider_id}"
    if row.error:
        note += f": {row.error}"
    return Event(job.id, now, f"call {row.state}", job.step, job.status, worker=row.decided_by, note=note[:2000])
