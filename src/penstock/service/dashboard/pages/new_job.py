"""Start a job: a form for the workflows that this service knows. What is wrong is said beside its field, and nothing
that was typed is lost."""

from __future__ import annotations

import json
import secrets
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from pydantic import PydanticUserError, ValidationError
from starlette.responses import Response

from penstock.engine.errors import Conflict, InvalidPayload, InvalidRequest
from penstock.engine.workflow import Workflow
from penstock.service.access.guard import Operator
from penstock.service.access.principal import Principal
from penstock.service.api.bodies import strict_json
from penstock.service.api.examples import example_of
from penstock.service.api.limits import Taking
from penstock.service.api.priority import urgency
from penstock.service.api.problems import Problem
from penstock.service.api.shapes import SubmitBody
from penstock.service.api.starting import started_by
from penstock.service.api.tenancy import owner_for
from penstock.service.beginning import INTERNAL
from penstock.service.dashboard.rendering import back_to, render
from penstock.service.state import Service, Serving
from penstock.store.protocol import Once

router = APIRouter()

PAGE = "new_job.html"
OPTIONAL = ("key", "tenant", "priority", "queue", "budget")
Typed = Annotated[str, Form(max_length=600)]


@router.get("/ui/jobs/new", name="ui.jobs.new")
async def new_job_page(request: Request, service: Serving, principal: Operator, workflow: str = "") -> Response:
    chosen = workflow if workflow in offered(service) else next(iter(offered(service)), "")
    payload = example(service.penstock.workflows[chosen]) if chosen else ""
    return _form(request, service, principal, {"workflow": chosen, "payload": payload})


@router.post("/ui/jobs/new", name="ui.jobs.start")
async def start_job(
    request: Request,
    service: Serving,
    principal: Operator,
    intake: Taking,
    workflow: Typed = "",
    payload: Annotated[str, Form()] = "",
    key: Typed = "",
    tenant: Typed = "",
    priority: Typed = "",
    queue: Typed = "",
    budget: Typed = "",
    form: Annotated[str, Form(max_length=64, pattern=r"^[0-9a-f]*$")] = "",
) -> Response:
    """`form` is the name of this very form: sent twice, as by a second click, it starts one job."""
    typed = {"workflow": workflow, "payload": payload, "key": key, "tenant": tenant, "priority": priority}
    typed |= {"queue": queue, "budget": budget.strip().lstrip("$")}
    penstock = service.penstock
    body, wrong = read(service, typed)
    if body is None:
        return _form(request, service, principal, typed, wrong, 422)
    owner = owner_for(principal, body.tenant)
    once = None
    if form:
        digest = blake2b(json.dumps(typed).encode(), digest_size=16).hexdigest()
        once = Once(f"{owner}/form", f"{form}-{digest}", digest)
    try:
        await intake.admit(1)
        told = await penstock.submit(
            body.workflow,
            body.payload,
            key=body.key,
            tenant=owner,
            priority=urgency(penstock, body.workflow, body.priority),
            queue=body.queue,
            budget=body.budget,
            actor=principal.actor,
            once=once,
        )
    except Problem as full:
        answer = _form(request, service, principal, typed, {"form": full.detail}, full.status)
        answer.headers.update(full.headers)
        return answer
    except Conflict as error:
        return _form(request, service, principal, typed, {"key" if body.key else "form": str(error)}, 409)
    except InvalidRequest as error:
        return _form(request, service, principal, typed, {"form": str(error)}, 422)
    said = "job started" if told.created else "this key has a job already, with the same payload: here it is"
    return back_to(request, f"/ui/jobs/{told.job_id}", ("done", said))


def offered(service: Service) -> dict[str, Workflow]:
    """What people start, by name."""
    known = service.penstock.workflows
    names = [name for name in sorted(known) if not name.startswith(INTERNAL) and started_by(service, name) is None]
    return {name: known[name] for name in names}


def read(service: Service, typed: dict[str, str]) -> tuple[SubmitBody | None, dict[str, str]]:
    """What was typed as the API would take it; or what is wrong, by field."""
    wrong: dict[str, str] = {}
    given: dict[str, Any] = {name: typed[name].strip() for name in OPTIONAL if typed[name].strip()}
    workflow = offered(service).get(typed["workflow"])
    if workflow is None:
        wrong["workflow"] = "this service knows no such workflow"
    try:
        given["payload"] = strict_json(typed["payload"].encode())
        if workflow is not None:
            workflow.checked_payload(given["payload"])
    except json.JSONDecodeError as error:
        wrong["payload"] = f"not valid JSON: {error.msg}"
    except UnicodeEncodeError:
        wrong["payload"] = "this text cannot be stored"
    except InvalidPayload as error:
        wrong["payload"] = str(error)
    try:
        body = SubmitBody.model_validate({**given, "workflow": typed["workflow"]})
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False, include_input=False):
            wrong.setdefault(str(one["loc"][0]), one["msg"])
        return None, wrong
    return (None, wrong) if wrong else (body, wrong)


def example(workflow: Workflow) -> str:
    """A payload that fits, where its type tells one; otherwise nothing."""
    try:
        schema = workflow.first.adapter.json_schema()
        sample = example_of(schema, schema.get("$defs", {}))
        workflow.checked_payload(sample)
    except (PydanticUserError, InvalidRequest, KeyError, IndexError, RecursionError):
        return ""
    return json.dumps(sample, indent=2, ensure_ascii=False)


def _form(
    request: Request,
    service: Service,
    principal: Principal,
    typed: dict[str, str],
    wrong: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    workflows = offered(service)
    return render(
        request,
        PAGE,
        status_code=status,
        principal=principal,
        workflows=list(workflows),
        chosen=workflows.get(typed["workflow"]),
        typed=dict.fromkeys(OPTIONAL, "") | typed,
        wrong=wrong or {},
        form=secrets.token_hex(16),
    )
