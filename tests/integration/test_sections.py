"""Sections: what a pipeline hangs on the service is guarded, and takes nothing away from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter
from starlette.responses import PlainTextResponse

from penstock.engine.errors import InvalidConfiguration
from penstock.service.access.guard import Operator
from penstock.service.api.bodies import JsonRoute
from penstock.service.app import create_app
from penstock.service.sections import Section
from tests.support.api import Api, serving
from tests.support.house import in_a_loop


def router(*paths: str, method: str = "GET", **more: Any) -> APIRouter:
    made = APIRouter(**more)
    for path in paths:

        @made.api_route(path, methods=[method])
        async def answer() -> dict[str, str]:
            return {"secret": "shelf"}

    return made


def mounted(api: Api, *sections: Section) -> None:
    api.service.sections = sections
    api.app = create_app(api.service)


@in_a_loop
async def test_a_route_that_does_not_guard_itself_is_for_those_who_may_read(tmp_path: Path) -> None:
    inner = APIRouter()
    inner.include_router(router("/deep", route_class=JsonRoute), prefix="/shelves")
    async with serving(tmp_path, open_access=False) as api:
        mounted(
            api,
            Section(name="shelves", title="Shelves", api=router("/api/v1/shelves"), pages=router("", "/{shelf}")),
            Section(name="deep", title="Deep", api=inner),
        )
        for path in ("/api/v1/shelves", "/ui/shelves", "/ui/shelves/a", "/shelves/deep"):
            async with api.client() as nobody, api.client(await api.secret(f"r{hash(path)}", "read")) as reader:
                assert (await nobody.get(path)).status_code == 401
                assert (await reader.get(path)).json() == {"secret": "shelf"}


@in_a_loop
async def test_a_route_may_ask_for_more(tmp_path: Path) -> None:
    api_router = APIRouter()

    @api_router.post("/api/v1/shelves")
    async def make(principal: Operator) -> dict[str, str]:
        return {"by": principal.name}

    async with serving(tmp_path, open_access=False) as api:
        mounted(api, Section(name="shelves", title="Shelves", api=api_router))
        async with api.client(await api.secret("watch", "read")) as reader:
            assert (await reader.post("/api/v1/shelves")).status_code == 403
        async with api.client(await api.secret("work", "operate")) as operator:
            assert (await operator.post("/api/v1/shelves")).json() == {"by": "work"}


@pytest.mark.parametrize(
    "name", ["jobs", "batches", "calls", "dead-letters", "costs", "schedules", "workers", "audit", "tokens", "find",
             "live", "login", "logout", "static"]
)  # fmt: skip
def test_a_name_that_the_dashboard_uses_is_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path, "a page of that name", Section(name=name, title="Mine"))


@pytest.mark.parametrize("name", ["", "a/b", "../jobs", "{any}", "a b"])
def test_a_name_that_is_not_one_part_of_a_path_is_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path, "one part of a path", Section(name=name, title="Mine"))


def test_two_sections_of_one_name_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, "two sections 'a'", Section(name="a", title="One"), Section(name="a", title="Other"))


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs/{shelf}", "/health/live", "/", "/ui/login", "/metrics"])
def test_a_path_of_the_services_own_is_refused(tmp_path: Path, path: str) -> None:
    refused(tmp_path, f"GET {path} is answered", Section(name="a", title="A", api=router(path)))


def test_a_path_of_another_section_is_refused(tmp_path: Path) -> None:
    one, other = (Section(name=name, title=name, api=router("/api/v1/shelves")) for name in "ab")
    refused(tmp_path, "section 'b': GET /api/v1/shelves is answered", one, other)


def test_what_no_guard_could_stand_before_is_refused(tmp_path: Path) -> None:
    bare = APIRouter()
    bare.add_route("/api/v1/bare", lambda request: PlainTextResponse("secret"))
    refused(tmp_path, "nothing would guard it", Section(name="a", title="A", api=bare))


def refused(folder: Path, words: str, *sections: Section) -> None:
    @in_a_loop
    async def main() -> None:
        async with serving(folder) as api:
            with pytest.raises(InvalidConfiguration, match=words.replace("{", r"\{")):
                mounted(api, *sections)

    main()
