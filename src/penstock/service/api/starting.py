"""Which workflows the routes for jobs, batches and schedules start: all but those that a section starts itself."""

from __future__ import annotations

from penstock.service.api.problems import Problem
from penstock.service.state import Service


def started_by(service: Service, workflow: str) -> str | None:
    """The section that alone starts this workflow over HTTP. A workflow of the app's own that has the same name is
    another one."""
    known = service.penstock.workflows.get(workflow)
    return next((one.name for one in service.sections if any(each is known for each in one.starts)), None)


def check_startable(service: Service, workflow: str) -> None:
    if (section := started_by(service, workflow)) is not None:
        detail = f"jobs of {workflow} are started by the routes of {section} alone, which check what they may use"
        raise Problem(403, detail)
