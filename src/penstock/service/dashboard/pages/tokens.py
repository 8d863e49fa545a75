"""Tokens: who has one and for what. Their secrets are shown once, by the command that makes them, and never here."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.service.access.guard import UnboundAdmin
from penstock.service.access.tokens import standing
from penstock.service.dashboard.rendering import render
from penstock.service.state import Serving

router = APIRouter()


@router.get("/ui/tokens", name="ui.tokens")
async def tokens_page(request: Request, service: Serving, principal: UnboundAdmin) -> Response:
    store = service.penstock.engine.store
    now = await store.now()
    tokens = [(token, standing(token, now)) for token in await store.tokens()]
    return render(request, "tokens.html", principal=principal, tokens=tokens)
