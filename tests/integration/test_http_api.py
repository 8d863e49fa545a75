"""Everything but jobs over HTTP: batches, calls, money, schedules, locks, workers, and what the service is asked about
itself. Every answer is held against the OpenAPI document."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.engine.call import Call
from penstock.service.api import health
from tests.support.api import Api, serving
from tests.support.house import in_a_loop
from tests.support.schemas import keeps

V1 = "/api/v1"
NEVER = "0" * 20


async def submitted(client: httpx2.AsyncClient, workflow: str, payload: Any = None, **more: Any) -> str:
    answer = await client.post(f"{V1}/jobs", json={"workflow": workflow, "payload": payload, **more})
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["job"]["id"]
    return job_id


async def items(client: httpx2.AsyncClient, path: str, **params: Any) -> list[dict[str, Any]]:
    answer = await client.get(f"{V1}/{path}", params=params)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def every_page(client: httpx2.AsyncClient, path: str, **params: Any) -> list[list[dict[str, Any]]]:
    pages, cursor = [], None
    while True:
        answer = await client.get(f"{V1}/{path}", params={**params, **({"cursor": cursor} if cursor else {})})
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()["items"])
        cursor = answer.json()["next"]
        if cursor is None:
            return pages


# Batches


@in_a_loop
async def test_a_batch_is_opened_filled_sealed_and_starts_its_follow_up(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        asked = {"key": "march", "limit": 5, "then": {"workflow": "notes", "payload": "all done"}, "budget": 3}
        opened = await client.post(f"{V1}/batches", json=asked)
        assert (opened.status_code, opened.json()["state"]) == (201, "open")
        batch = opened.json()["id"]
        assert opened.headers["location"] == f"{V1}/batches/{batch}"
        again = await client.post(f"{V1}/batches", json=asked)
        assert (again.status_code, again.json()["id"]) == (200, batch)
        members = [await submitted(client, "notes", n, batch=batch) for n in range(3)]
        members.append(await submitted(client, "breaks", batch=batch))
        assert (await client.post(f"{V1}/batches/{batch}/seal")).json()["state"] == "sealed"
        late = await client.post(f"{V1}/jobs", json={"workflow": "notes", "batch": batch})
        assert (late.status_code, late.json()["id"], late.json()["state"]) == (409, batch, "sealed")
        early = await client.post(f"{V1}/batches/{batch}/retry")
        assert (early.status_code, early.json()["state"]) == (409, "sealed")
        await api.run(*members)
        ended = (await client.get(f"{V1}/batches/{batch}")).json()
        assert (ended["state"], ended["completed"], ended["failed"]) == ("ended", 3, 1)
        assert (await client.get(f"{V1}/jobs/{ended['follow_up']}")).json()["payload"] == "all done"
        pages = await every_page(client, f"batches/{batch}/members", limit=2)
        assert [member["id"] for page in pages for member in page] == members
        assert [member["ended"] for page in pages for member in page] == ["completed"] * 3 + ["failed"]
        keeps("job-summary", pages[0][0]["job"])
        key = {"Idempotency-Key": "once"}
        second = await client.post(f"{V1}/batches/{batch}/retry", headers=key)
        assert (second.status_code, second.json()["generation"]) == (201, 2)
        assert (await client.post(f"{V1}/batches/{batch}/retry", headers=key)).json() == second.json()
        assert [one["id"] for one in await items(client, "batches", key="march")][-1:] == [batch]
        assert batch in [one["id"] for one in await items(client, "batches", open=False)]


@in_a_loop
async def test_batches_are_paged_and_filtered(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        made = [(await client.post(f"{V1}/batches", json={"key": f"b{n}"})).json()["id"] for n in range(5)]
        other = (await client.post(f"{V1}/batches", json={"tenant": "acme"})).json()["id"]
        pages = await every_page(client, "batches", limit=2, tenant="default")
        assert [one["id"] for page in pages for one in page] == made[::-1]
        assert [one["id"] for one in await items(client, "batches", tenant="acme", open=True)] == [other]
        for verb, path in [("GET", ""), ("GET", "/members"), ("POST", "/seal"), ("POST", "/retry")]:
            answer = await client.request(verb, f"{V1}/batches/{NEVER}{path}")
            assert (answer.status_code, answer.json()["detail"]) == (404, f"there is no batch {NEVER}")
        unknown = await client.post(f"{V1}/batches", json={"then": {"workflow": "nothing"}})
        assert unknown.status_code == 404


# Remote calls


@in_a_loop
async def test_a_quarantined_call_is_decided_by_a_person(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client(**{"X-Penstock-As": "ada"}) as client:
        made = await api.stock.calls("run", "run", "run", "run", "answer")
        await api.stock.doubt(*made[:3])
        waiting = await items(client, "calls", state="quarantined")
        assert {call["id"] for call in waiting} == {call.id for call in made[:3]}
        keeps("call-summary", waiting[0])
        adopted = await decided(client, made[0], "adopt", {"provider_id": "batches/run-1"})
        assert (adopted["state"], adopted["provider_id"]) == ("submitted", "batches/run-1")
        assert (await decided(client, made[1], "resubmit"))["state"] == "absent"
        assert (await decided(client, made[2], "discard"))["state"] == "discarded"
        assert (await decided(client, made[3], "cancel"))["unwanted"] is True
        shown = (await client.get(f"{V1}/calls/{made[0].id}")).json()
        keeps("call", shown)
        assert shown["decided_by"] == "ada"
        twice = await client.post(f"{V1}/calls/{made[2].id}/discard")
        assert (twice.status_code, twice.json()["state"], twice.json()["id"]) == (409, "discarded", made[2].id)
        over = await client.post(f"{V1}/calls/{made[4].id}/cancel")
        assert (over.status_code, over.json()["state"]) == (409, "collected")


async def decided(client: httpx2.AsyncClient, call: Call, decision: str, body: Any = None) -> dict[str, Any]:
    answer = await client.post(f"{V1}/calls/{call.id}/{decision}", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@in_a_loop
async def test_calls_are_paged_and_filtered_and_cost_money(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        made = await api.stock.calls("answer", "answer", "fail")
        await api.stock.calls("answer", tenant="acme")
        pages = await every_page(client, "calls", limit=1, tenant="default")
        assert {one["id"] for page in pages for one in page} == {call.id for call in made} and len(pages) >= 3
        assert [one["id"] for one in await items(client, "calls", job=made[0].job)] == [made[0].id]
        assert [one["id"] for one in await items(client, "calls", state=["failed"], remote="shop")] == [made[2].id]
        for verb, rest in [("GET", ""), ("POST", "/adopt"), ("POST", "/resubmit"), ("POST", "/discard"),
                           ("POST", "/cancel")]:  # fmt: skip
            answer = await client.request(verb, f"{V1}/calls/{NEVER}{rest}")
            assert (answer.status_code, answer.json()["detail"]) == (404, f"there is no call {NEVER}")
        costs = (await client.get(f"{V1}/costs", params={"by": ["tenant", "model"]})).json()
        keeps("costs", costs)
        assert [line["group"]["tenant"] for line in costs["costs"]] == ["default", "acme"]
        assert costs["total"]["cost_microdollars"] == 3 * 123_456
        past = (await client.get(f"{V1}/costs", params={"until": "2001-01-01T00:00:00Z"})).json()
        assert past["costs"] == []
        assert (await client.get(f"{V1}/costs", params={"since": "2001-01-01T00:00:00"})).status_code == 422
        assert (await client.get(f"{V1}/costs", params={"by": "moon"})).status_code == 422


# Budgets


@in_a_loop
async def test_budgets_are_set_listed_and_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        job = await submitted(client, "notes")
        batch = (await client.post(f"{V1}/batches", json={})).json()["id"]
        for scope in ("tenant:acme", f"job:{job}", f"batch:{batch}"):
            answer = await client.put(f"{V1}/budgets/{scope}", json={"budget_usd": 2.5})
            keeps("budget", answer.json())
            assert (answer.json()["scope"], answer.json()["left_microdollars"]) == (scope, 2_500_000)
        pages = await every_page(client, "budgets", limit=1)
        assert [page[0]["scope"] for page in pages] == sorted(["tenant:acme", f"job:{job}", f"batch:{batch}"])
        assert (await client.delete(f"{V1}/budgets/tenant:acme")).status_code == 204
        assert (await client.delete(f"{V1}/budgets/tenant:acme")).status_code == 404
        for scope in (f"job:{NEVER}", f"batch:{NEVER}"):
            assert (await client.put(f"{V1}/budgets/{scope}", json={"budget_usd": 1})).status_code == 404
        for scope, amount in (("moon:x", 1), ("tenant:acme", -1), ("tenant:acme", "much")):
            assert (await client.put(f"{V1}/budgets/{scope}", json={"budget_usd": amount})).status_code == 422


# Schedules


@in_a_loop
async def test_schedules_are_set_listed_and_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        asked = {"cron": "0 6 * * 1-5", "timezone": "Europe/Zurich", "workflow": "notes", "payload": {"n": 1}}
        made = await client.put(f"{V1}/schedules/nightly", json=asked)
        assert (made.status_code, made.json()["timezone"], made.json()["enabled"]) == (200, "Europe/Zurich", True)
        assert made.json()["payload"] == {"n": 1}
        off = await client.put(f"{V1}/schedules/nightly", json={**asked, "enabled": False, "priority": 3})
        assert off.json()["enabled"] is False
        await client.put(f"{V1}/schedules/nightly", json={**asked, "tenant": "acme"})
        await client.put(f"{V1}/schedules/daily", json=asked)
        pages = await every_page(client, "schedules", limit=1)
        told = [(one["tenant"], one["name"]) for page in pages for one in page]
        assert told == [("acme", "nightly"), ("default", "daily"), ("default", "nightly")]
        assert len(await items(client, "schedules", tenant="acme")) == 1
        assert (await client.delete(f"{V1}/schedules/nightly")).status_code == 204
        assert (await client.delete(f"{V1}/schedules/nightly")).status_code == 404
        assert (await client.delete(f"{V1}/schedules/nightly", params={"tenant": "acme"})).status_code == 204
        for wrong, status in [
            ({"cron": "every day"}, 422), ({"timezone": "Moon/Base"}, 422), ({"timezone": "../../etc/passwd"}, 422),
            ({"workflow": "nothing"}, 404), ({"workflow": "scans", "payload": {}}, 422),
        ]:  # fmt: skip
            answer = await client.put(f"{V1}/schedules/s", json={**asked, **wrong})
            assert answer.status_code == status, wrong


# Dead letters


@in_a_loop
async def test_dead_letters_are_listed_and_run_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        dead = [await submitted(client, "breaks", n, key=str(n)) for n in range(5)]
        fine = await submitted(client, "notes")
        await api.run(*dead, fine)
        pages = await every_page(client, "dead-letters", limit=2)
        assert [one["id"] for page in pages for one in page] == dead[::-1]
        assert await items(client, "dead-letters", workflow="notes") == []
        one = (await client.post(f"{V1}/dead-letters/retry", json={"ids": [dead[0], fine, NEVER, dead[0]]})).json()
        assert (one["retried"], one["refused"]) == (1, 2)
        assert [(item["id"], item["job"] is None) for item in one["items"]] == [
            (dead[0], False), (fine, True), (NEVER, True)
        ]  # fmt: skip
        rest = (await client.post(f"{V1}/dead-letters/retry", json={"workflow": "breaks", "limit": 3})).json()
        assert {item["id"] for item in rest["items"]} == set(dead[2:]) and rest["refused"] == 0
        assert [one["id"] for one in await items(client, "dead-letters")] == [dead[1]]
        for wrong in ({}, {"ids": []}, {"ids": [NEVER] * 1001}, {"ids": [NEVER], "workflow": "breaks"},
                      {"workflow": "breaks", "limit": 1001}):  # fmt: skip
            assert (await client.post(f"{V1}/dead-letters/retry", json=wrong)).status_code == 422


# Locks, workers, workflows, counts, audit, tokens


@in_a_loop
async def test_locks_say_who_holds_what_and_workers_who_is_alive(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        jobs = [await submitted(client, "holds", f"door {n}") for n in range(3)]
        await api.run(*jobs, until="waiting")
        pages = await every_page(client, "locks", limit=2)
        assert [(lock["name"], lock["job"]) for page in pages for lock in page] == [
            (f"door {n}", job) for n, job in enumerate(jobs)
        ]
        assert [lock["name"] for lock in await items(client, "locks", job=jobs[1])] == ["door 1"]
        assert [lock["job"] for lock in await items(client, "locks", name="door 2")] == [jobs[2]]
        assert await items(client, "locks", tenant="acme") == []
        async with api.penstock.worker():
            (worker,) = await items(client, "workers")
            assert worker["alive"] is True and worker["holds"] == 0


@in_a_loop
async def test_workflows_say_what_they_take(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        known = await items(client, "workflows")
        assert [one["name"] for one in known] == ["breaks", "holds", "notes", "orders", "scans"]
        holds = (await client.get(f"{V1}/workflows/holds")).json()
        assert (holds["steps"], holds["cleanup"]) == (["hold"], "let_go")
        scans = (await client.get(f"{V1}/workflows/scans")).json()
        assert scans["payload_schema"]["required"] == ["pages"]
        assert (await client.get(f"{V1}/workflows/nothing")).status_code == 404


@in_a_loop
async def test_counts_are_by_workflow_and_status(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        await submitted(client, "notes")
        await submitted(client, "notes", tenant="acme")
        told = (await client.get(f"{V1}/counts")).json()
        assert told == {"items": [{"workflow": "notes", "status": "queued", "count": 2}], "total": 2}
        assert (await client.get(f"{V1}/counts", params={"tenant": "acme"})).json()["total"] == 1


@in_a_loop
async def test_the_audit_log_is_paged_and_filtered(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client(**{"X-Penstock-As": "ada"}) as client:
        jobs = [await submitted(client, "holds", n) for n in range(3)]
        for job in jobs:
            await client.post(f"{V1}/jobs/{job}/pause", json={"reason": "lunch"})
        pages = await every_page(client, "audit", action="job.pause", limit=1)
        found = [one for page in pages for one in page]
        assert [one["target"] for one in found] == [f"job:{job}" for job in jobs[::-1]]
        assert {(one["actor"], one["detail"], one["tenant"]) for one in found} == {("ada", "lunch", "default")}
        assert await items(client, "audit", actor="bob") == []
        assert len(await items(client, "audit", target=f"job:{jobs[0]}", action="job.pause")) == 1


@in_a_loop
async def test_the_audit_log_names_the_job_that_a_retry_has_started(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        job = await submitted(client, "breaks")
        await api.run(job)
        again = (await client.post(f"{V1}/jobs/{job}/retry")).json()["id"]
        (told,) = await items(client, "audit", action="job.retry")
        assert (told["target"], told["detail"]) == (f"job:{job}", f"as job {again}")


@in_a_loop
async def test_tokens_are_listed_without_their_secrets(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        secret = await api.secret("boss", "admin")
        bound = await api.secret("acme-boss", "admin", tenant="acme")
        async with api.client(secret) as client, api.client(bound) as theirs:
            answer = await client.get(f"{V1}/tokens")
            assert [one["name"] for one in answer.json()["items"]] == ["acme-boss", "boss"]
            assert "hash" not in answer.text and secret not in answer.text
            for one in answer.json()["items"]:
                keeps("token", one)
            assert [one["name"] for one in await items(theirs, "tokens")] == ["acme-boss"]


# Who may


@in_a_loop
async def test_scopes_are_checked(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        async with api.client() as nobody:
            refused = await nobody.get(f"{V1}/jobs")
            assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Bearer")
        async with (
            api.client(await api.secret("reads", "read")) as reader,
            api.client(await api.secret("works", "operate")) as operator,
            api.client(await api.secret("acme-works", "operate", tenant="acme")) as bound,
        ):
            assert (await reader.get(f"{V1}/jobs")).status_code == 200
            assert (await reader.post(f"{V1}/jobs", json={"workflow": "notes"})).status_code == 403
            assert (await reader.get(f"{V1}/audit")).status_code == 403
            assert (await operator.post(f"{V1}/jobs", json={"workflow": "notes"})).status_code == 201
            assert (await operator.get(f"{V1}/audit")).status_code == 403
            assert (await operator.get(f"{V1}/tokens")).status_code == 403
            assert (await operator.put(f"{V1}/budgets/tenant:a", json={"budget_usd": 1})).status_code == 403
            mine = (await bound.post(f"{V1}/jobs", json={"workflow": "notes"})).json()["job"]
            assert mine["tenant"] == "acme"
            assert {one["tenant"] for one in await items(bound, "audit")} == {"acme"}
            assert (await bound.get(f"{V1}/workers")).status_code == 403


# Health


@in_a_loop
async def test_health_needs_no_token_and_says_when_it_is_stopping(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api, api.client() as client:
        assert (await client.get("/health/live")).json() == {"live": True}
        assert (await client.get("/health/ready")).json() == {"ready": True, "reasons": []}
        api.service.draining = True
        stopping = await client.get("/health/ready")
        assert (stopping.status_code, stopping.json()["reasons"]) == (503, ["it is stopping"])
        assert (await client.get("/health/live")).status_code == 200


@in_a_loop
async def test_a_service_whose_store_does_not_answer_is_alive_and_not_ready(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        await silenced(api)
        answer = await client.get("/health/ready")
        assert answer.status_code == 503 and "did not answer within" in answer.json()["reasons"][0]
        assert (await client.get("/health/live")).status_code == 200


async def silenced(api: Api) -> None:
    """The store takes questions and says nothing."""

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    store: Any = api.penstock.engine.store
    store.rows = never


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "STORE_ANSWERS_WITHIN", 1.0)
