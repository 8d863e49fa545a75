"""Batches inside a transaction: members are rows, each end counts once, and the last one starts the follow-up job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from typing import Any

from penstock.engine import lifecycle
from penstock.engine.errors import Conflict, NotFound
from penstock.engine.model import FINAL, JobRow, NewJob
from penstock.store import encoding
from penstock.store.protocol import (
    BatchRow,
    OpenBatch,
    RetryBatch,
    Seal,
)
from penstock.store.sql.requests import Ask, AskMany, Contended, Steps, Tell
from penstock.store.sql.settling import Settling, born_values


class Batches(Settling):
    """The part of a transaction that counts."""

    def _join(self, joining: list[tuple[str, JobRow]]) -> Steps[None]:
        """Members are rows, so joining twice counts once; a job that is final already counts at once."""
        batches = yield from self._lock_batches({batch for batch, _ in joining})
        known = yield Ask("memberships", ([row.id for _, row in joining],))
        seen = {(batch, job) for batch, job, _ in known}
        added, first = [], []
        for batch_id, row in joining:
            if (batch_id, row.id) in seen:
                continue
            seen.add((batch_id, row.id))
            batch = batches[batch_id]
            batch.members += 1
            ended = row.status if row.status in FINAL else None
            if ended:
                _count(batch, ended)
            added.append((batch_id, row.id, ended))
            if row.batch is None:
                row.batch = batch_id
                first.append((batch_id, row.id))
                if row.id in self.committing:
                    self.committing[row.id].batch = batch_id
        if added:
            yield Tell("insert_members", added)
        if first:
            yield Tell("name_batch", first)
        yield from self._put_batches(list(batches.values()))

    def _end_members(self, final: dict[str, JobRow]) -> Steps[None]:
        memberships = yield Ask("memberships", (list(final),))
        open_ones = [(batch, job) for batch, job, ended in memberships if ended is None]
        batches = yield from self._lock_batches({batch for batch, _ in open_ones})
        yield Tell("end_members", [(final[job].status, batch, job) for batch, job in open_ones])
        for batch_id, job in open_ones:
            _count(batches[batch_id], final[job].status)
        yield from self._put_batches(list(batches.values()))

    def _put_batches(self, batches: list[BatchRow]) -> Steps[None]:
        """Write changed batches; one that is sealed and whose members have all ended starts its follow-up job, once."""
        follow_ups = []
        budgets = []
        for batch in sorted(batches, key=lambda b: b.id):
            if batch.sealed is not None and batch.finished is None and batch.ended >= batch.members:
                batch.finished = self.now
                if batch.then is not None:
                    new = encoding.load(batch.then)
                    row = lifecycle.born(new, run=1, now=self.now, by_tenant=self.by_tenant, batch_limited=False)
                    batch.follow_up = row.id
                    follow_ups.append(row)
                    if new.budget is not None:
                        budgets.append((f"job:{row.id}", new.budget, 0))
                    self._announce(row)
        if batches:
            yield Tell("put_batches", [_batch_values(batch) for batch in batches])
        if follow_ups and (yield Tell("insert_jobs", [born_values(row) for row in follow_ups])) != len(follow_ups):
            raise Contended
        if budgets:
            yield Tell("put_budget", budgets)

    def _lock_batches(self, ids: Iterable[str]) -> Steps[dict[str, BatchRow]]:
        found = yield Ask("lock_batches", (sorted(ids),))
        return {values[0]: BatchRow(*values) for values in found}

    def _batch(self, batch_id: str) -> Steps[BatchRow]:
        batches = yield from self._lock_batches([batch_id])
        if batch_id not in batches:
            raise NotFound(f"there is no batch {batch_id}")
        return batches[batch_id]

    def _open_batch(self, op: OpenBatch) -> Steps[BatchRow]:
        then = None if op.then is None else encoding.dump(lifecycle.follow_up(op.then, batch=op.id))
        known = yield Ask("last_batch", (op.tenant, op.key))
        if known:
            return BatchRow(*known[0])
        batch = BatchRow(op.id, op.tenant, op.key, 1, op.limit, then, self.now)
        if (yield Tell("insert_batches", [astuple(batch)])) != 1:
            raise Contended
        if op.budget is not None:
            yield Tell("put_budget", [(f"batch:{batch.id}", op.budget, 0)])
        return batch

    def _seal(self, op: Seal) -> Steps[BatchRow]:
        batch = yield from self._batch(op.batch)
        if batch.sealed is None:
            batch.sealed = self.now
            yield from self._put_batches([batch])
        return batch

    def _retry_batch(self, op: RetryBatch) -> Steps[BatchRow]:
        old = yield from self._batch(op.batch)
        newest = BatchRow(*(yield Ask("last_batch", (old.tenant, old.key)))[0])
        if self.replay and newest.id == op.new_id:
            return newest
        if old.finished is None:
            raise Conflict(f"batch {old.id} has not ended: {old.ended} of {old.members} members have")
        if newest.generation > old.generation:
            raise Conflict(f"batch {old.id} has been retried already")
        if not old.failed:
            raise Conflict(f"batch {old.id} has no failed members to retry")
        then = None
        if old.then is not None:
            then = encoding.dump(replace(encoding.load(old.then), id=op.new_job(), fan_in=op.new_id))
        batch = BatchRow(op.new_id, old.tenant, old.key, old.generation + 1, old.limit, then, self.now)
        again, runs, joining, failed = [], [], [], []
        for row in (yield from self._newest_runs(old.id)):
            if row.status == "failed":
                again.append(replace(lifecycle.second_run(row, new_id=op.new_job()), batch=batch.id))
                runs.append(row.run + 1)
                failed.append(row.id)
            else:
                joining.append((batch.id, row))
        if (yield Tell("insert_batches", [astuple(batch)])) != 1:
            raise Contended
        fresh = yield from self._create(again, runs, limited=batch.limit is not None)
        yield from self._inherit_calls(list(zip((row.id for row in fresh), failed, strict=True)))
        yield from self._join(joining + [(batch.id, row) for row in fresh])
        return (yield from self._seal(Seal(batch.id)))

    def _newest_runs(self, batch_id: str) -> Steps[list[JobRow]]:
        """The last run of every key among a batch's members, locked: they may be about to join another batch."""
        members = [JobRow(*values) for values in (yield Ask("jobs_of_batch", (batch_id,)))]
        keys = list(dict.fromkeys((row.tenant, row.workflow, row.key) for row in members))
        last = yield from self._last_runs(keys)
        rows = yield from self._lock_jobs([row.id for row in last.values()])
        if len(rows) != len(keys):
            raise Contended
        return [rows[last[key].id] for key in keys]

    def _create(self, jobs: list[NewJob], runs: list[int], *, limited: bool = False) -> Steps[list[JobRow]]:
        rows = [
            lifecycle.born(new, run=run, now=self.now, by_tenant=self.by_tenant, batch_limited=limited)
            for new, run in zip(jobs, runs, strict=True)
        ]
        count = yield Tell("insert_jobs", [born_values(row) for row in rows])
        if count != len(rows):
            raise Contended
        for row in rows:
            self._announce(row)
        return rows

    def _last_runs(self, keys: Sequence[tuple[str, str, str]]) -> Steps[dict[tuple[str, str, str], JobRow]]:
        if not keys:
            return {}
        ids = {job for job in (yield AskMany("last_runs", keys)) if job is not None}
        if not ids:
            return {}
        rows = (JobRow(*values) for values in (yield Ask("jobs_by_id", (sorted(ids),))))
        return {(row.tenant, row.workflow, row.key): row for row in sorted(rows, key=lambda r: r.run)}


def _count(batch: BatchRow, status: str) -> None:
    setattr(batch, status, getattr(batch, status) + 1)


def _batch_values(batch: BatchRow) -> tuple[Any, ...]:
    return (
        batch.sealed,
        batch.finished,
        batch.members,
        batch.completed,
        batch.failed,
        batch.canceled,
        batch.follow_up,
        batch.id,
    )
