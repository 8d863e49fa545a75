"""Makes a page of a template. Whole for a browser; for htmx only the live part, with what was said and the badges.

Templates come from this package, and those of a section from its own folder, named `{section}/{template}`.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from fastapi import Request
from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from penstock.service.access.guard import local_path
from penstock.service.access.principal import Principal
from penstock.service.dashboard import wording
from penstock.service.dashboard.assets import PLACE, asset
from penstock.service.dashboard.survey import survey_of
from penstock.service.sections import Section
from penstock.service.state import service_of

log = logging.getLogger(__name__)

TEMPLATES = Path(__file__).parent / "templates"
SAID = "penstock_said"
"""The cookie that carries what is said about an action to the page that is shown after it."""

LONGEST_SAID = 4096
"""Browsers keep no longer cookie."""

REFRESH = "Penstock-Refresh"
"""The header of a page that fetches itself again: nobody pressed a button, so what is said is for another request."""

Tone = Literal["done", "refused"]


@dataclass(slots=True, frozen=True)
class Place:
    """An entry of the navigation. `key`: the letter that leads to it after `g`."""

    title: str
    path: str
    icon: str
    key: str = ""
    badge: str = ""
    scope: Literal["read", "operate", "admin"] = "read"
    unbound: bool = False


PLACES: tuple[Place, ...] = (
    Place("Overview", "/", "overview", "o"),
    Place("Jobs", "/ui/jobs", "jobs", "j"),
    Place("Batches", "/ui/batches", "batches", "b"),
    Place("Remote calls", "/ui/calls", "calls", "c", badge="quarantined"),
    Place("Dead letters", "/ui/dead-letters", "dead", "d", badge="dead"),
    Place("Costs", "/ui/costs", "costs", "m"),
    Place("Schedules", "/ui/schedules", "schedules", "s"),
    Place("Workers", "/ui/workers", "workers", "w", unbound=True),
    Place("Audit log", "/ui/audit", "audit", "a", scope="operate"),
    Place("Tokens", "/ui/tokens", "tokens", "t", scope="admin", unbound=True),
)


def environment(sections: Sequence[Section] = ()) -> Environment:
    return _environment(tuple((section.name, section.templates) for section in sections if section.templates))


@cache
def _environment(folders: tuple[tuple[str, Path], ...]) -> Environment:
    """Everything is escaped, and a name that is not there is an error, not an empty place."""
    ours: BaseLoader = FileSystemLoader(TEMPLATES)
    theirs = {name: FileSystemLoader(folder) for name, folder in folders}
    made = Environment(
        loader=ChoiceLoader([ours, PrefixLoader(theirs)]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=wording.plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "iso": wording.iso,
        "clock": wording.clock,
        "coded": wording.coded,
        "took": wording.length,
        "dollars": wording.dollars,
        "figure": wording.figure,
        "compact": wording.compact,
        "told": wording.told,
        "given_key": wording.given_key,
        "pretty": wording.pretty,
        "many": wording.many,
    }
    made.globals |= {"asset": asset, "ago": wording.ago, "link": link, "version": version("penstock")}
    return made


def link(path: str, /, **query: Any) -> str:
    """A path with what of the query is not empty."""
    given = {name: value for name, value in query.items() if value not in (None, "", ())}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def render(request: Request, template: str, *, status_code: int = 200, **values: Any) -> HTMLResponse:
    """`template` with `values`, and with what every page knows: `principal`, `places`, `sections`, `snapshot`, `now`,
    `here` (this page's own address)."""
    service = service_of(request)
    principal: Principal | None = values.pop("principal", None) or getattr(request.state, "principal", None)
    said = [] if REFRESH in request.headers else _said(request)
    state = request.app.state
    if not hasattr(state, "templates"):
        state.templates = environment(service.sections)
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    known = {
        "request": request,
        "principal": principal,
        "places": [place for place in PLACES if principal is not None and _open_to(place, principal)],
        "sections": [section for section in service.sections if section.pages is not None],
        "snapshot": survey_of(request).last(principal.tenant if principal else None),
        "draining": service.draining,
        "open_access": service.open_access,
        "now": service.penstock.engine.clock.now(),
        "partial": is_partial(request),
        "here": here,
        "said": said,
        "feed": "",
        "every": 1000,
    }
    html = state.templates.get_template(template).render(known | values)
    response = HTMLResponse(html, status_code)
    response.headers["Cache-Control"] = "no-store"
    response.headers["Vary"] = "HX-Request, Cookie"
    if said:
        response.delete_cookie(SAID, path="/", httponly=True, samesite="lax")
    return response


def is_partial(request: Request) -> bool:
    """Whether htmx asks for the live part of a page that is shown already."""
    asked = request.headers
    return asked.get("HX-Request") == "true" and "HX-History-Restore-Request" not in asked


def _open_to(place: Place, principal: Principal) -> bool:
    return principal.may(place.scope) and not (place.unbound and principal.tenant is not None)


def back_to(request: Request, path: str, *said: tuple[Tone, str]) -> Response:
    """The answer to every button: the page it stood on, which then says what became of it."""
    survey_of(request).touch()
    response = RedirectResponse(path, 303)
    if said:
        text = base64.urlsafe_b64encode(json.dumps([(tone, words[:300]) for tone, words in said[:4]]).encode()).decode()
        response.set_cookie(
            SAID, text, max_age=60, path="/", httponly=True, samesite="lax", secure=request.url.scheme == "https"
        )
    return response


def _said(request: Request) -> list[tuple[str, str]]:
    """Somebody else may have written the cookie: what cannot be read was not said."""
    text = request.cookies.get(SAID, "")
    if len(text) > LONGEST_SAID:
        return []
    try:
        told = json.loads(base64.urlsafe_b64decode(text))
        told = [(tone, words) for tone, words in told if tone in ("done", "refused") and isinstance(words, str)]
        return [(tone, words[:300]) for tone, words in told[:4]]
    except (ValueError, TypeError, RecursionError):
        return []


def own_path(text: str, otherwise: str) -> str:
    """Where a form says its page is: only a path of this service, so that nobody is led elsewhere."""
    return text if local_path(text) == text else otherwise


_TITLES = {
    403: "Not yours to see",
    404: "Nothing here",
    409: "Not in this state",
    422: "That cannot be",
    429: "Too much at once",
    503: "Not available now",
}


def error_page(request: Request, status_code: int, detail: str) -> HTMLResponse:
    """A refusal as a page. To htmx it is what is said; the page stays as it is."""
    title = _TITLES.get(status_code, "Something went wrong" if status_code >= 500 else "Refused")
    if is_partial(request):
        return render(request, "error_said.html", status_code=status_code, words=f"{title}: {detail}")
    return render(request, "error.html", status_code=status_code, code=status_code, title=title, detail=detail)


def refusal_page(
    request: Request, status_code: int, detail: str, headers: Mapping[str, str] | None = None
) -> Response | None:
    """The same, if a browser asked for a page; None for everybody else, and where not even that can be shown."""
    path = request.url.path
    shown = path == "/" or (path.startswith("/ui/") and not path.startswith(f"{PLACE}/"))
    if not shown or not ("text/html" in request.headers.get("accept", "") or is_partial(request)):
        return None
    try:
        response = error_page(request, status_code, detail)
    except Exception:
        log.exception("the page for an error could not be made")
        return None
    response.headers.update(headers or {})
    return response
