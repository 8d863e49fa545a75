"""What every part of a transaction shares: its state, rows read under lock, and how changed rows are written back."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from penstock.engine.lane import Limits
from penstock.engine.model import CHANGING_COLUMNS, FINAL, JOB_COLUMNS, Event, JobRow
from penstock.store.protocol import (
    ANY_QUEUE,
    Asked,
    Op,
    unwrapped,
)
from penstock.store.sql.requests import Ask, Steps, Tell
from penstock.store.sql.statements import BORN_COLUMNS

_changing = attrgetter(*CHANGING_COLUMNS, "id")
all_of = attrgetter(*JOB_COLUMNS)
born_values = attrgetter(*BORN_COLUMNS)


class Settling:
    """The state of one transaction while it runs. `exact`: nobody else writes meanwhile, so nothing is passed over."""

    def __init__(self, ops: Sequence[Op], *, replay: bool, exact: bool) -> None:
        self.asked = {place: op for place, op in enumerate(ops) if type(op) is Asked}
        self.ops: Sequence[Op] = [unwrapped(op) for op in ops] if self.asked else ops
        self.replay = replay
        self.exact = exact
        self.now = 0.0
        self.limits: Limits = {}
        self.by_tenant = False
        self.hints: set[str] = set()
        self.crashed: list[tuple[str, str]] = []
        self.events: list[Event] = []
        self.lines: list[tuple[str, float, str, int, str, str]] = []
        self.first_due: float | None = None
        self.committing: dict[str, JobRow] = {}

    def _settle(self, rows: list[JobRow]) -> Steps[None]:
        """Write changed rows and their history; what became final lets go of its locks and counts in its batches."""
        if rows:
            yield Tell("put_jobs", [_changing(row) for row in rows])
        if self.events:
            yield Tell("insert_events", self.events)
            self.events = []
        if self.lines:
            yield Tell("insert_logs", self.lines)
            yield Tell("trim_logs", [(job,) for job in sorted({line[0] for line in self.lines})])
            self.lines = []
        final = []
        for row in rows:
            self._announce(row)
            if row.phase != "held" and (self.limits or row.batch):
                self.hints.add(ANY_QUEUE)
            if row.status in FINAL:
                final.append(row)
        if not final:
            return
        yield Tell("free_locks", [(row.id,) for row in final])
        grouped = {row.id: row for row in final if row.batch is not None}
        if grouped:
            yield from self._end_members(grouped)

    def _announce(self, row: JobRow) -> None:
        """Whoever delivers learns of work that is claimable now, and of when the next will be. A new job's wait is
        everybody's business: who submitted it may run nothing."""
        if row.phase == "ready" or (row.phase == "timed" and row.epoch == 0):
            self.hints.add(row.queue)
        if row.phase == "timed" and row.due is not None and (self.first_due is None or row.due < self.first_due):
            self.first_due = row.due

    def _lock_jobs(self, ids: Sequence[str]) -> Steps[dict[str, JobRow]]:
        found = yield Ask("lock_jobs", (sorted(ids),))
        return {values[0]: JobRow(*values) for values in found}

    def _inherit_calls(self, heirs: list[tuple[str, str]]) -> Steps[None]:
        """The next run of a failed job gets its remote calls, paid for already, and its budget: (new id, old id)."""
        if heirs:
            yield Tell("inherit_calls", heirs)
            yield Tell("inherit_holds", [(f"budget:job:{new}", f"budget:job:{old}") for new, old in heirs])
            yield Tell("inherit_budget", [(f"job:{new}", f"job:{old}") for new, old in heirs])

    def _end_members(self, final: dict[str, JobRow]) -> Steps[None]:
        raise NotImplementedError
