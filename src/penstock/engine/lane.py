"""Lanes: ready jobs that share a priority class and the same limits, so that one look at a lane's head decides for
all of it.

A lane is a text, `queue/workflow/base,period,cap/tenant/resource/batch`; the last three are empty where no limit asks
for them. Occupancy is never counted up and down: it is read from the jobs that are held, when a claim needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from penstock.engine.errors import InvalidRequest
from penstock.engine.identity import checked_name
from penstock.engine.model import JobRow

Limits = Mapping[str, int]
"""`workflow:NAME`, `resource:NAME`, `tenant:NAME` or `tenant:*` (each tenant that has none of its own) to the most at
once."""

AFTER_SLASH = "0"
"""The character after '/': lanes of queue Q are the texts from 'Q/' to 'Q0'."""

MOST = 1_000_000_000

_SCOPES = ("workflow", "resource", "tenant")


@dataclass(slots=True, frozen=True)
class Lane:
    queue: str
    workflow: str
    base: int
    period: int
    cap: int
    tenant: str
    resource: str
    batch: str


@lru_cache(maxsize=16384)
def parse(lane: str) -> Lane:
    queue, workflow, class_, tenant, resource, batch = lane.split("/")
    base, period, cap = class_.split(",")
    return Lane(queue, workflow, int(base), int(period), int(cap), tenant, resource, batch)


def tenants_limited(limits: Limits) -> bool:
    return any(key.startswith("tenant:") for key in limits)


def lane_of(row: JobRow, *, by_tenant: bool) -> str:
    """A job that has started holds its place in its batch already, so its batch no longer limits it."""
    tenant = row.tenant if by_tenant else ""
    batch = row.batch_slot or "" if row.started is None else ""
    return f"{row.queue}/{row.workflow}/{row.base},{row.period},{row.cap}/{tenant}/{row.resource}/{batch}"


def limit_keys(lane: str, limits: Limits) -> tuple[str, ...]:
    """The limits a job of this lane must fit under; a batch's own limit is in the batch."""
    where = parse(lane)
    keys = []
    if f"workflow:{where.workflow}" in limits:
        keys.append(f"workflow:{where.workflow}")
    if where.resource and f"resource:{where.resource}" in limits:
        keys.append(f"resource:{where.resource}")
    if where.tenant and (f"tenant:{where.tenant}" in limits or "tenant:*" in limits):
        keys.append(f"tenant:{where.tenant}")
    if where.batch:
        keys.append(f"batch:{where.batch}")
    return tuple(keys)


def room_left(
    limits: Limits,
    held: Iterable[tuple[str, int]],
    batches: Iterable[tuple[str, int, int]],
    calls: Iterable[tuple[str, int]] = (),
) -> dict[str, int]:
    """What each limit still allows: `held` is (lane, ticks running), `batches` (id, limit, members started and not
    ended), `calls` (limit, how much of it unfinished remote calls hold)."""
    room = dict(limits)
    default = limits.get("tenant:*")
    for lane, count in held:
        where = parse(lane)
        for key in (f"workflow:{where.workflow}", f"resource:{where.resource}", f"tenant:{where.tenant}"):
            if key in room:
                room[key] -= count
            elif default is not None and where.tenant and key == f"tenant:{where.tenant}":
                room[key] = default - count
    for key, amount in calls:
        if key in room:
            room[key] -= amount
    for batch, limit, started in batches:
        room[f"batch:{batch}"] = limit - started
    return room


def room_for(key: str, room: dict[str, int], limits: Limits) -> int:
    """The room under one key; a tenant nobody has counted yet has all of the default's."""
    if key not in room:
        room[key] = limits["tenant:*"]
    return room[key]


def checked_limits(limits: Mapping[str, int]) -> dict[str, int]:
    """Limits as a person wrote them, or `InvalidRequest`."""
    checked = {}
    for key, most in limits.items():
        scope, _, name = key.partition(":")
        if scope not in _SCOPES or not name:
            raise InvalidRequest(f"limit {key!r} must be workflow:NAME, resource:NAME, tenant:NAME or tenant:*")
        if name != "*":
            checked_name(scope, name)
        elif scope != "tenant":
            raise InvalidRequest(f"limit {key!r}: only tenants have a limit for all, tenant:*")
        if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST:
            raise InvalidRequest(f"limit {key!r} must be a whole number from 1 to {MOST}, not {most!r}")
        checked[key] = most
    return checked
