"""A job is started from the dashboard: by whom, with what, and what is said when it cannot be."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from penstock import Context, Penstock, Workflow
from penstock.config import Settings
from penstock.service.app import create_app
from penstock.service.dashboard.pages.new_job import example
from penstock.service.live import LiveFeed
from penstock.service.state import Service
from tests.integration.test_dashboard_pages import Tab
from tests.support.api import serving
from tests.support.house import in_a_loop

NEW = "/ui/jobs/new"


def flow_of(payload: Any) -> Workflow:
    flow = Workflow("flow", payload=payload)

    @flow.step
    async def do(given: Any, ctx: Context) -> None: ...

    return flow


class Node(BaseModel):
    name: str
    below: list[Node]


@in_a_loop
async def test_a_job_is_started_with_all_that_was_typed_and_audited(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        tab = Tab(api.client())
        fields = {"workflow": "scans", "payload": '{"pages": 3}', "key": "march", "tenant": "acme"}
        answer = await tab.send(NEW, **fields, priority="70", queue="slow", budget="$2.50")
        assert answer.status_code == 303
        (job,) = await api.penstock.jobs(workflow="scans")
        assert answer.headers["location"] == f"/ui/jobs/{job.id}"
        assert (job.payload, job.key, job.tenant, job.queue) == ({"pages": 3, "title": ""}, "march", "acme", "slow")
        (row,) = (await api.client().get(f"/api/v1/jobs?key={job.key}")).json()["items"]
        assert row["priority"] == 70
        (budget,) = await api.penstock.engine.store.budgets()
        assert (budget.scope, budget.most) == (f"job:{job.id}", 2_500_000)
        (entry,) = await api.penstock.audit(limit=5)
        assert (entry.action, entry.target) == ("job.submit", f"job:{job.id}") and entry.actor


@in_a_loop
async def test_the_payload_begins_as_an_example_that_fits(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        tab = Tab(api.client())
        page = unescape(await tab.open(f"{NEW}?workflow=scans"))
        assert '{\n  "pages": 0,\n  "title": ""\n}</textarea>' in page
        assert "<option selected>scans</option>" in page and "<option>penstock." not in page
        assert f'href="{NEW}"' in await tab.open("/ui/jobs")


@pytest.mark.parametrize(
    ("payload", "text"), [(int, "0"), (list[str], '[\n  ""\n]'), (dict[str, int], "{}"), (Node, "")]
)
def test_no_example_is_given_where_the_type_tells_none(payload: Any, text: str) -> None:
    assert example(flow_of(payload)) == text


@in_a_loop
async def test_what_is_wrong_is_said_beside_its_field_and_what_was_typed_is_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        tab = Tab(api.client())
        typed = {"workflow": "scans", "payload": '{"pages": "<many>"}', "key": "kept key", "queue": "slow"}
        answer = await tab.send(NEW, **typed)
        page = unescape(answer.text)
        assert answer.status_code == 422
        assert "id=\"payload-wrong\">payload does not fit workflow 'scans': pages" in page
        assert '{"pages": "<many>"}</textarea>' in page and 'value="kept key"' in page and 'value="slow"' in page
        assert "<many>" not in answer.text
        wrongs = (
            *(("payload", text) for text in ("{", "NaN", "", "[" * 5000)),
            *(("workflow", name) for name in ("nonesuch", "penstock.webhook")),
            *(("priority", "700"), ("budget", "much"), ("tenant", "a b"), ("queue", "a b"), ("key", "a\0b")),
        )
        for field, text in wrongs:
            answer = await tab.send(NEW, **{"workflow": "scans", "payload": '{"pages": 1}', field: text})
            assert answer.status_code == 422 and f'id="{field}-wrong"' in answer.text, (field, text[:9])
        assert await api.penstock.jobs() == []


@in_a_loop
async def test_a_form_that_is_sent_twice_starts_one_job(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        tab = Tab(api.client())
        form = re.findall(r'name="form" value="([0-9a-f]+)"', await tab.open(NEW))[0]
        places = {(await tab.send(NEW, workflow="notes", payload="1", form=form)).headers["location"] for _ in range(2)}
        other = (await tab.send(NEW, workflow="notes", payload="2", form=form)).headers["location"]
        assert len(places) == 1 and other not in places
        assert len(await api.penstock.jobs()) == 2


@in_a_loop
async def test_a_key_leads_to_its_job_and_another_payload_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        tab = Tab(api.client())
        first = await tab.send(NEW, workflow="notes", payload="1", key="one")
        assert "has a job already" in await tab.press(NEW, workflow="notes", payload="1", key="one")
        refused = await tab.send(NEW, workflow="notes", payload="2", key="one")
        assert first.status_code == 303 and refused.status_code == 409 and 'id="key-wrong"' in refused.text


@in_a_loop
async def test_a_full_queue_refuses_and_keeps_what_was_typed(tmp_path: Path) -> None:
    async with serving(tmp_path, queue_limit=1) as api:
        tab = Tab(api.client())
        assert (await tab.send(NEW, workflow="notes", payload="1")).status_code == 303
        answer = await tab.send(NEW, workflow="notes", payload='"typed"')
        assert answer.status_code == 429 and answer.headers["retry-after"]
        assert "jobs wait already" in answer.text and '"typed"</textarea>' in unescape(answer.text)
        assert len(await api.penstock.jobs()) == 1


@in_a_loop
async def test_only_who_may_operate_starts_jobs_and_only_for_the_own_tenant(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        reader = Tab(api.client(await api.secret("reader", "read")))
        assert NEW not in await reader.open("/ui/jobs")
        await reader.open(NEW, status=403)
        bound = Tab(api.client(await api.secret("bound", "read", "operate", tenant="acme")))
        assert 'name="tenant"' not in await bound.open(NEW)
        assert (await bound.send(NEW, workflow="notes", payload="1")).status_code == 303
        assert (await bound.send(NEW, workflow="notes", payload="1", tenant="other")).status_code == 403
        assert [job.tenant for job in await api.penstock.jobs()] == ["acme"]


@in_a_loop
async def test_a_browser_must_bring_the_secret_of_our_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        client = api.client()
        answer = await client.post(NEW, data={"workflow": "notes", "payload": "1", "csrf": "guessed"})
        assert answer.status_code == 403 and await api.penstock.jobs() == []


@in_a_loop
async def test_a_service_without_an_app_says_so(tmp_path: Path) -> None:
    settings = Settings.model_validate({"home": tmp_path, "store": f"sqlite:///{tmp_path}/penstock.db"})
    penstock = Penstock()
    await penstock.open(settings=settings)
    try:
        app = create_app(Service(penstock, settings, LiveFeed(penstock), open_access=True))
        transport = httpx2.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8800") as client:
            page = await Tab(client).open(NEW)
        assert "No app is known here" in page and "<textarea" not in page
    finally:
        await penstock.close()
