"""Who may use a route. Every route takes one of `Reader`, `Operator`, `Reviewer`, `Admin`, or an `Unbound…` one for
what is of no single tenant; they find out who asks, check the scope, and keep foreign pages out (`csrf.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

from fastapi import Depends, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.security import APIKeyCookie, HTTPBearer

from penstock.service.access.csrf import check_csrf
from penstock.service.access.principal import SCOPES, Principal, Scope
from penstock.service.access.refusal import Refused
from penstock.service.access.sessions import COOKIE, session_of
from penstock.service.access.state import Access, access_of, address_of
from penstock.store.protocol import TokenRow

LOGIN = "/ui/login"
LONGEST_NAME = 120
LONGEST_NEXT = 2000

_KNOWN = "penstock.principal"
_CHECKS: dict[Any, Callable[[Principal], None]] = {}
"""What the dependencies of `require` check."""

_bearer = HTTPBearer(
    scheme_name="token",
    description="A token of `penstock tokens create`. Not needed where the service listens on this machine alone.",
    auto_error=False,
)
_cookie = APIKeyCookie(
    name=COOKIE,
    scheme_name="session",
    description="The session of a browser that has logged in; what changes something needs `X-CSRF-Token`, too.",
    auto_error=False,
)


async def identified(
    request: Request,
    _token: Annotated[Any, Security(_bearer)],
    _session: Annotated[Any, Security(_cookie)],
) -> AsyncIterator[Principal]:
    """Who asks. Tokens come in the `Authorization` header alone, never in the query, which ends up in logs."""
    principal = request.scope.pop(_KNOWN, None) or await _known(request)
    # For what shows a page, and for the log.
    request.state.principal = principal
    try:
        await check_csrf(request, principal)
        yield principal
    finally:
        # The files of a form that was read for its secret.
        await request.close()


async def _known(request: Request) -> Principal:
    principal = await _who(access_of(request), request)
    if principal is None:
        raise _unknown(request, "this needs a token, in the header `Authorization: Bearer …`")
    return principal


async def known_first(request: Request, dependant: Dependant) -> None:
    """Who asks, and whether they may, for a route that reads a body: the framework reads it before it runs a guard."""
    request.scope[_KNOWN] = principal = await _known(request)
    for check in _checks_in(dependant):
        check(principal)


def _checks_in(dependant: Dependant) -> Iterator[Callable[[Principal], None]]:
    if dependant.call in _CHECKS:
        yield _CHECKS[dependant.call]
    for one in dependant.dependencies:
        yield from _checks_in(one)


async def still_known(request: Request) -> Principal | None:
    """Who asks, looked up anew: for an answer that goes on for long."""
    return await _who(access_of(request), request)


async def _who(access: Access, request: Request) -> Principal | None:
    address = address_of(request)
    if (header := request.headers.get("authorization")) is not None:
        return _of_token(await _bearer_token(access, request, header), "token", address)
    if (found := await session_of(access, request)) is not None:
        session, token = found
        return _of_token(token, "browser", address, session.csrf)
    if access.is_open:
        return Principal(_said_name(request), frozenset(SCOPES), None, "loopback", address, access.csrf)
    return None


def _of_token(token: TokenRow, via: str, address: str | None, csrf: str | None = None) -> Principal:
    scopes = frozenset(scope for scope in SCOPES if scope in token.scopes.split())
    return Principal(token.name, scopes, token.tenant, via, address, csrf)


async def _bearer_token(access: Access, request: Request, header: str) -> TokenRow:
    """Failures are counted for each address, and the audit log has them up to that number; a good token is let in
    from there all the same."""
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer":
        raise _unknown(request, "this needs a token, in the header `Authorization: Bearer …`")
    verdict = await access.tokens.verify(access.engine, secret.strip())
    if verdict.token is not None:
        return verdict.token
    address = address_of(request)
    if (wait := access.failures.attempt(address)) is not None:
        raise too_many(wait)
    await access.refused("token.refused", "token", address, verdict.problem or "", verdict.known)
    raise _unknown(request, "the token is not known, has expired or was revoked")


def too_many(wait: int) -> Refused:
    detail = f"too many tokens from this address were wrong: try again in {wait} s"
    return Refused(429, detail, headers={"Retry-After": str(wait)})


def _said_name(request: Request) -> str:
    """Where access is open, people say themselves who they are."""
    said = request.headers.get("x-penstock-as")
    if said is None:
        return "local"
    try:
        name = said.encode("latin-1").decode().strip()
    except UnicodeDecodeError:
        name = ""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise Refused(400, f"X-Penstock-As must be a name of 1 to {LONGEST_NAME} printable characters in UTF-8")
    return name


def _unknown(request: Request, detail: str) -> Refused:
    """A person's browser goes to the login and comes back to the page; a program is told what it lacks."""
    path = request.url.path
    if path == "/" or path.startswith("/ui/"):
        if "hx-request" in request.headers:
            shown = urlsplit(request.headers.get("hx-current-url", ""))
            return Refused(401, detail, headers={"HX-Redirect": _login_for(shown.path, shown.query), **_CHALLENGE})
        if request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", ""):
            return Refused(303, detail, headers={"Location": _login_for(path, request.url.query)})
    return Refused(401, detail, headers=_CHALLENGE)


_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="penstock"'}


def _login_for(path: str, query: str) -> str:
    following = local_path(f"{path}?{query}" if query else path)
    return LOGIN if following == "/" else f"{LOGIN}?next={quote(following, safe='')}"


def local_path(asked: object) -> str:
    """Where to go after the login: a path of this service, or `/`. Browsers read `\\` as `/`, skip tabs and line
    ends, and take `//host` for another host."""
    if not isinstance(asked, str) or not asked.startswith("/") or len(asked) > LONGEST_NEXT:
        return "/"
    if asked.startswith(("//", LOGIN, "/ui/logout")) or "\\" in asked or not asked.isprintable():
        return "/"
    return asked


def require(scope: Scope, *, unbound: bool = False) -> Callable[..., Awaitable[Principal]]:
    """A dependency that lets in who holds the scope; `unbound`: and is bound to no tenant."""

    def check(principal: Principal) -> None:
        if not principal.may(scope):
            held = ", ".join(sorted(principal.scopes)) or "none"
            raise Refused(403, f"this needs the scope {scope}; {principal.name} has {held}")
        if unbound and principal.tenant is not None:
            raise Refused(403, f"this is about all tenants; {principal.name} is bound to {principal.tenant}")

    async def checked(principal: Annotated[Principal, Depends(identified)]) -> Principal:
        check(principal)
        return principal

    _CHECKS[checked] = check
    return checked


Reader = Annotated[Principal, Depends(require("read"))]
Operator = Annotated[Principal, Depends(require("operate"))]
Reviewer = Annotated[Principal, Depends(require("review"))]
Admin = Annotated[Principal, Depends(require("admin"))]

Unbound = Annotated[Principal, Depends(require("read", unbound=True))]
UnboundOperator = Annotated[Principal, Depends(require("operate", unbound=True))]
UnboundAdmin = Annotated[Principal, Depends(require("admin", unbound=True))]
