"""`/api/v1/tokens`: which tokens there are. They are made and revoked on the service's own machine."""

from __future__ import annotations

from fastapi import APIRouter, Response

from penstock.service.access.guard import Admin
from penstock.service.access.tokens import standing
from penstock.service.api import resource_shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.state import Serving
from penstock.times import utc

router = APIRouter(prefix="/tokens", tags=["tokens"], route_class=JsonRoute)


@router.get(
    "",
    operation_id="listTokens",
    summary="List tokens",
    response_model=resource_shapes.TokenList,
    responses=problems(path="/api/v1/tokens"),
)
async def list_tokens(principal: Admin, service: Serving) -> Response:
    """By name. Of their secrets nothing is shown, and nothing but a hash is kept."""
    store = service.penstock.engine.store
    now = await store.now()
    items = [
        {
            "id": token.id,
            "name": token.name,
            "scopes": token.scopes.split(),
            "tenant": token.tenant,
            "state": standing(token, now),
            "created": utc(token.created),
            "expires": utc(token.expires),
            "used": utc(token.used),
            "revoked": utc(token.revoked),
        }
        for token in await store.tokens()
        if principal.tenant in (None, token.tenant)
    ]
    return answer({"items": items})
