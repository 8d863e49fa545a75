"""Requests that somebody's browser makes for a foreign page (CSRF), and foreign names for our address (DNS
rebinding).

A page on the internet can make a browser post to http://127.0.0.1:8800, with the cookies it has for it. Three things
stand in its way, each enough by itself in the browsers of today:

- `Door`, before any route: a request that changes something and says itself that it comes from elsewhere (`Origin`,
  `Sec-Fetch-Site`) is refused. Where access is open, a `Host` that is no name of this machine is refused, so that a
  page cannot read ours by giving its own name our address; so is what a proxy has passed on. And the JSON API takes no
  body that a page could send without asking first (`text/plain`, or of no type). It also sends away what came when the
  house was full (`front.py`).
- `check_csrf`, in the guard of every route: a request that changes something on a session's cookie, or comes from a
  browser where access is open, must bring a secret that stands in our pages only, as the form field `csrf` or the
  header `X-CSRF-Token`. It belongs to the session; where there are none, to the running process.
- the session's cookie is `SameSite=Lax`.

A request with `Authorization: Bearer` needs none of it: no browser adds that by itself. Neither do programs where
access is open, as long as they send none of the headers by which a browser is known.
"""

from __future__ import annotations

import hmac
import re
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.service.access.principal import Principal
from penstock.service.access.refusal import Refused, turn_away
from penstock.service.access.serving import is_loopback
from penstock.service.access.state import Access
from penstock.service.front import CROWDED

COME_BACK = 2
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

FIELD, HEADER = "csrf", "x-csrf-token"

_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?\Z")
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_SIGNS_OF_A_PROXY = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
_SIGNS_OF_A_BROWSER = ("origin", "sec-fetch-site", "sec-fetch-mode", "referer")


class Door:
    """Refuses what no route should ever see. Pure ASGI: answers are not touched, so streams stay streams."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if CROWDED in scope and not scope["path"].startswith("/health/"):
                headers = {"Connection": "close", "Retry-After": str(COME_BACK)}
                await turn_away(503, "too many connections are open: try again later", scope, receive, send, headers)
                return
            refusal = _host_problem(scope, self._access) or _origin_problem(scope, self._access) or _body_problem(scope)
            if refusal is not None:
                await turn_away(*refusal, scope, receive, send)
                return
        await self._app(scope, receive, send)


def _host_problem(scope: Scope, access: Access) -> tuple[int, str] | None:
    if not access.is_open:
        return None
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not is_loopback(_name_in(hosts[0])):
        return 421, "the Host header names no address of this machine: open http://127.0.0.1 or http://localhost"
    if any(name in headers for name in _SIGNS_OF_A_PROXY):
        return 421, "this came through a proxy, where everybody looks local: set service.public_url, and use tokens"
    return None


def _name_in(host: str) -> str:
    """`localhost` of `localhost:8800`, `::1` of `[::1]:8800`; nothing where there is more than a name and a port."""
    found = _HOST.match(host)
    return (found["six"] or found["name"]) if found else ""


def _origin_problem(scope: Scope, access: Access) -> tuple[int, str] | None:
    if scope["method"] in SAFE:
        return None
    headers = Headers(scope=scope)
    if headers.get("sec-fetch-site", "same-origin").lower() not in ("same-origin", "none"):
        return 403, "a page of another site cannot change anything here"
    origins = headers.getlist("origin")
    if any(origin.lower() not in _own_origins(scope, headers, access) for origin in origins):
        return 403, "a page of another origin cannot change anything here"
    return None


def _own_origins(scope: Scope, headers: Headers, access: Access) -> set[str]:
    """How pages of ours are addressed. Behind a proxy that is the public URL; who sits at the machine itself may go
    round the proxy."""
    host = headers.get("host", "").lower()
    asked = f"{scope['scheme']}://{host}"
    if access.public_url is None:
        return {asked}
    parts = urlsplit(access.public_url)
    public = f"{parts.scheme}://{parts.netloc}".lower()
    return {public, asked} if is_loopback(_name_in(host)) else {public}


def _body_problem(scope: Scope) -> tuple[int, str] | None:
    if scope["method"] != "POST" or not scope["path"].startswith("/api/"):
        return None
    headers = Headers(scope=scope)
    has_body = headers.get("content-length", "0").strip() != "0" or "transfer-encoding" in headers
    if has_body and _media_type(headers) in ("", "text/plain"):
        return 415, "the body must say that it is JSON: Content-Type: application/json"
    return None


def _media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def needs_csrf(request: Request, principal: Principal) -> bool:
    if request.method in SAFE or principal.csrf is None:
        return False
    if principal.via == "browser" or request.url.path.startswith("/ui/"):
        return True
    return any(name in request.headers for name in _SIGNS_OF_A_BROWSER)


async def check_csrf(request: Request, principal: Principal) -> None:
    """The body of a form is read for it where the header is missing; the route finds it read already."""
    if not needs_csrf(request, principal):
        return
    brought = request.headers.get(HEADER)
    if brought is None and _media_type(request.headers) in _FORMS:
        field = (await request.form()).get(FIELD)
        brought = field if isinstance(field, str) else None
    if not same(brought or "", principal.csrf or ""):
        # htmx then loads the page again, with a secret that is good.
        again = {"HX-Refresh": "true"} if "hx-request" in request.headers else None
        raise Refused(403, "the page is out of date: load it again, and repeat what you did", headers=again)


def same(brought: str, wanted: str) -> bool:
    """Compared in constant time; what is empty matches nothing."""
    return bool(wanted) and hmac.compare_digest(brought.encode(), wanted.encode())
