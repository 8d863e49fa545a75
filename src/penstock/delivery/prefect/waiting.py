"""Flow runs that wait for their beginning, as Prefect's API is asked for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.sorting import FlowRunSort

PAGE = 200


async def one_is_to_begin(client: PrefectClient, deployment: UUID) -> bool:
    """A run that has not begun to claim finds everything that is stored by now. Prefect makes the runs of a schedule
    long before: those do not count."""
    now = datetime.now(UTC).timestamp()
    return bool(
        await client.read_flow_runs(
            flow_run_filter=_due_before(deployment, now + 1.0, StateType.SCHEDULED, StateType.PENDING), limit=1
        )
    )


async def any_is_planned(client: PrefectClient, deployment: UUID) -> bool:
    """Whether the server's scheduler has made flow runs, or has been told to make none."""
    if not any(schedule.active for schedule in (await client.read_deployment(deployment)).schedules):
        return True
    in_a_day = datetime.now(UTC).timestamp() + 86_400.0
    planned = _due_before(deployment, in_a_day, StateType.SCHEDULED)
    return bool(await client.read_flow_runs(flow_run_filter=planned, limit=1))


async def drop_missed(client: PrefectClient, deployment: UUID, *, older_than: float) -> int:
    """While no worker was there the schedule went on: one of the runs that it missed is as good as all of them."""
    missed = _due_before(deployment, datetime.now(UTC).timestamp() - older_than, StateType.SCHEDULED)
    dropped = 0
    while found := await client.read_flow_runs(
        flow_run_filter=missed, sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=PAGE, offset=1
    ):
        for run in found:
            await client.delete_flow_run(run.id)
        dropped += len(found)
    return dropped


def _due_before(deployment: UUID, when: float, *states: StateType) -> FlowRunFilter:
    # Prefect's own kind of time takes any other, but its types do not say so.
    before: Any = datetime.fromtimestamp(when, UTC)
    return FlowRunFilter(
        deployment_id=FlowRunFilterDeploymentId(any_=[deployment]),
        expected_start_time=FlowRunFilterExpectedStartTime(before_=before),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(states))),
    )
