"""Submits inside a transaction: new jobs, and those that hold their keys already, set by set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.engine import lifecycle
from penstock.engine.errors import Conflict, NotFound, PenstockError
from penstock.engine.model import FINAL, JobRow, NewJob
from penstock.store.protocol import (
    BatchRow,
    Submitted,
)
from penstock.store.sql.batches import Batches
from penstock.store.sql.requests import Ask, Contended, Steps, Tell
from penstock.store.sql.settling import born_values


class Submits(Batches):
    """The part of a transaction that brings jobs into the world."""

    def _submits(self, submits: list[tuple[int, tuple[NewJob, ...]]], answers: list[Any]) -> Steps[None]:
        keyed = [new for _, jobs in submits for new in jobs if new.key is not None or self.replay]
        last = yield from self._last_runs([(new.tenant, new.workflow, new.key or new.id) for new in keyed])
        yield from self._hold_joining(keyed, last)
        born: list[JobRow] = []
        budgets: list[tuple[str, int, int]] = []
        joining: list[tuple[str, JobRow]] = []
        for place, jobs in submits:
            try:
                plan = yield from self._plan(jobs, last)
            except PenstockError as refused:
                answers[place] = refused
                continue
            told = []
            for new, batch in plan:
                key = (new.tenant, new.workflow, new.key or new.id)
                row = last.get(key)
                created = row is None or (new.again and row.status in FINAL and row.id != new.id)
                if row is None or created:
                    limited = batch is not None and batch.limit is not None
                    run = 1 if row is None else row.run + 1
                    row = lifecycle.born(new, run=run, now=self.now, by_tenant=self.by_tenant, batch_limited=limited)
                    born.append(row)
                    if new.budget is not None:
                        budgets.append((f"job:{row.id}", new.budget, 0))
                    if new.key is not None or self.replay:
                        last[key] = row
                    self._announce(row)
                if new.batch is not None:
                    joining.append((new.batch, row))
                told.append(Submitted(row.id, row.id == new.id, row.run, row.status))
            answers[place] = told
        if born:
            count = yield Tell("insert_jobs", [born_values(row) for row in born])
            if count != len(born):
                raise Contended
        if budgets:
            yield Tell("put_budget", budgets)
        if joining:
            yield from self._join(joining)

    def _hold_joining(self, jobs: list[NewJob], last: dict[tuple[str, str, str], JobRow]) -> Steps[None]:
        """A job that joins a batch must not end while it does: its end would count nowhere."""
        keys = {(new.tenant, new.workflow, new.key or new.id) for new in jobs if new.batch is not None} & last.keys()
        if not keys:
            return
        rows = yield from self._lock_jobs([last[key].id for key in keys])
        for key in keys:
            if last[key].id not in rows:
                raise Contended
            last[key] = rows[last[key].id]

    def _plan(
        self, jobs: Iterable[NewJob], last: dict[tuple[str, str, str], JobRow]
    ) -> Steps[list[tuple[NewJob, BatchRow | None]]]:
        """Refuses the whole submit before anything of it is written."""
        plan = []
        first: dict[tuple[str, str, str], NewJob] = {}
        for new in jobs:
            batch = yield from self._batch_of(new)
            key = (new.tenant, new.workflow, new.key or new.id)
            row = last.get(key)
            found = row is not None and not (new.again and row.status in FINAL and row.id != new.id)
            same_key = row if found and row is not None else first.setdefault(key, new)
            if same_key.id != new.id and same_key.digest != new.digest:
                raise Conflict(
                    f"key {key[2]!r} of workflow {new.workflow!r} is job {same_key.id},"
                    " which was submitted with another payload",
                    job=same_key.id,
                )
            if batch is not None and batch.sealed:
                member = (yield Ask("member", (batch.id, row.id))) if found and row is not None else []
                if not member:
                    raise sealed(batch)
            plan.append((new, batch))
        return plan

    def _batch_of(self, new: NewJob) -> Steps[BatchRow | None]:
        if new.batch is None:
            return None
        batch = yield from self._batch(new.batch)
        if batch.tenant != new.tenant:
            raise NotFound(f"there is no batch {new.batch}")
        return batch


def sealed(batch: BatchRow) -> Conflict:
    return Conflict(f"batch {batch.id} is sealed and takes no more members", batch=batch.id)
