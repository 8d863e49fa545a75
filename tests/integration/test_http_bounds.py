"""Bounds and truth of what people are told: whose a budget is, what the audit log and a cookie say, and what is
announced of a job."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock import Penstock
from penstock.engine.errors import NotFound
from penstock.store.memory import MemoryStore
from penstock.store.protocol import Announce, SetBudget, Tidy
from tests.support.api import Api, serving, workflows
from tests.support.house import in_a_loop

V1 = "/api/v1"


async def pressed(client: httpx2.AsyncClient, **fields: str) -> str:
    """What the page says after the form for budgets was sent."""
    client.headers["Accept"] = "text/html"
    csrf = re.search(r'name="csrf" value="([^"]+)"', (await client.get("/ui/costs")).text)
    assert csrf is not None
    answer = await client.post("/ui/costs/budget", data={"csrf": csrf[1], **fields})
    assert answer.status_code == 303, answer.text[:300]
    return (await client.get(answer.headers["location"])).text


async def scopes(api: Api) -> list[str]:
    return [budget.scope for budget in await api.penstock.budgets()]


@pytest.mark.parametrize("scope", ["job:nosuchjob", "batch:x", "tenant:a b", "tenant:a\nb", "galaxy", "tenant:"])
def test_a_page_sets_no_budget_that_nobody_would_draw_on(tmp_path: Path, scope: str) -> None:
    @in_a_loop
    async def main() -> None:
        async with serving(tmp_path) as api, api.client() as client:
            assert 'class="toast refused' in await pressed(client, scope=scope, dollars="1")
            assert await scopes(api) == []
            assert 'class="toast refused' in await pressed(client, scope=scope, action="remove")
            assert await api.penstock.audit() == []

    main()


@in_a_loop
async def test_the_audit_log_knows_whose_budget_a_page_has_set(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        job = (await api.penstock.submit("notes", 1, tenant="acme")).job_id
        batch = (await api.penstock.open_batch(tenant="acme")).id
        for scope in (f"job:{job}", f"batch:{batch}", "tenant:acme"):
            await pressed(client, scope=f" {scope} ", dollars="2")
            await pressed(client, scope=scope, action="remove")
        entries = [row for row in await api.penstock.audit() if row.action == "budget.set"]
        assert {row.tenant for row in entries} == {"acme"} and len(entries) == 6
        assert await scopes(api) == []


@in_a_loop
async def test_who_sees_one_tenant_sets_its_budgets_on_the_page_and_no_others(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        own = (await api.penstock.submit("notes", 1, tenant="acme")).job_id
        other = (await api.penstock.submit("notes", 1, tenant="zen")).job_id
        await api.penstock.set_budget(f"job:{other}", 3)
        async with api.client() as client:
            secret = await api.secret("keeper", "admin", tenant="acme")
            await client.post("/ui/login", data={"token": secret}, headers={"Accept": "text/html"})
            await pressed(client, scope=f"job:{own}", dollars="2")
            for scope in (f"job:{other}", "tenant:zen"):
                await pressed(client, scope=scope, dollars="9")
                await pressed(client, scope=scope, action="remove")
        assert [(b.scope, b.most) for b in await api.penstock.budgets()] == sorted(
            [(f"job:{own}", 2_000_000), (f"job:{other}", 3_000_000)]
        )


@in_a_loop
async def test_a_tenants_budgets_are_found_in_a_few_questions(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        store, questions = api.penstock.engine.store, 0
        batches = [(await api.penstock.open_batch(tenant=tenant)).id for tenant in ("acme", "zen") for _ in range(60)]
        await store.apply([SetBudget(f"batch:{batch}", 5) for batch in batches])
        await store.apply([SetBudget("tenant:acme", 5), SetBudget("tenant:zen", 5)])
        async with api.client(await api.secret("keeper", "read", tenant="acme")) as client:
            await client.get(f"{V1}/budgets")
            ask = store.rows  # type: ignore[attr-defined]

            async def counted(*args: Any) -> Any:
                nonlocal questions
                questions += 1
                return await ask(*args)

            store.rows = counted  # type: ignore[attr-defined]
            found = (await client.get(f"{V1}/budgets?limit=500")).json()["items"]
        assert {one["scope"] for one in found} == {"tenant:acme", *(f"batch:{batch}" for batch in batches[:60])}
        assert questions < 10


@in_a_loop
async def test_removing_a_schedule_that_is_not_there_is_not_in_the_audit_log(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        await client.put(f"{V1}/schedules/daily", json={"cron": "0 3 * * *", "workflow": "notes", "payload": 1})
        assert (await client.delete(f"{V1}/schedules/nightly")).status_code == 404
        assert [row.action for row in await api.penstock.audit()] == ["schedule.set"]
        assert (await client.delete(f"{V1}/schedules/daily")).status_code == 204
        assert [row.action for row in await api.penstock.audit()] == ["schedule.remove", "schedule.set"]


@in_a_loop
async def test_what_cannot_be_read_of_a_cookie_was_not_said(tmp_path: Path) -> None:
    deep = [b64encode(b"[" * amount).decode() for amount in (2_000, 40_000)]
    many = b64encode(json.dumps([("done", "x" * 90)] * 25).encode()).decode()
    async with serving(tmp_path) as api:
        for cookie in (*deep, many, "%", "bnVsbA==", b64encode(b'[["done", 5], 3]').decode()):
            async with api.client(Accept="text/html", Cookie=f"penstock_said={cookie}") as client:
                answer = await client.get("/ui/jobs")
                assert answer.status_code == 200 and answer.text.count('class="toast ') <= 4, cookie[:40]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
def test_nothing_is_announced_of_a_job_of_which_only_the_key_is_left(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where: Any = MemoryStore() if kind == "memory" else f"sqlite:///{tmp_path}/penstock.db"
    if kind == "postgresql":
        where = request.getfixturevalue("postgres_url")

    @in_a_loop
    async def main() -> None:
        app = Penstock(workflows=workflows(), store=where)
        async with app:
            job = (await app.submit("notes", 1, key="kept")).job_id
            async with app.worker(grace=5.0):
                await app.wait(job, timeout=30.0)
            store = app.engine.store
            await store.apply([Tidy(keep_completed=-1.0, keep_failed=None)])
            assert await store.job(job) is not None and await store.history(job) == []
            (answer,) = (await store.apply([Announce(job, "sla breached")])).answers
            assert isinstance(answer, NotFound)
            assert await store.history(job) == [] and await store.last_change() == 0

    main()
