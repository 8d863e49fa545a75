"""The proof that the simulator finds bugs: plant one, and see how many seeds it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from penstock.engine import lifecycle
from penstock.engine.audit import AuditEntry
from penstock.engine.errors import LostClaim
from penstock.engine.model import FINAL, Event, JobRow
from penstock.engine.requests import Requests
from penstock.simulation import Violation
from penstock.simulation.many import run_seed
from penstock.store.memory import MemoryStore
from penstock.store.protocol import Askable, Asked, Commit, Once

Patch = pytest.MonkeyPatch


def drop_the_fencing_check(patch: Patch) -> None:
    """Whoever held the job once may still move it."""

    def _held(self: MemoryStore, job_id: str, epoch: int) -> JobRow:
        if job_id not in self.rows:
            raise LostClaim(job_id)
        return self.rows[job_id]

    patch.setattr(MemoryStore, "_held", _held)


def commit_counters_apart(patch: Patch) -> None:
    """Counters are stored when the tick says them, whatever becomes of its transition."""
    commit = MemoryStore._DO[Commit]

    def _commit(self: MemoryStore, op: Commit) -> Any:
        row = self.rows.get(op.move.job)
        if row is not None and op.move.counters is not None:
            row.counters = op.move.counters
        return commit(self, op)

    patch.setitem(MemoryStore._DO, Commit, _commit)


def free_locks_early(patch: Patch) -> None:
    """A job that waits loses its locks, not only one that ends."""
    settle = MemoryStore._settle

    def _settle(self: MemoryStore, row: JobRow, event: Event) -> None:
        settle(self, row, event)
        if row.phase == "timed":
            for lock in [lock for lock, held in self.lock_rows.items() if held.job == row.id]:
                del self.lock_rows[lock]

    patch.setattr(MemoryStore, "_settle", _settle)


def count_a_duplicate(patch: Patch) -> None:
    """A last commit that comes a second time ends its member of a batch a second time."""
    commit = MemoryStore._DO[Commit]

    def _commit(self: MemoryStore, op: Commit) -> Any:
        row = self.rows.get(op.move.job)
        again = row is not None and any(
            (event.epoch, event.move) == (op.move.epoch, op.move.number) for event in self.events[row.id]
        )
        if row is not None and again and row.batch is not None and row.status in FINAL:
            batch = self.batch_rows[row.batch]
            setattr(batch, row.status, getattr(batch, row.status) + 1)
        return commit(self, op)

    patch.setitem(MemoryStore._DO, Commit, _commit)


def forget_to_wake(patch: Patch) -> None:
    """The sweep finds nothing to send hints for, so a hint that was lost stays lost."""

    async def ready_queues(self: MemoryStore) -> list[str]:
        return []

    patch.setattr(MemoryStore, "ready_queues", ready_queues)


def forget_a_timer(patch: Patch) -> None:
    """Of the waits that fall due, those of a second try are forgotten."""
    fall_due = lifecycle.fall_due

    def forgetful(row: JobRow) -> None:
        if row.attempt < 2:
            fall_due(row)

    patch.setattr(lifecycle, "fall_due", forgetful)


def remember_answers_apart(patch: Patch) -> None:
    """What was answered under a key is remembered when it is known, outside of the transaction that did it."""
    ask = Requests.ask

    async def _ask(self: Requests, op: Askable, audit: AuditEntry | None, once: Once | None = None) -> Any:
        told = self.__dict__.setdefault("planted", {})
        if once is None or once.key not in told:
            answer = await ask(self, op, audit)
            if once is None:
                return answer
            told[once.key] = answer
        return told[once.key]

    patch.setattr(Requests, "ask", _ask)


def audit_each_try(patch: Patch) -> None:
    """An entry of the audit log is written as often as its transaction is tried."""
    write_down = MemoryStore._write_down

    def _write_down(self: MemoryStore, e: AuditEntry) -> None:
        write_down(self, replace(e, id=f"{e.id} {len(self.audit_rows)}"))

    patch.setattr(MemoryStore, "_write_down", _write_down)


def audit_what_was_refused(patch: Patch) -> None:
    """The entry is written first, and stays when the request is refused."""
    asked = MemoryStore._DO[Asked]

    def _asked(self: MemoryStore, op: Asked) -> Any:
        if op.audit is not None:
            self._write_down(op.audit)
        return asked(self, op)

    patch.setitem(MemoryStore._DO, Asked, _asked)


@dataclass(frozen=True)
class Planted:
    bug: Callable[[Patch], None]
    most: int
    """Seeds within which it must be found: several times what it takes today."""


PLANTED = [
    Planted(drop_the_fencing_check, 500),
    Planted(commit_counters_apart, 300),
    Planted(free_locks_early, 300),
    Planted(count_a_duplicate, 1000),
    Planted(forget_to_wake, 500),
    Planted(forget_a_timer, 300),
    Planted(remember_answers_apart, 300),
    Planted(audit_each_try, 800),
    Planted(audit_what_was_refused, 300),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.bug.__name__)
def test_a_planted_bug_is_found(
    planted: Planted, monkeypatch: Patch, record_property: Callable[[str, object], None]
) -> None:
    found: Violation | None = None
    taken = 0
    with monkeypatch.context() as patch:
        planted.bug(patch)
        for seed in range(planted.most):
            try:
                run_seed(seed, "memory")
            except Violation as broken:
                found, taken = broken, seed + 1
                break

    assert found is not None, f"{planted.bug.__name__} was not found within {planted.most} seeds"
    record_property(
        "simulation", f"planted: {planted.bug.__name__} found after {taken} seeds, by the rule: {found.rule}"
    )
    assert f"--seed {found.seed}" in found.replay
    run_seed(found.seed, "memory")
