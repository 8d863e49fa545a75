"""Dead letters: jobs that failed and were not run again, those that failed alike together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from zlib import crc32

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.engine.model import JobRow
from penstock.service.access.guard import Reader
from penstock.service.dashboard.acting import MOST
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.survey import Counted
from penstock.service.dashboard.wording import shape_of
from penstock.service.state import Serving
from penstock.store.protocol import JobFilter

router = APIRouter()


@dataclass(slots=True, frozen=True)
class Group:
    """Jobs that failed in the same step with the same kind of error, the newest first."""

    workflow: str
    step: str
    shape: str
    jobs: list[JobRow]

    @property
    def name(self) -> str:
        return f"group-{crc32(repr((self.workflow, self.step, self.shape)).encode()):08x}"

    @property
    def newest(self) -> float:
        return max(job.finished or job.created for job in self.jobs)


@router.get("/ui/dead-letters", name="ui.dead-letters")
async def dead_letters(
    request: Request,
    service: Serving,
    principal: Reader,
    snapshot: Counted,
    workflow: str = "",
    tenant: str = "",
    before: str = "",
) -> Response:
    where = JobFilter(
        tenant=principal.tenant or tenant or None,
        workflow=workflow or None,
        dead=True,
        before=before or None,
        limit=MOST + 1,
    )
    rows = await service.penstock.engine.store.jobs(where)
    filters = {"workflow": workflow, "tenant": "" if principal.tenant else tenant}
    return render(
        request,
        "dead_letters.html",
        principal=principal,
        groups=grouped(rows[:MOST]),
        shown=len(rows[:MOST]),
        filters=filters,
        workflows=snapshot.workflows,
        older=link("/ui/dead-letters", **filters, before=rows[MOST - 1].id) if len(rows) > MOST else "",
        newest=link("/ui/dead-letters", **filters) if before else "",
        feed=link("/ui/live", workflow=workflow),
    )


def grouped(rows: list[JobRow]) -> list[Group]:
    """The largest group first."""
    groups: dict[tuple[str, str, str], list[JobRow]] = defaultdict(list)
    for row in rows:
        groups[row.workflow, row.step, shape_of(row.error)].append(row)
    made = [Group(*alike, jobs) for alike, jobs in groups.items()]
    return sorted(made, key=lambda group: (-len(group.jobs), -group.newest))
