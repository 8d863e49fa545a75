"""Bodies and answers about calls and money, and about what the service itself knows: workers, locks, tokens."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.engine.call import State
from penstock.service.api.shapes import EXAMPLE_ID, Body, Moment, Name, Next, Words

Dollars = float
Microdollars = int


class Tokens(BaseModel):
    """`output` includes `thinking`; `input` includes `cached`."""

    input: int
    output: int
    cached: int
    thinking: int


class CallSummary(BaseModel):
    """A remote call without its result."""

    id: str = Field(examples=["9f86d081884c7d659a2feaa0c5"])
    tenant: str
    job: str
    workflow: str
    remote: str = Field(examples=["gemini.batch"])
    key: str = Field(description="The key the step gave it; unique in its job.")
    attempt: int = Field(ge=1)
    state: State
    unwanted: bool = Field(description="Nobody wants it any more: it is being stopped.")
    model: str | None
    provider_id: str | None = Field(description="Its id at the other side.")
    error: str | None
    tokens: Tokens
    estimate_usd: Dollars
    estimate_microdollars: Microdollars
    cost_usd: Dollars
    cost_microdollars: Microdollars
    done: int | None
    total: int | None
    created: Moment
    submitted: Moment | None
    next_look: Moment | None
    finished: Moment | None


class CallHold(BaseModel):
    name: str
    amount: int


class CallDetail(CallSummary):
    """A remote call with its result."""

    label: str = Field(description="Our name for it at the other side.")
    submit_before: Moment | None
    last_look: Moment | None
    looks: int
    strikes: int = Field(description="Looks in a row that told nothing.")
    decided_by: str | None
    holds: list[CallHold]
    result: Any = None


class CallPage(BaseModel):
    items: list[CallSummary]
    next: Next


class AdoptBody(Body):
    """Which of the other side's things it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"provider_id": "batches/abc123"}]})

    provider_id: Words | None = Field(None, description="Its id at the other side; needed where it is not known here.")


class CostAmounts(BaseModel):
    calls: int
    unfinished: int = Field(description="Calls that hold a reservation.")
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: Dollars
    cost_microdollars: Microdollars
    reserved_usd: Dollars
    reserved_microdollars: Microdollars


class CostLine(CostAmounts):
    group: dict[str, str] = Field(description="One value for each name in `by`.", examples=[{"workflow": "pages"}])


CostGroup = Literal["tenant", "workflow", "job", "remote", "model", "day"]


class Costs(BaseModel):
    """What remote calls have used and cost, dearest first; days stay in their order."""

    by: list[CostGroup]
    costs: list[CostLine]
    total: CostAmounts


class BudgetLine(BaseModel):
    """What a tenant, job or batch may spend."""

    scope: str = Field(examples=["tenant:default"])
    budget_usd: Dollars
    budget_microdollars: Microdollars
    spent_usd: Dollars
    spent_microdollars: Microdollars
    reserved_usd: Dollars
    reserved_microdollars: Microdollars
    left_usd: Dollars
    left_microdollars: Microdollars


class BudgetPage(BaseModel):
    items: list[BudgetLine]
    next: Next


class BudgetBody(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"budget_usd": 25.0}]})

    budget_usd: float = Field(ge=0, le=1e9, description="Dollars in all, what is spent already included.")


class LockItem(BaseModel):
    """Who holds this: a lock has no expiry and goes with its job."""

    tenant: str
    name: str
    job: str
    taken: Moment


class LockPage(BaseModel):
    items: list[LockItem]
    next: Next


class WorkerItem(BaseModel):
    """A process that runs jobs."""

    id: str
    alive: bool
    holds: int = Field(description="Jobs that it runs now.")
    started: Moment
    seen: Moment
    expires: Moment = Field(description="When it is given up unless it is seen again.")
    info: dict[str, Any]


class Workers(BaseModel):
    items: list[WorkerItem]


class ScheduleItem(BaseModel):
    """A job that starts by a cron expression."""

    name: str
    tenant: str
    cron: str = Field(examples=["0 6 * * 1-5"])
    timezone: str = Field(examples=["Europe/Zurich"])
    workflow: str
    enabled: bool
    next_due: Moment
    last_fired: Moment | None


class ScheduleDetail(ScheduleItem):
    """With the payload that its jobs get."""

    payload: Any


class SchedulePage(BaseModel):
    items: list[ScheduleItem]
    next: Next


class ScheduleBody(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"cron": "0 6 * * 1-5", "timezone": "Europe/Zurich", "workflow": "pages", "payload": {}}]
        }
    )

    cron: str = Field(min_length=1, max_length=200)
    workflow: Name
    payload: Any = None
    timezone: str = Field("UTC", min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_+/-]+$")
    tenant: Name | None = None
    priority: int | None = Field(None, ge=0, le=100)
    enabled: bool = True


class AuditItem(BaseModel):
    """Who did what."""

    id: str
    at: Moment
    actor: str
    action: str = Field(examples=["job.pause"])
    target: str = Field(examples=[f"job:{EXAMPLE_ID}"])
    tenant: str
    via: str = Field(description="The way they came: `token`, `session`, `python`, …")
    address: str | None
    detail: str | None


class AuditPage(BaseModel):
    items: list[AuditItem]
    next: Next


class TokenItem(BaseModel):
    """A token; of its secret nothing is shown."""

    id: str
    name: str
    scopes: list[str]
    tenant: str | None = Field(description="Null: it opens all tenants.")
    state: Literal["usable", "revoked", "expired"]
    created: Moment
    expires: Moment | None
    used: Moment | None
    revoked: Moment | None


class TokenList(BaseModel):
    items: list[TokenItem]


class CountItem(BaseModel):
    workflow: str
    status: str
    count: int


class Counts(BaseModel):
    """How many jobs there are."""

    items: list[CountItem]
    total: int
