"""The overview: what needs a person first, then what runs, how fast, and what it costs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.app import Penstock
from penstock.engine.model import FINAL, STATUSES, Job
from penstock.service.access.guard import Reader
from penstock.service.access.principal import Principal
from penstock.service.beginning import INTERNAL, first_job
from penstock.service.dashboard import charts
from penstock.service.dashboard.pages.costs import costs_by, daily
from penstock.service.dashboard.rendering import render
from penstock.service.dashboard.survey import MOST, Counted, Snapshot
from penstock.service.dashboard.wording import figure, many
from penstock.service.state import Service, Serving

router = APIRouter()

MINUTES = 60
RUNNING, DEAD = 8, 5
"""Jobs in the lists of what runs and what died last."""

PAGE, PASSED_OVER = 50, 250
LIVE = tuple(status for status in STATUSES if status not in FINAL)


@dataclass(slots=True, frozen=True)
class Concern:
    """Something a person should look at. `grave`: work stands still, or money is in doubt."""

    icon: str
    title: str
    words: str
    path: str
    grave: bool = False


@dataclass(slots=True, frozen=True)
class Line:
    """A workflow on the overview."""

    name: str
    counts: dict[str, int]
    bar: list[charts.Part]
    ended: int
    dead: int
    spark: str

    @property
    def live(self) -> int:
        return sum(self.counts[status] for status in LIVE)

    @property
    def idle(self) -> bool:
        return not (self.live or self.ended or self.dead)


@router.head("/")
@router.get("/", name="ui.overview")
async def overview(request: Request, service: Serving, principal: Reader, snapshot: Counted) -> Response:
    penstock = service.penstock
    now = await penstock.engine.store.now()
    ended = await _ended(service, principal, now)
    costs = await costs_by(request, service, principal, ("day", "workflow"), now, 14)
    money = daily(costs, now, 14, height=96)
    people = snapshot.people
    lines = _lines(people, ended)
    return render(
        request,
        "overview.html",
        principal=principal,
        snapshot=snapshot,
        people=people,
        concerns=concerns(snapshot, principal),
        lines=[line for line in lines if not line.idle],
        idle=[line for line in lines if line.idle],
        pace=_pace(ended, now),
        lately=sum(amount for minute, _, _, amount in ended if minute >= now - 360 and minute < now - 60) / 5,
        hour=sum(amount for *_, amount in ended),
        went_wrong=sum(amount for _, _, status, amount in ended if status == "failed"),
        today=money.totals[-1],
        week=sum(money.totals[-7:]),
        money=money,
        running=await _newest(penstock, principal, RUNNING, status=("running",)),
        dead=await _newest(penstock, principal, DEAD, dead=True) if snapshot.dead else [],
        live=LIVE,
        most=MOST,
        first=_first(service, principal),
        feed="/ui/live",
        every=2000,
    )


async def _newest(penstock: Penstock, principal: Principal, most: int, **where: Any) -> list[Job]:
    """The newest jobs that people submitted: Penstock's own are passed over, as far as `PASSED_OVER`."""
    found: list[Job] = []
    before = None
    for _ in range(PASSED_OVER // PAGE):
        page = await penstock.jobs(tenant=principal.tenant, before=before, limit=PAGE, **where)
        found += [job for job in page if not job.workflow.startswith(INTERNAL)]
        if len(page) < PAGE or len(found) >= most:
            break
        before = page[-1].id
    return found[:most]


def _first(service: Service, principal: Principal) -> str | None:
    """Where the store is, and its password, is nothing for everybody who may read."""
    settings = service.settings
    secret = settings.source("store") == "--store" and ("@" in settings.store or "password=" in settings.store)
    command = first_job(service.penstock, settings, flags=principal.tenant is None and not secret)
    return f"{command} --store STORE" if command and secret else command


def concerns(snapshot: Snapshot, principal: Principal) -> list[Concern]:
    """What needs a person, the gravest first."""
    found = []
    waiting = snapshot.people.live
    idle = principal.tenant is None and waiting and not snapshot.alive
    if idle:
        found.append(
            Concern(
                "workers",
                "No worker is alive",
                f"{many(waiting, 'unfinished job')}. Start one with `penstock worker`, or `penstock up`.",
                "/ui/workers",
                grave=True,
            )
        )
    dead = sum(snapshot.dead_of.values()) - sum(need.dead_letters for need in snapshot.needs)
    told = (
        (
            (snapshot.quarantined, "calls", "{} in quarantine", "remote call"),
            ("Nobody knows whether they were taken: decide what becomes of them.", "/ui/calls?state=quarantined", True),
        ),
        (
            (snapshot.over_budget, "costs", "{} paused for budget", "job"),
            ("They go on when the budget is raised.", "/ui/costs#budgets", True),
        ),
        (
            (max(dead, 0), "dead", "{}", "dead letter"),
            ("They failed for good, and go on only if somebody retries them.", "/ui/dead-letters", True),
        ),
        (
            (snapshot.overdue, "clock", "{} overdue", "remote call"),
            ("Still running at the other side, longer than they should.", "/ui/calls?state=overdue", False),
        ),
        (
            (snapshot.paused, "pause", "{} paused", "job"),
            ("They stay so until somebody resumes them.", "/ui/jobs?status=paused", False),
        ),
    )
    for (amount, icon, title, thing), (words, path, grave) in told:
        if amount:
            amounts = f"{MOST}+ {thing}s" if amount > MOST else many(amount, thing)
            found.append(Concern(icon, title.format(amounts), words, path, grave))
    found += [Concern("section", need.title, need.words, need.path, need.grave) for need in snapshot.needs]
    return sorted(found, key=lambda concern: not concern.grave)


Ended = Sequence[tuple[float, str, str, float]]
"""(minute, workflow, status, how many)."""


async def _ended(service: Service, principal: Principal, now: float) -> Ended:
    """What ended in the last hour, minute by minute. Meters know no tenants, so who is bound to one sees none."""
    if principal.tenant is not None:
        return []
    found = await service.penstock.engine.store.series(["jobs_ended"], now - MINUTES * 60)
    read = [(minute, json.loads(labels), amount) for minute, _, labels, amount in found]
    ended = [(minute, str(label.get("workflow", "")), str(label.get("status", "")), n) for minute, label, n in read]
    return [line for line in ended if not line[1].startswith(INTERNAL)]


def _pace(ended: Ended, now: float) -> charts.Columns:
    this = now // 60 * 60
    by_minute: dict[float, dict[str, float]] = {this - 60 * n: {} for n in range(MINUTES - 1, -1, -1)}
    for minute, _, status, amount in ended:
        if minute in by_minute:
            by_minute[minute][status] = by_minute[minute].get(status, 0.0) + amount
    titles = [
        ", ".join(f"{figure(n)} {status}" for status, n in sorted(parts.items())) or "none ended"
        for parts in by_minute.values()
    ]
    kinds = ("completed", "failed", "canceled")
    return charts.columns(list(by_minute.items()), kinds=kinds, height=96, titles=titles, gap=0.3, lines=2)


def _lines(snapshot: Snapshot, ended: Ended) -> list[Line]:
    """Workflows, the busiest first."""
    recent: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for minute, workflow, _, amount in ended:
        recent[workflow][minute // 180] += amount
    spans = sorted({span for parts in recent.values() for span in parts})
    whole = list(range(int(spans[0]), int(spans[-1]) + 1)) if spans else []
    most = max((sum(snapshot.of(s, name) for s in LIVE) for name in snapshot.workflows), default=0)
    lines = []
    for name in snapshot.workflows:
        counts = snapshot.by_status(name)
        lines.append(
            Line(
                name,
                counts,
                charts.stacked([(status, counts[status]) for status in LIVE], total=most or None),
                int(sum(recent[name].values())),
                snapshot.dead_of.get(name, 0),
                charts.line([recent[name].get(float(span), 0.0) for span in whole]) if recent[name] else "",
            )
        )
    return sorted(lines, key=lambda line: (-line.live, -line.ended, line.name))
