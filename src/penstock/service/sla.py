"""Jobs that take longer than their workflow promises (`Workflow(sla=…)`): each is told of once, in its history.

Ids sort by the time they were made, so what may have come due since the last look is a range of ids, and the rest of
the store is not looked at. The place is kept in the store: what came due while no service ran is found by the next.
"""

from __future__ import annotations

from penstock.app import Penstock
from penstock.engine.errors import NotFound
from penstock.engine.identity import first_id, made_at
from penstock.engine.model import FINAL, SLA_BREACHED, STATUSES, JobRow
from penstock.engine.workflow import Workflow
from penstock.service.notices import WEBHOOK_WORKFLOW
from penstock.store.protocol import Announce, JobFilter, SetCursor
from penstock.times import length

LIVE = tuple(status for status in STATUSES if status not in FINAL)

LOOK_BACK = 60.0
"""Seconds in which a job may be stored after its id was made (a step spawns its jobs when it ends)."""

PAGE = 500


class SlaWatch:
    """One look at a time: `turn`."""

    def __init__(self, penstock: Penstock) -> None:
        self._penstock = penstock
        self._told: dict[str, set[str]] = {}

    @property
    def needed(self) -> bool:
        return bool(self._promised())

    def _promised(self) -> list[Workflow]:
        known = self._penstock.engine.workflows.values()
        return [each for each in known if each.sla is not None and each.name != WEBHOOK_WORKFLOW]

    async def turn(self) -> int:
        """Tell of the jobs that have come due since the last turn; returns how many there were."""
        return sum([await self._look(workflow) for workflow in self._promised()])

    async def _look(self, workflow: Workflow) -> int:
        store = self._penstock.engine.store
        assert workflow.sla is not None
        now = await store.now()
        due = now - workflow.sla
        name = f"sla:{workflow.name}"
        kept = await store.cursor(name)
        # The first time, only what comes due from now on is told.
        place = due if kept is None else float(kept)
        told = self._told.get(workflow.name, set())
        still: set[str] = set()
        found = 0
        next_place = due
        before = first_id(due)
        since = first_id(place - LOOK_BACK)
        while since < before:
            where = JobFilter(workflow=workflow.name, status=LIVE, after=since, before=before, limit=PAGE)
            rows = await store.jobs(where)
            for row in rows:
                if row.created > due:
                    # Stored long after its id was made: it has time yet, and must be looked at again.
                    next_place = min(next_place, made_at(row.id))
                    continue
                still.add(row.id)
                if row.id not in told:
                    found += await self._tell(row, workflow.sla)
            if len(rows) < PAGE:
                break
            before = rows[-1].id
        self._told[workflow.name] = still
        if kept is None or next_place > place:
            await self._penstock.engine.group.do(SetCursor(name, f"{next_place:.3f}"))
        return found

    async def _tell(self, row: JobRow, sla: float) -> bool:
        note = f"not final {length(sla)} after it was submitted: {row.status} in step {row.step!r}"
        engine = self._penstock.engine
        try:
            new: bool = await engine.group.do(Announce(row.id, SLA_BREACHED, note))
        except NotFound:
            return False
        if new:
            engine.meters.add("sla_breaches", (row.workflow,))
        return new
