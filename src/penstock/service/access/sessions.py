"""A browser's session: begun with a token, carried by a cookie, over after a while, at the logout, or with its token.

The cookie is 256 random bits, always new: one that a browser brings along to the login is never made into a session.
Of it the store keeps the SHA-256 alone, so whoever reads the database cannot act for anybody.
"""

from __future__ import annotations

import secrets

from fastapi import Request, Response

from penstock.engine.audit import Actor, entry
from penstock.service.access.state import Access
from penstock.service.access.tokens import hash_of
from penstock.store.protocol import Asked, DropSession, PutSession, SessionRow, TokenRow

COOKIE = "penstock_session"
_LONGEST_COOKIE = 200


def cookie_name(access: Access, request: Request) -> str:
    """With https the name itself makes the browser take the cookie from nobody but this very host."""
    return f"__Host-{COOKIE}" if access.is_https(request.url.scheme) else COOKIE


def _hash_in(access: Access, request: Request) -> str | None:
    brought = request.cookies.get(cookie_name(access, request))
    return hash_of(brought) if brought and len(brought) <= _LONGEST_COOKIE else None


async def session_of(access: Access, request: Request) -> tuple[SessionRow, TokenRow] | None:
    """The session that the request's cookie belongs to, if it and its token are still good."""
    hashed = _hash_in(access, request)
    session = None if hashed is None else await access.engine.store.session(hashed)
    if session is None:
        return None
    found = await access.engine.store.tokens(id=session.token)
    verdict = await access.tokens.look_at(access.engine, found[0]) if found else None
    return None if verdict is None or verdict.token is None else (session, verdict.token)


async def begin(access: Access, request: Request, response: Response, token: TokenRow, actor: Actor) -> None:
    """Log in: a session in the place of the one that the browser may have had."""
    ttl = access.service.settings.service.session
    cookie = secrets.token_urlsafe(32)
    session = SessionRow(hash=hash_of(cookie), token=token.id, csrf=secrets.token_urlsafe(32))
    audit = entry(actor, "login", f"token:{token.name}", tenant=token.tenant or "")
    if (old := _hash_in(access, request)) is not None:
        await access.engine.group.do(DropSession(old))
    await access.engine.group.do(Asked(PutSession(session, ttl), audit=audit))
    _set_cookie(access, request, response, cookie, int(ttl))


async def end(access: Access, request: Request, response: Response, token: TokenRow, actor: Actor) -> None:
    """Log out."""
    audit = entry(actor, "logout", f"token:{token.name}", tenant=token.tenant or "")
    if (hashed := _hash_in(access, request)) is not None:
        await access.engine.group.do(Asked(DropSession(hashed), audit=audit))
    forget(access, request, response)


def forget(access: Access, request: Request, response: Response) -> None:
    _set_cookie(access, request, response, "", 0)


def _set_cookie(access: Access, request: Request, response: Response, value: str, max_age: int) -> None:
    response.set_cookie(
        cookie_name(access, request),
        value,
        max_age=max_age,
        path="/",
        secure=access.is_https(request.url.scheme),
        httponly=True,
        # Not `strict`: a link to a job in a mail would then lead to the login.
        samesite="lax",
    )
