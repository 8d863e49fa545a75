"""The dashboard of who is bound to a tenant: things of others are not there, whatever is typed or posted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support.api import Api, serving
from tests.support.house import in_a_loop

NEVER = "0" * 20


@asynccontextmanager
async def browser(api: Api, *scopes: str, tenant: str | None) -> AsyncIterator[httpx2.AsyncClient]:
    async with api.client(Accept="text/html") as client:
        secret = await api.secret(f"{tenant}-{scopes[0]}", *scopes, tenant=tenant)
        assert (await client.post("/ui/login", data={"token": secret})).status_code == 303
        yield client


@in_a_loop
async def test_a_foreign_id_is_found_like_one_that_never_was(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        job = (await api.penstock.submit("notes", 1, tenant="acme")).job_id
        batch = (await api.penstock.open_batch(tenant="acme")).id
        async with browser(api, "read", tenant="bolt") as bolt, browser(api, "read", tenant="acme") as acme:
            for asked in (job, batch, NEVER):
                answer = await bolt.get("/ui/find", params={"q": asked})
                assert (answer.status_code, answer.headers["location"]) == (303, f"/ui/jobs?key={asked}")
            for asked, path in ((job, "/ui/jobs/"), (batch, "/ui/batches/")):
                assert (await acme.get("/ui/find", params={"q": asked})).headers["location"] == path + asked


@in_a_loop
@pytest.mark.parametrize("action", ["set", "remove"])
async def test_an_admin_of_one_tenant_changes_no_budget_of_another(tmp_path: Path, action: str) -> None:
    async with serving(tmp_path, open_access=False) as api:
        job = (await api.penstock.submit("notes", 1, tenant="acme", budget=1.0)).job_id
        batch = (await api.penstock.open_batch(tenant="acme", budget=1.0)).id
        await api.penstock.set_budget("tenant:acme", 1.0, tenant="acme")
        await api.penstock.set_budget("tenant:bolt", 1.0, tenant="bolt")
        before = {one.scope: one.most for one in await api.penstock.budgets()}
        async with browser(api, "admin", tenant="bolt") as bolt:
            found = re.search(r'name="csrf" value="([^"]+)"', (await bolt.get("/ui/costs")).text)
            form = {"csrf": found[1] if found else "", "dollars": "7", "action": action}
            for scope in ("tenant:acme", f"job:{job}", f"batch:{batch}", f"job:{NEVER}"):
                answer = await bolt.post("/ui/costs/budget", data={**form, "scope": scope})
                assert answer.status_code == 303
                assert "there is no" in (await bolt.get(answer.headers["location"])).text
            assert {one.scope: one.most for one in await api.penstock.budgets()} == before
            await bolt.post("/ui/costs/budget", data={**form, "scope": "tenant:bolt"})
        after = {one.scope: one.most for one in await api.penstock.budgets()}
        assert {scope for scope in before if after.get(scope) != before[scope]} == {"tenant:bolt"}
