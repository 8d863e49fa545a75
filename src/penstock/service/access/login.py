"""The login page: a token in, a session out. And the logout."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from penstock.engine.audit import Actor
from penstock.service.access import sessions
from penstock.service.access.csrf import check_csrf
from penstock.service.access.guard import LOGIN, local_path
from penstock.service.access.principal import Principal
from penstock.service.access.state import access_of, address_of

router = APIRouter(include_in_schema=False)


@router.head(LOGIN)
@router.get(LOGIN)
async def show(request: Request) -> Response:
    return _page(request, local_path(request.query_params.get("next")))


@router.post(LOGIN)
async def log_in(request: Request) -> Response:
    """The form is read by hand: a validation error would repeat what was typed, and that is a secret."""
    access, address = access_of(request), address_of(request)
    form = await _form(request)
    following, secret = local_path(form.get("next")), form.get("token")
    verdict = await access.tokens.verify(access.engine, secret.strip() if isinstance(secret, str) else "")
    if verdict.token is None:
        # Failures alone are counted, and a good token is let in however many there were: whoever shares an address with
        # somebody who tries tokens, as all do behind some proxies, is not locked out.
        if (wait := access.logins.attempt(address)) is not None:
            page = _page(request, following, problem=f"Too many logins failed: try again in {wait} s.", status=429)
            page.headers["Retry-After"] = str(wait)
            return page
        told = verdict.problem or ""
        if access.logins.is_used_up(address):
            told += "; what else fails from there is not written down for a while"
        await access.refused("login.refused", "browser", address, told, verdict.known)
        page = _page(request, following, problem="This token is not known, has expired or was revoked.", status=401)
        page.headers["WWW-Authenticate"] = 'Bearer realm="penstock"'
        return page
    response = RedirectResponse(following, 303)
    await sessions.begin(access, request, response, verdict.token, Actor(verdict.token.name, "browser", address))
    return response


@router.post("/ui/logout")
async def log_out(request: Request) -> Response:
    access = access_of(request)
    response = RedirectResponse(LOGIN, 303)
    found = await sessions.session_of(access, request)
    if found is None:
        sessions.forget(access, request, response)
        return response
    session, token = found
    actor = Actor(token.name, "browser", address_of(request))
    await check_csrf(request, Principal(token.name, frozenset(), token.tenant, "browser", csrf=session.csrf))
    await sessions.end(access, request, response, token, actor)
    return response


async def _form(request: Request) -> FormData:
    try:
        return await request.form(max_files=0, max_fields=10)
    except HTTPException:
        return FormData()


def _page(request: Request, following: str, *, problem: str | None = None, status: int = 200) -> Response:
    from penstock.service.dashboard.rendering import render

    response = render(request, "login.html", next=following, problem=problem)
    response.status_code = status
    return response
