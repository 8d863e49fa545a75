"""Server-sent events: what happens is told, a stream goes on where it broke off, and ends when it must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.service.access import streams
from penstock.service.access.tokens import revoke_token
from penstock.service.api import events
from tests.support.api import KEEPER, serving
from tests.support.house import in_a_loop

EVENTS = "/api/v1/events"


def told(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """(id, kind, data) of every event."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


@in_a_loop
async def test_what_happens_is_told_as_it_happens(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.stream(EVENTS) as stream:
        await stream.until("event: ready")
        assert stream.status == 200
        job = (await api.penstock.submit("notes", {"n": 1}, tenant="acme")).job_id
        await stream.until(job)
        await api.run(job)
        await stream.until('"status":"completed"')
        (last,) = [data for _, kind, data in told(stream.text) if kind == "job" and data["status"] == "completed"]
        assert (last["id"], last["tenant"], last["workflow"]) == (job, "acme", "notes")


@in_a_loop
async def test_a_stream_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        async with api.stream(EVENTS) as first:
            await first.until("event: ready")
            place = told(first.text)[-1][0]
        job = (await api.penstock.submit("notes", {"n": 1})).job_id
        await api.run(job)
        for headers, query in (({"Last-Event-ID": place}, ""), ({}, f"?last_event_id={place}")):
            async with api.stream(EVENTS + query, **headers) as second:
                await second.until('"status":"completed"')
                assert job in {data["id"] for _, kind, data in told(second.text) if kind == "job"}


@in_a_loop
async def test_a_listener_hears_only_what_it_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        one = (await api.penstock.submit("holds", "a")).job_id
        other = (await api.penstock.submit("holds", "b")).job_id
        async with api.stream(f"{EVENTS}?job={one}") as stream:
            await stream.until("event: ready")
            await api.penstock.pause(other)
            await api.penstock.pause(one)
            await stream.until('"status":"paused"')
            assert {data["id"] for _, kind, data in told(stream.text) if kind == "job"} == {one}


@in_a_loop
async def test_a_tenants_token_hears_of_its_tenant_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        secret = await api.secret("bolt", "read", tenant="bolt")
        async with api.stream(EVENTS, Authorization=f"Bearer {secret}") as stream:
            await stream.until("event: ready")
            await api.penstock.submit("notes", 1, tenant="acme")
            mine = (await api.penstock.submit("notes", 1, tenant="bolt")).job_id
            await stream.until(mine)
            assert "acme" not in stream.text


@in_a_loop
async def test_a_place_that_never_was_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        for place in ("garbage", "1-x-y", "0"):
            by_header = await client.get(EVENTS, headers={"Last-Event-ID": place})
            by_query = await client.get(EVENTS, params={"last_event_id": place})
            assert (by_header.status_code, by_query.status_code) == (422, 422)
            assert by_header.json()["errors"][0]["location"] == "header.Last-Event-ID"
        assert (await client.get(EVENTS, params={"job": "0" * 20})).status_code == 404
        assert (await client.get(EVENTS, params={"batch": "0" * 20})).status_code == 404


@in_a_loop
async def test_a_stream_ends_when_the_service_stops(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.stream(EVENTS) as stream:
        await stream.until("event: ready")
        await api.service.feed.stop()
        await stream.ended()


def test_a_stream_without_news_shows_that_it_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.05)

    @in_a_loop
    async def check() -> None:
        async with serving(tmp_path) as api, api.stream(EVENTS) as stream:
            text = await stream.until(": alive")
            assert text.startswith("retry: 2000\n\n")

    check()


def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RECHECK", 0.05)
    monkeypatch.setattr(events, "LOOK_UP", 0.05)

    @in_a_loop
    async def check() -> None:
        async with serving(tmp_path, open_access=False) as api:
            secret = await api.secret("watch", "read")
            async with api.stream(EVENTS, Authorization=f"Bearer {secret}") as stream:
                await stream.until("event: ready")
                await revoke_token(api.penstock.engine, "watch", actor=KEEPER)
                await stream.ended()
                assert stream.status == 200

    check()


@in_a_loop
async def test_a_listener_that_goes_away_is_forgotten(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        feed: Any = api.service.feed
        async with api.stream(EVENTS) as stream:
            await stream.until("event: ready")
            assert len(feed._listeners) == 1
        assert not feed._listeners


LIVE = "/ui/live"


@pytest.mark.parametrize(
    ("path", "how"), [(EVENTS, "logged out"), (LIVE, "revoked"), (LIVE, "expired"), (LIVE, "logged out")]
)
def test_no_stream_outlives_what_opened_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, how: str
) -> None:
    monkeypatch.setattr(streams, "RECHECK", 0.05)

    @in_a_loop
    async def check() -> None:
        async with serving(tmp_path, open_access=False) as api, api.client() as browser:
            secret = await api.secret("watch", "read", expires_in=3600.0 if how == "expired" else None)
            assert (await browser.post("/ui/login", data={"token": secret})).status_code == 303
            session = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
            page = await browser.get("/ui/jobs", headers={"Accept": "text/html"})
            csrf = page.text.partition('name="csrf" value="')[2].partition('"')[0]
            async with api.stream(path, Cookie=session) as stream:
                await stream.until("retry: 2000")
                if how == "revoked":
                    await revoke_token(api.penstock.engine, "watch", actor=KEEPER)
                elif how == "expired":
                    # Its hour is over; nobody waits for that here.
                    await api.penstock.engine.write("UPDATE tokens SET expires = created")
                elif how == "logged out":
                    assert (await browser.post("/ui/logout", data={"csrf": csrf})).status_code == 303
                await stream.ended()
                assert stream.status == 200

    check()


@pytest.mark.parametrize("path", [EVENTS, LIVE])
def test_nobody_has_any_number_of_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(streams, "MOST_STREAMS", 2)

    @in_a_loop
    async def check() -> None:
        async with serving(tmp_path, open_access=False) as api:
            one = {"Authorization": f"Bearer {await api.secret('one', 'read')}"}
            other = {"Authorization": f"Bearer {await api.secret('other', 'read')}"}
            async with api.stream(path, **one) as first, api.stream(EVENTS, **one) as second:
                await first.until("retry: 2000")
                await second.until("retry: 2000")
                async with api.stream(path, **one) as third:
                    assert "streams open already" in await third.ended()
                    assert third.status == 429
                async with api.stream(path, **other) as others:
                    await others.until("retry: 2000")
            async with api.stream(path, **one) as again:
                await again.until("retry: 2000")

    check()


@in_a_loop
async def test_a_page_is_told_of_its_own_tenant_alone(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        secret = await api.secret("bolt", "read", tenant="bolt")
        theirs = (await api.penstock.submit("notes", 1, tenant="acme")).job_id
        feed: Any = api.service.feed
        for query in ("", f"?job={theirs}", "?workflow=notes", "?tenant=acme"):
            async with api.stream(LIVE + query, Authorization=f"Bearer {secret}") as stream:
                await stream.until("event: changed")
                (listener,) = feed._listeners
                assert listener.wanted.tenant == "bolt"
