"""Who is let in, who is not, and what is written down about it: over HTTP, with the service's own guards."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.routing import APIRoute

from penstock.service.access.guard import identified
from penstock.service.access.sessions import COOKIE
from penstock.service.access.tokens import hash_of, new_secret, revoke_token
from penstock.service.app import create_app
from penstock.store.protocol import PutSession, SessionRow
from tests.support.house import KEEPER, House, in_a_loop, serving

THINGS = "/api/v1/things"
HTML = {"Accept": "text/html,application/xhtml+xml"}
LOGIN = "/ui/login"


def problem(answer: httpx2.Response, status: int) -> str:
    """What a refusal says."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    detail: str = told["detail"]
    return detail


def refusal_page(answer: httpx2.Response, status: int, words: str) -> None:
    """A browser is refused with a page."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert words in answer.text


async def logged_in(house: House, secret: str, **more: Any) -> tuple[httpx2.AsyncClient, str]:
    """A browser with a session, and the secret that stands in its pages."""
    browser = house.client(**more)
    answer = await browser.post(LOGIN, data={"token": secret})
    assert answer.status_code == 303, answer.text
    page = await browser.get("/ui/things", headers=HTML)
    return browser, page.text.removeprefix("<p>").removesuffix("</p>")


# Tokens


@in_a_loop
async def test_a_token_opens_what_its_scopes_allow(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        reader = house.client(secret=await house.token("watch", "read"))
        assert (await reader.get(THINGS)).json()["name"] == "watch"
        assert problem(await reader.post(THINGS, json={}), 403) == "this needs the scope operate; watch has read"
        operator = house.client(secret=await house.token("work", "operate", "review"))
        assert (await operator.post(THINGS, json={"name": "a"})).json()["made"] == "a"
        assert (await operator.post("/api/v1/review")).status_code == 200
        assert "scope admin; work has operate, review" in problem(await operator.delete(THINGS), 403)
        admin = house.client(secret=await house.token("boss", "admin"))
        assert (await admin.delete(THINGS)).json() == {
            "name": "boss", "via": "token", "tenant": None, "address": "203.0.113.9"
        }  # fmt: skip


@in_a_loop
async def test_without_a_token_nobody_is_let_in_and_is_told_what_is_needed(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        for headers in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": ""}, {"X-Penstock-As": "root"}):
            answer = await house.client(**headers).get(THINGS)
            assert "this needs a token" in problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")


@in_a_loop
async def test_a_secret_that_is_wrong_in_any_way_is_refused_alike(tmp_path: Path) -> None:
    async with serving(tmp_path, logins_a_minute=100) as house:
        good = await house.token()
        revoked, expired = await house.token("old"), await house.token("short", expires_in=60)
        await revoke_token(house.penstock.engine, "old", actor=KEEPER)
        house.clock.at += 60
        wrong = [new_secret(), good[:-1], good + "A", good.upper(), "", "penstock_", hash_of(good), revoked, expired]
        said = {problem(await house.client(secret=secret).get(THINGS), 401) for secret in wrong}
        assert said == {"the token is not known, has expired or was revoked"}
        assert (await house.client(secret=good).get(THINGS)).status_code == 200
        told = {row.detail for row in await house.audit("token.refused")}
        assert {"the token old is revoked", "the token short is expired", "there is no such token"} <= told


@in_a_loop
async def test_a_token_in_the_query_or_a_cookie_is_no_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        secret = await house.token()
        for name in ("token", "access_token", "authorization"):
            problem(await house.client().get(THINGS, params={name: secret}), 401)
        problem(await house.client(Cookie=f"{COOKIE}={secret}").get(THINGS), 401)


@in_a_loop
async def test_a_revoked_token_is_refused_from_the_next_request_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        client = house.client(secret=await house.token())
        assert (await client.get(THINGS)).status_code == 200
        await revoke_token(house.penstock.engine, "ci", actor=KEEPER)
        problem(await client.get(THINGS), 401)


@in_a_loop
async def test_when_a_token_was_used_is_noted_at_most_once_a_minute(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        client = house.client(secret=await house.token())
        seen = []
        for seconds in (0, 30, 29, 1, 59):
            house.clock.at += seconds
            await client.get(THINGS)
            (token,) = await house.penstock.engine.store.tokens()
            seen.append((token.used or 0) - token.created)
        assert seen == [0, 0, 0, 60, 60]


@in_a_loop
async def test_a_token_of_one_tenant_sees_nothing_that_is_of_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        bound = house.client(secret=await house.token("acme-admin", "admin", tenant="acme"))
        assert (await bound.get(THINGS)).json()["tenant"] == "acme"
        assert problem(await bound.get("/api/v1/workers"), 403) == (
            "this is about all tenants; acme-admin is bound to acme"
        )
        problem(await bound.delete("/api/v1/workers"), 403)
        free = house.client(secret=await house.token("free", "read"))
        assert (await free.get("/api/v1/workers")).status_code == 200


def test_the_openapi_document_names_both_ways_to_say_who_one_is(tmp_path: Path) -> None:
    @in_a_loop
    async def main() -> None:
        async with serving(tmp_path) as house:
            document = house.app.openapi()
            schemes = document["components"]["securitySchemes"]
            assert (schemes["token"]["type"], schemes["token"]["scheme"]) == ("http", "bearer")
            assert (schemes["session"]["type"], schemes["session"]["in"]) == ("apiKey", "cookie")
            for path, item in document["paths"].items():
                for operation in item.values():
                    if path.startswith("/api/"):
                        assert {name for one in operation["security"] for name in one} == {"token", "session"}

    main()


# Open access


@in_a_loop
async def test_on_loopback_nobody_needs_a_token_and_everybody_may_say_who_they_are(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=True) as house:
        me = house.client("127.0.0.1")
        assert (await me.delete("/api/v1/workers")).json() == {
            "name": "local", "via": "loopback", "tenant": None, "address": "127.0.0.1"
        }  # fmt: skip
        assert (await me.get(THINGS, headers={"X-Penstock-As": "ada"})).json()["name"] == "ada"
        assert (await me.get(THINGS, headers={"X-Penstock-As": "Zoë".encode()})).json()["name"] == "Zoë"
        for wrong in (b"", b"  ", b"a" * 121, b"a\tb", "a\u202eb".encode(), b"\xff"):
            assert "printable" in problem(await me.get(THINGS, headers={"X-Penstock-As": wrong}), 400)


@in_a_loop
async def test_on_loopback_a_token_counts_where_one_is_shown(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=True) as house:
        bound = house.client(secret=await house.token("watch", "read", tenant="acme"))
        assert (await bound.get(THINGS)).json()["name"] == "watch"
        problem(await bound.post(THINGS, json={}), 403)
        problem(await house.client(secret=new_secret()).get(THINGS), 401)


@in_a_loop
@pytest.mark.parametrize("host", ["127.0.0.1:8800", "127.9.9.9", "localhost", "LocalHost:1", "[::1]:8800"])
async def test_names_of_this_machine_are_answered(tmp_path: Path, host: str) -> None:
    async with serving(tmp_path, open_access=True) as house:
        assert (await house.client().get(THINGS, headers={"Host": host})).status_code == 200


@in_a_loop
@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8800", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.1.5:8800",
        "evil.example/localhost", "evil.example#localhost", "user@localhost", "localhost@evil.example", "", "[::1",
        "localhost:x", "[::1].evil.example", "evil.example:[::1]", "[::1]evil.example:80", "[::1]:80:80", "localhost:",
        "[127.0.0.1]", "::1", "localhost, evil.example", "[::1%25eth0]",
    ],
)  # fmt: skip
async def test_a_foreign_name_for_our_address_is_not_answered(tmp_path: Path, host: str) -> None:
    """DNS rebinding: evil.example, that is now 127.0.0.1, is same-origin with itself."""
    async with serving(tmp_path, open_access=True) as house:
        for path in ("/", THINGS, LOGIN, "/ui/static/page.css"):
            assert "names no address of this machine" in problem(
                await house.client().get(path, headers={"Host": host}), 421
            )


@in_a_loop
async def test_a_request_with_two_hosts_is_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=True) as house:
        hosts = [("Host", "127.0.0.1:8800"), ("Host", "evil.example")]
        for headers in (hosts, hosts[::-1], hosts[:1] * 2):
            problem(await house.client().get(THINGS, headers=headers), 421)


@in_a_loop
@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Forwarded-Proto", "X-Real-IP"])
async def test_what_a_proxy_passes_on_is_not_local(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path, open_access=True) as house:
        answer = await house.client().get(THINGS, headers={name: "for=198.51.100.7"})
        assert "set service.public_url" in problem(answer, 421)


# Foreign pages


FOREIGN: list[dict[str, str]] = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:3000"},
    {"Origin": "https://127.0.0.1:8800"},
    {"Origin": "http://127.0.0.1:8800.evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://127.0.0.1:8800", "Sec-Fetch-Site": "cross-site"},
]


@in_a_loop
@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_foreign_page_changes_nothing_on_loopback(tmp_path: Path, headers: dict[str, str]) -> None:
    async with serving(tmp_path, open_access=True) as house:
        csrf = house.app.state.access.csrf
        client = house.client(**headers, **{"X-CSRF-Token": csrf})
        for answer in (
            await client.post(THINGS, json={}),
            await client.delete(THINGS),
            await client.post("/ui/things", data={"what": "pause"}),
            await client.post(LOGIN, data={"token": await house.token()}),
        ):
            assert "a page of another" in problem(answer, 403)


@in_a_loop
async def test_programs_on_loopback_need_no_csrf_token(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=True) as house:
        assert (await house.client().post(THINGS, json={})).status_code == 200
        assert (await house.client().delete(THINGS)).status_code == 200


@in_a_loop
async def test_a_browser_on_loopback_needs_the_secret_of_our_pages(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=True) as house:
        browser = house.client(Origin="http://127.0.0.1:8800", **{"Sec-Fetch-Site": "same-origin"})
        csrf = (await browser.get("/", headers=HTML)).text.removeprefix("<p>").removesuffix("</p>")
        assert len(csrf) == 43
        for wrong in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "x" * 43}):
            assert "out of date" in problem(await browser.post(THINGS, json={}, headers=wrong), 403)
        assert (await browser.post(THINGS, json={}, headers={"X-CSRF-Token": csrf})).status_code == 200
        form = {"what": "pause"}
        problem(await browser.post("/ui/things", data=form), 403)
        problem(await house.client().post("/ui/things", data=form), 403)
        assert (await browser.post("/ui/things", data=form | {"csrf": csrf})).json()["did"] == "pause"
        files = {"file": ("a.txt", b"text")}
        problem(await browser.post("/ui/whole", files=files), 403)
        answer = await browser.post("/ui/whole", files=files, data={"csrf": csrf})
        assert answer.json() == {"fields": ["csrf", "file"]}


@in_a_loop
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Referer", "http://127.0.0.1:8800/"), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Site", "same-origin"),
        ("Origin", "http://127.0.0.1:8800"),
    ],
)  # fmt: skip
async def test_each_sign_of_a_browser_is_enough_to_ask_for_the_secret(tmp_path: Path, name: str, value: str) -> None:
    async with serving(tmp_path, open_access=True) as house:
        assert "out of date" in problem(await house.client().post(THINGS, json={}, headers={name: value}), 403)


@in_a_loop
async def test_a_page_from_before_a_restart_is_loaded_anew_by_htmx(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=True) as house:
        headers = {"HX-Request": "true", "X-CSRF-Token": "of-the-last-process"}
        answer = await house.client().post("/ui/things", data={"what": "pause"}, headers=headers)
        refusal_page(answer, 403, "the page is out of date")
        assert answer.headers["hx-refresh"] == "true"


@in_a_loop
@pytest.mark.parametrize("kind", ["text/plain", "text/plain; charset=utf-8", "TEXT/PLAIN", None])
async def test_the_json_api_takes_no_body_that_a_foreign_form_can_send(tmp_path: Path, kind: str | None) -> None:
    async with serving(tmp_path, open_access=True) as house:
        headers = {} if kind is None else {"Content-Type": kind}
        assert "must say that it is JSON" in problem(
            await house.client().post(THINGS, content=b'{"name": "a"}', headers=headers), 415
        )


@in_a_loop
async def test_a_post_without_a_body_needs_no_type(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=True) as house:
        assert (await house.client().post("/api/v1/review")).status_code == 200


@in_a_loop
async def test_behind_a_proxy_our_pages_have_its_origin(tmp_path: Path) -> None:
    public = "https://penstock.example.com"
    async with serving(tmp_path, public_url=public, base_url=public) as house:
        browser, csrf = await logged_in(house, await house.token())
        form = {"what": "pause", "csrf": csrf}
        assert (await browser.post("/ui/things", data=form, headers={"Origin": public})).status_code == 200
        for origin in (
            "http://penstock.example.com",
            "https://example.com",
            "https://penstock.example.com.evil.example",
        ):
            problem(await browser.post("/ui/things", data=form, headers={"Origin": origin}), 403)
        # A name that somebody gave our address is no origin of ours, however well it agrees with itself.
        renamed = {"Host": "evil.example", "Origin": "https://evil.example"}
        assert "another origin" in problem(await browser.post("/ui/things", data=form, headers=renamed), 403)


# Sessions


@in_a_loop
async def test_a_login_begins_a_session_and_the_logout_ends_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        browser, csrf = await logged_in(house, await house.token("ada", "operate", tenant="acme"))
        assert (await browser.get(THINGS)).json() == {
            "name": "ada", "via": "browser", "tenant": "acme", "address": "203.0.113.9"
        }  # fmt: skip
        cookie = dict(browser.cookies)
        problem(await browser.post("/ui/logout"), 403)
        answer = await browser.post("/ui/logout", data={"csrf": csrf})
        assert (answer.status_code, answer.headers["location"]) == (303, LOGIN)
        assert not dict(browser.cookies)
        problem(await house.client(Cookie=f"{COOKIE}={cookie[COOKIE]}").get(THINGS), 401)
        assert [(row.actor, row.target, row.tenant, row.via) for row in await house.audit("login")] == [
            ("ada", "token:ada", "acme", "browser")
        ]
        assert [row.actor for row in await house.audit("logout")] == ["ada"]
        again = await browser.post("/ui/logout")
        assert (again.status_code, again.headers["location"]) == (303, LOGIN)


@in_a_loop
async def test_the_cookie_of_a_session_over_http(tmp_path: Path) -> None:
    async with serving(tmp_path, session="2h") as house:
        answer = await house.client().post(LOGIN, data={"token": await house.token()})
        (cookie,) = answer.headers.get_list("set-cookie")
        assert re.fullmatch(rf"{COOKIE}=[A-Za-z0-9_-]{{43}}; HttpOnly; Max-Age=7200; Path=/; SameSite=lax", cookie)


@in_a_loop
@pytest.mark.parametrize("public_url", [None, "https://penstock.example.com"])
async def test_the_cookie_of_a_session_over_https(tmp_path: Path, public_url: str | None) -> None:
    """Whether the service speaks it itself or a proxy in front of it does."""
    base_url = "https://penstock.example.com" if public_url is None else "http://penstock.example.com"
    async with serving(tmp_path, public_url=public_url, base_url=base_url) as house:
        answer = await house.client().post(LOGIN, data={"token": await house.token()})
        (cookie,) = answer.headers.get_list("set-cookie")
        assert cookie.startswith(f"__Host-{COOKIE}=")
        assert "Secure" in cookie
        assert "Domain" not in cookie
        value = cookie.partition("=")[2].partition(";")[0]
        assert (await house.client(Cookie=f"__Host-{COOKIE}={value}").get(THINGS)).status_code == 200
        problem(await house.client(Cookie=f"{COOKIE}={value}").get(THINGS), 401)


@in_a_loop
async def test_a_session_is_over_after_its_time(tmp_path: Path) -> None:
    async with serving(tmp_path, session="2h") as house:
        browser, _ = await logged_in(house, await house.token())
        house.clock.at += 7199
        assert (await browser.get(THINGS)).status_code == 200
        house.clock.at += 1
        problem(await browser.get(THINGS), 401)


@in_a_loop
async def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        revoked, _ = await logged_in(house, await house.token("ada"))
        expiring, _ = await logged_in(house, await house.token("bob", expires_in=60))
        await revoke_token(house.penstock.engine, "ada", actor=KEEPER)
        problem(await revoked.get(THINGS), 401)
        assert (await expiring.get(THINGS)).status_code == 200
        house.clock.at += 60
        problem(await expiring.get(THINGS), 401)


@in_a_loop
async def test_a_session_that_somehow_outlived_its_token_opens_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        await house.token("ada")
        (token,) = await house.penstock.engine.store.tokens()
        await revoke_token(house.penstock.engine, "ada", actor=KEEPER)
        for owner in (token.id, "nobody"):
            late = SessionRow(hash_of(f"late-{owner}"), owner, "csrf")
            await house.penstock.engine.group.do(PutSession(late, 3600))
            problem(await house.client(Cookie=f"{COOKIE}=late-{owner}").get(THINGS), 401)


@in_a_loop
async def test_a_cookie_that_was_planted_never_becomes_a_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        planted = "planted-by-somebody-else-planted-by-somebod"
        browser = house.client(Cookie=f"{COOKIE}={planted}")
        answer = await browser.post(LOGIN, data={"token": await house.token()})
        assert planted not in answer.headers["set-cookie"]
        problem(await house.client(Cookie=f"{COOKIE}={planted}").get(THINGS), 401)


@in_a_loop
async def test_a_second_login_of_a_browser_ends_its_first_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        browser, _ = await logged_in(house, await house.token("ada"))
        first = browser.cookies[COOKIE]
        assert (await browser.post(LOGIN, data={"token": await house.token("bob")})).status_code == 303
        assert browser.cookies[COOKIE] != first
        assert (await browser.get(THINGS)).json()["name"] == "bob"
        problem(await house.client(Cookie=f"{COOKIE}={first}").get(THINGS), 401)


@in_a_loop
async def test_a_session_changes_things_only_with_its_own_secret(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        ada, of_ada = await logged_in(house, await house.token("ada"))
        _, of_bob = await logged_in(house, await house.token("bob"))
        for wrong in ("", of_bob, house.app.state.access.csrf):
            problem(await ada.put(THINGS, headers={"X-CSRF-Token": wrong}), 403)
            problem(await ada.post("/ui/things", data={"what": "x", "csrf": wrong}), 403)
        problem(await ada.put(THINGS), 403)
        assert (await ada.put(THINGS, headers={"X-CSRF-Token": of_ada})).status_code == 200
        assert (await ada.post("/ui/things", data={"what": "x", "csrf": of_ada})).status_code == 200


@in_a_loop
async def test_a_bearer_token_needs_no_csrf_secret_even_beside_a_cookie(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        browser, _ = await logged_in(house, await house.token("ada"))
        header = {"Authorization": f"Bearer {await house.token('bob')}", "Origin": house.base_url}
        assert (await browser.put(THINGS, headers=header)).json()["name"] == "bob"


# The login page


@in_a_loop
async def test_pages_lead_to_the_login_and_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        browser = house.client()
        answer = await browser.get("/ui/things?status=failed&key=a%26b", headers=HTML)
        assert answer.status_code == 303
        login = answer.headers["location"]
        assert login == "/ui/login?next=%2Fui%2Fthings%3Fstatus%3Dfailed%26key%3Da%2526b"
        assert (await browser.get("/", headers=HTML)).headers["location"] == LOGIN
        shown = await browser.get(login, headers=HTML)
        assert shown.status_code == 200
        assert 'name="next" value="/ui/things?status=failed&amp;key=a%26b"' in shown.text
        form = {"token": await house.token(), "next": "/ui/things?status=failed&key=a%26b"}
        answer = await browser.post(LOGIN, data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui/things?status=failed&key=a%26b")


@in_a_loop
async def test_only_pages_lead_to_the_login(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        client = house.client()
        problem(await client.get(THINGS, headers=HTML), 401)
        problem(await client.get("/ui/things"), 401)
        refusal_page(await client.post("/ui/things", headers=HTML, data={"what": "x"}), 401, "this needs a token")
        part = {"HX-Request": "true", "HX-Current-URL": f"{house.base_url}/ui/things?status=failed"}
        answer = await client.get("/ui/things", headers=part)
        refusal_page(answer, 401, "this needs a token")
        assert answer.headers["hx-redirect"] == "/ui/login?next=%2Fui%2Fthings%3Fstatus%3Dfailed"


@in_a_loop
@pytest.mark.parametrize("following", ["//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example"])
async def test_the_login_leads_to_no_other_site(tmp_path: Path, following: str) -> None:
    async with serving(tmp_path) as house:
        form = {"token": await house.token(), "next": following}
        assert (await house.client().post(LOGIN, data=form)).headers["location"] == "/"
        assert "evil" not in (await house.client().get(LOGIN, params={"next": following})).text


@in_a_loop
async def test_a_failed_login_says_nothing_of_why_but_the_audit_log_does(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        revoked = await house.token("old", tenant="acme")
        await revoke_token(house.penstock.engine, "old", actor=KEEPER)
        unknown = new_secret()
        pages = []
        for form in ({"token": revoked}, {"token": unknown}, {"token": ""}, {}):
            answer = await house.client().post(LOGIN, data=form, headers=HTML)
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
            assert revoked not in answer.text
            assert unknown not in answer.text
            pages.append(answer.text)
        assert len(set(pages)) == 1
        assert "This token is not known, has expired or was revoked." in pages[0]
        refused = [(row.actor, row.target, row.tenant, row.detail) for row in await house.audit("login.refused")]
        assert refused[-1] == ("old", "token:old", "acme", "the token old is revoked")
        assert refused[-2] == ("unknown", "service", "", "there is no such token")
        assert all(row.address == "203.0.113.9" for row in await house.audit("login.refused"))


@in_a_loop
async def test_a_file_in_the_place_of_a_token_is_a_failed_login(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        secret = await house.token()
        answer = await house.client().post(LOGIN, files={"token": ("token.txt", secret.encode())})
        assert answer.status_code == 401


# Trying again and again


@in_a_loop
async def test_too_many_failed_logins_from_one_address_are_refused_and_lock_nobody_out(tmp_path: Path) -> None:
    async with serving(tmp_path, logins_a_minute=3) as house:
        secret = await house.token()
        for _ in range(3):
            assert (await house.client().post(LOGIN, data={"token": new_secret()})).status_code == 401
        for _ in range(10):
            answer = await house.client().post(LOGIN, data={"token": new_secret()})
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
            assert "try again in 60 s" in answer.text
        assert (await house.client().post(LOGIN, data={"token": secret})).status_code == 303
        assert (await house.client("198.51.100.7").post(LOGIN, data={"token": new_secret()})).status_code == 401
        house.clock.at += 60
        assert (await house.client().post(LOGIN, data={"token": new_secret()})).status_code == 401
        told = [row.detail or "" for row in await house.audit("login.refused") if row.address == "203.0.113.9"]
        assert len(told) == 4, "what is one too many does not fill the audit log"
        assert "not written down" in told[1]


@in_a_loop
async def test_trying_at_the_same_time_does_not_get_round_the_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, logins_a_minute=3) as house:
        tries = [house.client().post(LOGIN, data={"token": new_secret()}) for _ in range(20)]
        codes = [answer.status_code for answer in await asyncio.gather(*tries)]
        assert (codes.count(401), codes.count(429)) == (3, 17)


@in_a_loop
async def test_good_logins_are_not_counted(tmp_path: Path) -> None:
    async with serving(tmp_path, logins_a_minute=2) as house:
        secret = await house.token()
        for _ in range(10):
            assert (await house.client().post(LOGIN, data={"token": secret})).status_code == 303


@in_a_loop
async def test_wrong_bearer_tokens_are_counted_and_good_ones_from_there_are_let_in(tmp_path: Path) -> None:
    async with serving(tmp_path, logins_a_minute=3) as house:
        good = house.client(secret=await house.token())
        for _ in range(3):
            problem(await house.client(secret=new_secret()).get(THINGS), 401)
        for _ in range(3):
            answer = await house.client(secret=new_secret()).get(THINGS)
            assert "try again in 60 s" in problem(answer, 429)
            assert answer.headers["retry-after"] == "60"
            assert (await good.get(THINGS)).status_code == 200
        assert len(await house.audit("token.refused")) == 3


# What every answer says


@in_a_loop
async def test_every_answer_has_the_headers_that_guard_a_browser(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        browser, _ = await logged_in(house, await house.token())
        answers = [
            await browser.get(path)
            for path in ("/", THINGS, LOGIN, "/nowhere", "/api/v1/broken", "/ui/static/page.css")
        ]
        answers.append(await house.client().get("/", headers=HTML))
        answers.append(await browser.post(THINGS, headers={"Origin": "https://evil.example"}))
        assert [answer.status_code for answer in answers] == [200, 200, 200, 404, 500, 200, 303, 403]
        for answer in answers:
            policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
            assert policy["default-src"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
            assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["cross-origin-opener-policy"] == "same-origin"
            assert "camera=()" in answer.headers["permissions-policy"]
            assert "strict-transport-security" not in answer.headers
        assert [answer.headers["cache-control"] for answer in answers] == ["no-store"] * 5 + ["max-age=60"] + [
            "no-store"
        ] * 2


@in_a_loop
async def test_https_is_asked_for_where_it_is_spoken(tmp_path: Path) -> None:
    async with serving(tmp_path, public_url="https://penstock.example.com") as house:
        answer = await house.client().get(LOGIN)
        assert answer.headers["strict-transport-security"] == "max-age=31536000"


@in_a_loop
async def test_a_stream_is_not_held_back(tmp_path: Path) -> None:
    """Each part of the answer is sent on as it comes, before the next is made."""
    async with serving(tmp_path, open_access=True) as house:
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "http", "method": "GET", "scheme": "http", "path": "/api/v1/events", "raw_path": b"/api/v1/events",
            "query_string": b"", "root_path": "", "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8800), "http_version": "1.1", "asgi": {"version": "3.0"},
        }  # fmt: skip

        asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in asked:
                return message
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        await house.app(scope, receive, send)  # type: ignore[arg-type]
        assert [message.get("body") for message in sent] == [None, b"data: 1\n\n", b"data: 2\n\n", b""]


# Secrets


@in_a_loop
async def test_no_secret_is_in_the_database_or_the_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(tmp_path) as house:
        secret, wrong = await house.token(), new_secret()
        browser, _ = await logged_in(house, secret)
        cookie = browser.cookies[COOKIE]
        await house.client(secret=secret).get("/api/v1/broken")
        await house.client(secret=wrong).get(THINGS)
        await house.client().post(LOGIN, data={"token": wrong})
        await house.client(secret=secret).post(THINGS, json={"name": [secret]})
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert hash_of(secret).encode() in kept
    for hidden in (secret, wrong, cookie):
        assert hidden.encode() not in kept
        assert hidden not in caplog.text


# The whole service


OPEN = {"/health/live", "/health/ready", LOGIN, "/ui/logout"}
"""What is answered to everybody; the logout looks at the session itself."""


def routes_of(router: Any) -> Iterator[APIRoute]:
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield route
        elif (inner := getattr(route, "original_router", None)) is not None:
            yield from routes_of(inner)


def is_guarded(dependant: Any) -> bool:
    return dependant.call is identified or any(is_guarded(one) for one in dependant.dependencies)


@in_a_loop
async def test_the_dashboard_is_entered_with_a_token_and_left_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        house.app = create_app(house.app.state.service)
        browser = house.client(**HTML)
        assert (await browser.get("/ui/jobs?status=failed")).headers["location"].startswith("/ui/login?next=")
        assert "Log in" in (await browser.get(LOGIN)).text
        secret = await house.token("ada", "operate")
        answer = await browser.post(LOGIN, data={"token": secret, "next": "/ui/jobs?status=failed"})
        page = await browser.get(answer.headers["location"])
        assert page.status_code == 200
        assert "ada" in page.text
        (csrf,) = set(re.findall(r'name="csrf" value="([^"]+)"', page.text))
        assert (await browser.post("/ui/logout", data={"csrf": csrf})).status_code == 303
        assert (await browser.get("/ui/jobs")).status_code == 303


@in_a_loop
async def test_a_slash_too_many_leads_nowhere(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        house.app = create_app(house.app.state.service)
        client = house.client(secret=await house.token(), Host="evil.example")
        for path in ("/api/v1/jobs/", "/ui/jobs/", "/health/live/"):
            answer = await client.get(path)
            assert answer.status_code == 404
            assert "location" not in answer.headers


@in_a_loop
async def test_every_route_of_the_service_is_guarded(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        routes = list(routes_of(create_app(house.app.state.service).router))
        assert len(routes) > 50
        assert {route.path for route in routes if not is_guarded(route.dependant)} == OPEN
