"""Remote calls and budgets in the memory store: the oracle's half of `store/sql/calls.py`, written apart from it."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.engine import budget, lifecycle
from penstock.engine.call import (
    ENDED,
    INHERITED,
    LIVE,
    RESTING,
    CallRow,
    Hold,
    decided_before,
    held_also,
    held_by,
    intended,
    learn,
    may_send,
)
from penstock.engine.clock import to_the_tick
from penstock.engine.errors import Halted, NotFound
from penstock.engine.model import FINAL, Event, JobRow
from penstock.store.memory_records import MemoryRecords
from penstock.store.protocol import (
    ANY_QUEUE,
    Budget,
    CallFilter,
    Cost,
    CostFilter,
    Intend,
    Intended,
    Learn,
    SetBudget,
    TakeCalls,
)

_TOLD = frozenset({"submitted", "overdue", "quarantined", *ENDED})


class MemoryCalls(MemoryRecords):
    """Mixed into the memory store."""

    rows: dict[str, JobRow]
    runs: dict[tuple[str, str, str], list[str]]
    events: dict[str, list[Event]]
    limit_rows: dict[str, int]
    call_rows: dict[str, CallRow]
    budget_rows: dict[str, Budget]
    member_rows: dict[str, dict[str, str | None]]
    _hints: set[str]
    _replay: bool

    if TYPE_CHECKING:

        def _now(self) -> float: ...

        def _held(self, job_id: str, epoch: int) -> JobRow: ...

        def _announce(self, row: JobRow) -> None: ...

    def _intend(self, op: Intend) -> Intended:
        job = self._held(op.job, op.epoch)
        last = self._last_call(job.id, op.call.key)
        if last is not None and self._replay and _is_intent(last, op):
            return Intended(copy.copy(last), True)
        if not may_send(last, op.call):
            if last is None:
                raise NotFound(f"job {job.id} has no call {op.call.key!r} yet")
            return Intended(copy.copy(last), False)
        if job.gate:
            raise Halted(f"job {job.id} was asked to {job.gate}: nothing new is sent")
        scopes = budget.scopes_of(job.tenant, job.id, job.batch)
        budgets = [(b.scope, b.most, b.spent) for b in self.budget_rows.values() if b.scope in scopes]
        if last is not None and last.state == "intent":
            holds = tuple(Hold(name, amount) for name, amount in held_by(last))
        else:
            holds = budget.admit(op.call, sorted(budgets), self._held_amounts(), self.limit_rows)
        row = intended(
            replace(op.call, holds=holds),
            last,
            job=job.id,
            tenant=job.tenant,
            workflow=job.workflow,
            epoch=op.epoch,
            now=self._now(),
        )
        self.call_rows[row.id] = row
        return Intended(copy.copy(row), True)

    def _last_call(self, job: str, key: str) -> CallRow | None:
        found = [row for row in self.call_rows.values() if row.job == job and row.key == key]
        return max(found, key=lambda row: row.attempt, default=None)

    def _held_amounts(self) -> dict[str, int]:
        amounts: dict[str, int] = {}
        for row in self.call_rows.values():
            if row.state in LIVE:
                for name, amount in held_by(row):
                    amounts[name] = amounts.get(name, 0) + amount
        return amounts

    def _learn(self, op: Learn) -> CallRow:
        row = self.call_rows.get(op.fact.call)
        if row is None:
            raise NotFound(f"there is no call {op.fact.call}")
        if self._replay and decided_before(row, op.fact):
            return copy.copy(row)
        was, cost = row.state, row.cost
        newest = self._last_call(row.job, row.key)
        job = self.rows.get(row.job)
        superseded = job is None or job.status in FINAL or (newest is not None and newest.attempt > row.attempt)
        changed = copy.copy(row)
        if not learn(changed, op.fact, now=self._now(), superseded=superseded):
            return copy.copy(row)
        row = self.call_rows[row.id] = changed
        if was in LIVE and row.state not in LIVE:
            self._hints.add(ANY_QUEUE)
        for name, _ in held_by(row):
            scope = budget.scope_of(name)
            if scope in self.budget_rows:
                known = self.budget_rows[scope]
                self.budget_rows[scope] = replace(known, spent=known.spent + row.cost - cost)
        job = self.rows.get(row.job)
        if job is not None and row.state != was:
            self._tell_job(job, row, was)
        return copy.copy(row)

    def _tell_job(self, job: JobRow, row: CallRow, was: str) -> None:
        if row.state in _TOLD and (was, row.state) != ("intent", "collected"):
            note = f"{row.remote} {row.key}#{row.attempt}"
            note += f" {row.provider_id}" if row.provider_id else ""
            note += f": {row.error}" if row.error else ""
            self._tell(
                job.id,
                Event(
                    job.id,
                    self._now(),
                    f"call {row.state}",
                    job.step,
                    job.status,
                    worker=row.decided_by,
                    note=note[:2000],
                ),
            )
        if row.state in RESTING:
            before = (job.phase, job.due)
            lifecycle.wake(job)
            if (job.phase, job.due) != before:
                self._announce(job)

    def _take_calls(self, op: TakeCalls) -> list[CallRow]:
        now = self._now()
        due = [
            row for row in self.call_rows.values() if row.due is not None and row.due <= now and row.place in op.places
        ]
        taken = sorted(due, key=lambda row: (row.due or 0.0, row.id))[: op.room]
        for row in taken:
            row.due = to_the_tick(now + op.lease)
        return [copy.copy(row) for row in taken]

    def _orphan_calls(self) -> None:
        for row in self.call_rows.values():
            job = self.rows.get(row.job)
            if job is None or row.unwanted:
                continue
            run_again = job.status == "failed" and self.runs[job.tenant, job.workflow, job.key][-1] != job.id
            if job.status not in ("canceling", "canceled", "completed") and not run_again:
                continue
            if job.status == "canceling" and job.entered is not None and job.entered <= row.created:
                continue
            if row.state in ("intent", "submitted", "running", "overdue"):
                row.unwanted, row.due = 1, self._now()

    def _inherit_calls(self, new: str, old: str) -> None:
        for row in self.call_rows.values():
            if row.job == old and row.state in INHERITED:
                row.job = new
        if f"job:{old}" in self.budget_rows:
            self.budget_rows[f"job:{new}"] = replace(self.budget_rows.pop(f"job:{old}"), scope=f"job:{new}")

    def _strip_calls(self, job: str) -> None:
        for row in self.call_rows.values():
            if row.job == job and row.state in ENDED:
                row.prepared, row.result = "{}", None

    def _set_budget(self, op: SetBudget) -> Budget | None:
        if op.most is None:
            self.budget_rows.pop(op.scope, None)
            return None
        name = budget.hold_name(op.scope)
        if op.scope in self.budget_rows:
            known = replace(self.budget_rows[op.scope], most=op.most)
        else:
            kind, _, which = op.scope.partition(":")
            inside = [row for row in self.call_rows.values() if self._is_in(row, kind, which)]
            known = Budget(op.scope, op.most, 0 if kind == "tenant" else sum(row.cost for row in inside))
            for row in inside:
                if kind != "tenant" or row.state in LIVE:
                    row.holds = held_also(row.job, row.holds, name, row.estimate) or row.holds
        self.budget_rows[op.scope] = known
        self._hints.add(ANY_QUEUE)
        return replace(known, reserved=self._held_amounts().get(name, 0))

    def _is_in(self, row: CallRow, kind: str, which: str) -> bool:
        if kind == "batch":
            return row.job in self.member_rows.get(which, {})
        return which == (row.tenant if kind == "tenant" else row.job)

    async def call(self, call_id: str) -> CallRow | None:
        return copy.copy(self.call_rows.get(call_id))

    async def last_call(self, job_id: str, key: str) -> CallRow | None:
        return copy.copy(self._last_call(job_id, key))

    async def calls(self, where: CallFilter) -> list[CallRow]:
        found = [
            row
            for row in self.call_rows.values()
            if where.tenant in (None, row.tenant)
            and where.job in (None, row.job)
            and where.key in (None, row.key)
            and where.remote in (None, row.remote)
            and (not where.state or row.state in where.state)
            and (where.before is None or (row.created, row.id) < where.before)
        ]
        newest_first = sorted(found, key=lambda row: (row.created, row.id), reverse=True)
        return [copy.copy(row) for row in newest_first[: where.limit]]

    async def next_call_due(self, places: tuple[str, ...]) -> float | None:
        dues = [row.due for row in self.call_rows.values() if row.due is not None and row.place in places]
        return min(dues, default=None)

    async def count_calls(self) -> dict[tuple[str, str], int]:
        return dict(Counter((row.remote, row.state) for row in self.call_rows.values() if row.state in LIVE))

    async def costs(self, where: CostFilter) -> list[Cost]:
        groups: dict[tuple[str, ...], list[CallRow]] = {}
        for row in self.call_rows.values():
            if (
                where.tenant in (None, row.tenant)
                and where.workflow in (None, row.workflow)
                and where.job in (None, row.job)
                and (where.batch is None or row.job in self.member_rows.get(where.batch, {}))
                and (where.since is None or row.created >= where.since)
                and (where.until is None or row.created < where.until)
            ):
                groups.setdefault(tuple(_group_of(row, name) for name in where.by), []).append(row)
        return [_added_up(group, rows) for group, rows in sorted(groups.items())]

    async def budgets(self, *, scope: str | None = None) -> list[Budget]:
        held = self._held_amounts()
        return [
            replace(known, reserved=held.get(budget.hold_name(whose), 0))
            for whose, known in sorted(self.budget_rows.items())
            if scope in (None, whose)
        ]


def _is_intent(last: CallRow, op: Intend) -> bool:
    return (last.attempt, last.state, last.epoch) == (op.call.attempt, "intent", op.epoch)


def _group_of(row: CallRow, name: str) -> str:
    if name == "day":
        return datetime.fromtimestamp(row.created, UTC).strftime("%Y-%m-%d")
    return str(getattr(row, name))


def _added_up(group: tuple[str, ...], rows: list[CallRow]) -> Cost:
    ended = [row for row in rows if row.state not in LIVE]
    return Cost(
        group,
        len(rows),
        len(rows) - len(ended),
        sum(row.input for row in ended),
        sum(row.output for row in ended),
        sum(row.cached for row in rows),
        sum(row.cost for row in rows),
        sum(row.estimate for row in rows if row.state in LIVE),
    )
