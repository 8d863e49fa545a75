"""`/health`: for whoever decides whether this process lives, and whether it gets requests. Nobody needs a token."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from penstock.engine.errors import PenstockError
from penstock.service.api.bodies import answer
from penstock.service.state import Service, Serving

log = logging.getLogger(__name__)

STORE_ANSWERS_WITHIN = 2.0

router = APIRouter(prefix="/health", tags=["health"])


class Live(BaseModel):
    live: bool = Field(examples=[True])


class Ready(BaseModel):
    ready: bool = Field(examples=[True])
    reasons: list[str] = Field(description="Why it is not.", examples=[[]])


@router.head("/live", include_in_schema=False)
@router.get("/live", operation_id="getLive", summary="Is the process alive?", response_model=Live)
async def get_live() -> Response:
    """200 for as long as its event loop turns."""
    return answer({"live": True})


@router.head("/ready", include_in_schema=False)
@router.get(
    "/ready",
    operation_id="getReady",
    summary="Is it ready for requests?",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "It is stopping, or its store does not answer."}},
)
async def get_ready(service: Serving) -> Response:
    """200 if its store answers and it is not stopping."""
    reasons = ["it is stopping"] if service.draining else []
    if (trouble := await _store_trouble(service)) is not None:
        reasons.append(trouble)
    return answer({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)


async def _store_trouble(service: Service) -> str | None:
    try:
        async with asyncio.timeout(STORE_ANSWERS_WITHIN):
            await service.penstock.engine.store.limits()
    except TimeoutError:
        return f"the store did not answer within {STORE_ANSWERS_WITHIN:g} s"
    except PenstockError as error:
        log.warning("not ready: %s", error)
        return "the store does not answer"
    return None
