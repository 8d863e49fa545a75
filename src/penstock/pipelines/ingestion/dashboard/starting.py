"""Fill a knowledge base: a form. What is wrong is said beside its field, and nothing that was typed is lost. What it
would come to can be planned first."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from pydantic import ValidationError
from starlette.responses import Response

from penstock.engine.errors import Conflict, InvalidRequest, StepError
from penstock.pipelines.ingestion import control
from penstock.pipelines.ingestion.api_asked import configuration_asked
from penstock.pipelines.ingestion.api_bases import PLAN_READING, PLAN_SECONDS, planning_turn
from penstock.pipelines.ingestion.api_models import StartIngestion
from penstock.pipelines.ingestion.chunking import CHUNKERS
from penstock.pipelines.ingestion.dashboard.places import Paths
from penstock.pipelines.ingestion.model import DEFAULT_OVERLAP, DEFAULT_SIZE, Configuration
from penstock.pipelines.ingestion.planning import Plan, plan
from penstock.service.access.guard import Operator
from penstock.service.access.principal import Principal
from penstock.service.api.limits import Taking
from penstock.service.api.problems import Problem
from penstock.service.api.tenancy import owner_for
from penstock.service.dashboard.rendering import back_to, render
from penstock.service.state import Service, Serving
from penstock.store.protocol import Once

router = APIRouter()

EMBEDDERS = {"local": "on this machine, free", "gemini": "Google's, paid by token", "openai": "a server like OpenAI's"}
CUTS = {"markdown": "by headings", "sentence": "by sentences", "fixed": "of one size"}
EVERY = {"": "by hand", "1h": "every hour", "6h": "every 6 hours", "1d": "every day", "1w": "every week"}
SECONDS = {"1h": 3600.0, "6h": 21_600.0, "1d": 86_400.0, "1w": 604_800.0}
KINDS = ("markdown", "pdf", "website", "youtube")
FIELDS = ("name", "tenant", "type", "place", "prefix", "max_pages", "chunker", "size", "overlap", "embedder", "model",
          "batch", "prune", "rebuild", "every")  # fmt: skip

_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_APART = re.compile(r"[\s,]+")
_OF_SOURCE = re.compile(r"source \w+: (?:\w+: )?(.*?)(?: \(it takes [^()]*\))?\Z", re.DOTALL)

LONGEST = 4000
"""Characters of a field."""


@dataclass(slots=True)
class Filled:
    """The form as it was sent."""

    typed: dict[str, str]
    wrong: dict[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        said = self.typed[name].strip().replace(",", "")
        if not said:
            return None
        if not said.isascii() or not said.isdecimal() or len(said) > 9:
            self.wrong[name] = "must be a whole number"
            return None
        return int(said)

    def says(self, name: str) -> bool:
        return self.typed[name] == "yes"


@router.get("/new", name="ui.knowledge.new")
async def form_page(request: Request, service: Serving, principal: Operator, name: str = "") -> Response:
    return _form(request, principal, Filled(dict.fromkeys(FIELDS, "") | {"type": KINDS[0], "name": name}))


@router.post("/new", name="ui.knowledge.start")
async def start(
    request: Request,
    service: Serving,
    principal: Operator,
    intake: Taking,
    action: Annotated[str, Form(max_length=10)] = "",
    form: Annotated[str, Form(max_length=64, pattern=r"^[0-9a-f]*$")] = "",
) -> Response:
    """`form` is the name of this very form: sent twice, as by a second click, it starts one run."""
    sent = await request.form()
    filled = Filled({name: said[:LONGEST] if isinstance(said := sent.get(name), str) else "" for name in FIELDS})
    owner = owner_for(principal, filled.typed["tenant"].strip() or None)
    asked = read(filled)
    if asked is None:
        return _form(request, principal, filled, status=422)
    base, every = filled.typed["name"].strip(), filled.typed["every"]
    try:
        config = await configuration_asked(service, owner, base, asked)
        if action == "plan":
            planned = await _planned(request, service, base, config, rebuild=asked.rebuild, tenant=owner)
            return _form(request, principal, filled, planned=planned)
        once = None
        if form:
            digest = blake2b(json.dumps(filled.typed).encode(), digest_size=16).hexdigest()
            once = Once(f"{owner}/knowledge", f"{form}-{digest}", digest)
        await intake.admit(1, once)
        await control.start(
            service.penstock, base, config, rebuild=asked.rebuild, tenant=owner, actor=principal.actor, once=once
        )
        if every in SECONDS:
            await control.refresh_every(service.penstock, base, SECONDS[every], tenant=owner, actor=principal.actor)
    except Problem as problem:
        location, colon, words = problem.detail.partition(": ")
        of_source = bool(colon) and location.startswith("body.sources")
        filled.wrong["place" if of_source else "form"] = words if of_source else problem.detail
        answer = _form(request, principal, filled, status=problem.status)
        answer.headers.update(problem.headers)
        return answer
    except (InvalidRequest, StepError) as error:
        field, words = _blamed(str(error))
        filled.wrong[field] = words
        return _form(request, principal, filled, status=409 if isinstance(error, Conflict) else 422)
    return back_to(request, Paths(base, owner, principal)(), ("done", f"{base}: the ingestion has begun"))


async def _planned(
    request: Request, service: Service, base: str, config: Configuration, *, rebuild: bool, tenant: str
) -> Plan:
    try:
        async with planning_turn(request), asyncio.timeout(PLAN_SECONDS):
            return await plan(service.penstock, base, config, rebuild=rebuild, tenant=tenant, seconds=PLAN_READING)
    except TimeoutError:
        raise InvalidRequest(
            f"planning took more than {PLAN_SECONDS:g} s: `penstock ingest plan` takes its time"
        ) from None


def read(filled: Filled) -> StartIngestion | None:
    """What was typed as the API would be told it; or None, and what is wrong by field."""
    typed, wrong = filled.typed, filled.wrong
    try:
        control.checked_base(typed["name"].strip())
    except InvalidRequest as error:
        wrong["name"] = str(error)
    source = _source(filled)
    embedder: dict[str, Any] = {"name": typed["embedder"], "model": typed["model"].strip()}
    embedder = {name: said for name, said in embedder.items() if said} | (
        {"batch": True} if filled.says("batch") else {}
    )
    told = {
        "sources": [source] if source else None,
        "chunker": _chunker(filled) or None,
        "embedder": embedder or None,
        "prune": filled.says("prune") or None,
        "rebuild": filled.says("rebuild"),
    }
    if wrong:
        return None
    try:
        return StartIngestion.model_validate(told)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False, include_input=False):
            where = "place" if one["loc"][0] == "sources" else str(one["loc"][-1])
            where = where if where in FIELDS and where != "name" else str(one["loc"][0])
            wrong.setdefault(where, one["msg"].removeprefix("Value error, "))
        return None


def _source(filled: Filled) -> dict[str, Any]:
    typed, wrong = filled.typed, filled.wrong
    kind, place = typed["type"], typed["place"].strip()
    if kind not in KINDS:
        wrong["type"] = f"must be one of {', '.join(KINDS)}"
    elif not place:
        wrong["place"] = "say where the documents are"
    elif kind == "website":
        pages, below = filled.number("max_pages"), typed["prefix"].strip()
        wishes: dict[str, Any] = {"max_pages": pages, "prefix": below or None}
        return {"type": kind, "url": place} | {name: value for name, value in wishes.items() if value is not None}
    elif kind == "youtube":
        return {"type": kind, **_videos(filled, place)}
    elif kind == "pdf" and _ADDRESS.match(place):
        return {"type": kind, "urls": [each for each in _APART.split(place) if each]}
    else:
        return {"type": kind, "path": place}
    return {}


def _videos(filled: Filled, place: str) -> dict[str, list[str]]:
    from penstock.pipelines.ingestion.sources.youtube import playlist_id, video_id

    found: dict[str, list[str]] = {}
    for each in filter(None, _APART.split(place)):
        if (video := video_id(each)) is not None:
            found.setdefault("ids", []).append(video)
        elif (playlist := playlist_id(each)) is not None:
            found.setdefault("playlists", []).append(playlist)
        else:
            filled.wrong["place"] = f"{each[:100]!r} is neither a video nor a playlist: give its id, or its address"
    return found


def _chunker(filled: Filled) -> dict[str, Any]:
    """A size that the usual overlap does not fit has one in the usual proportion."""
    size, overlap = filled.number("size"), filled.number("overlap")
    if size is not None and overlap is None and size < 2 * DEFAULT_OVERLAP:
        overlap = size * DEFAULT_OVERLAP // DEFAULT_SIZE
    said = {"name": filled.typed["chunker"] or None, "size": size, "overlap": overlap}
    return {name: value for name, value in said.items() if value is not None}


def _blamed(message: str) -> tuple[str, str]:
    """The field that a refusal of the core is about, and what is wrong with it."""
    if (found := _OF_SOURCE.match(message)) is not None:
        return "place", found[1]
    return ("embedder" if "embedder" in message.split(":")[0] else "form"), message


def _form(
    request: Request, principal: Principal, filled: Filled, *, status: int = 200, planned: Plan | None = None
) -> Response:
    return render(
        request,
        "knowledge/new.html",
        status_code=status,
        principal=principal,
        typed=filled.typed,
        wrong=filled.wrong,
        planned=planned,
        chunkers={name: CUTS.get(name, "") for name in CHUNKERS},
        embedders=EMBEDDERS,
        every=EVERY,
        usual_size=DEFAULT_SIZE,
        usual_overlap=DEFAULT_OVERLAP,
        form=secrets.token_hex(16),
    )
