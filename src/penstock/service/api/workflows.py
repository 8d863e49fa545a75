"""`/api/v1/workflows`: what can be started here."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic.errors import PydanticInvalidForJsonSchema

from penstock.engine.workflow import Workflow
from penstock.service.access.guard import Reader
from penstock.service.api import shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.state import Serving

router = APIRouter(prefix="/workflows", tags=["workflows"], route_class=JsonRoute)


@router.get(
    "",
    operation_id="listWorkflows",
    summary="List workflows",
    response_model=shapes.Workflows,
    responses=problems(path="/api/v1/workflows"),
)
async def list_workflows(principal: Reader, service: Serving) -> Response:
    """All that this service knows, by name."""
    known = service.penstock.engine.workflows
    return answer({"items": [_line(known[name]) for name in sorted(known)]})


@router.get(
    "/{name}",
    operation_id="getWorkflow",
    summary="Show a workflow",
    response_model=shapes.WorkflowDetail,
    responses=problems(404, path="/api/v1/workflows/pages"),
)
async def get_workflow(
    name: Annotated[str, Path(pattern=shapes.NAME, examples=["pages"], description="The workflow's name.")],
    principal: Reader,
    service: Serving,
) -> Response:
    """Its steps, and the JSON Schema of its payload."""
    workflow = service.penstock.engine.workflow(name)
    try:
        schema: dict[str, Any] | None = workflow.first.adapter.json_schema()
    except PydanticInvalidForJsonSchema:
        schema = None
    return answer({**_line(workflow), "payload_schema": schema})


def _line(workflow: Workflow) -> dict[str, Any]:
    cleanup = workflow.cleanup_step
    return {
        "name": workflow.name,
        "queue": workflow.queue,
        "priority": workflow.priority.base,
        "steps": [name for name, step in workflow.steps.items() if step is not cleanup],
        "cleanup": cleanup and cleanup.name,
    }
