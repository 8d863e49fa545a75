"""Jobs over HTTP: started, listed, shown, steered. Every answer is held against the OpenAPI document."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2

from penstock.service.api.limits import LOOK_EVERY
from tests.support.api import Api, serving
from tests.support.house import in_a_loop
from tests.support.schemas import keeps

JOBS = "/api/v1/jobs"


async def submitted(client: httpx2.AsyncClient, workflow: str = "notes", **more: Any) -> dict[str, Any]:
    answer = await client.post(JOBS, json={"workflow": workflow, "payload": {"n": 1}, **more})
    assert answer.status_code == 201, answer.text
    job: dict[str, Any] = answer.json()["job"]
    return job


@in_a_loop
async def test_a_job_is_submitted_run_and_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        asked = {"workflow": "notes", "payload": {"n": 1}, "key": "k", "priority": 70, "queue": "default", "budget": 2}
        answer = await client.post(JOBS, json=asked)
        assert answer.status_code == 201
        keeps("jobs-submit", answer.json())
        job = answer.json()["job"]
        assert answer.headers["location"] == f"{JOBS}/{job['id']}"
        assert (job["status"], job["priority"], job["key"], job["payload"]) == ("queued", 70, "k", {"n": 1})
        await api.run(job["id"])
        shown = (await client.get(f"{JOBS}/{job['id']}")).json()
        keeps("job", shown)
        assert (shown["status"], shown["result"]) == ("completed", {"n": 1})
        timeline = (await client.get(f"{JOBS}/{job['id']}/timeline")).json()
        assert [event["kind"] for event in timeline["items"]][-1] == "done" and timeline["next"] is None
        for event in timeline["items"]:
            keeps("event", event)
        logs = (await client.get(f"{JOBS}/{job['id']}/logs")).json()["items"]
        assert [(line["text"], line["step"], line["level"]) for line in logs] == [("noted", "note", "info")]
        (budget,) = (await client.get("/api/v1/budgets")).json()["items"]
        assert (budget["scope"], budget["budget_usd"]) == (f"job:{job['id']}", 2.0)


@in_a_loop
async def test_a_key_that_exists_answers_its_job_and_another_payload_is_a_conflict(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        first = await submitted(client, key="k")
        again = await client.post(JOBS, json={"workflow": "notes", "payload": {"n": 1}, "key": "k"})
        assert (again.status_code, again.json()["created"], again.json()["job"]["id"]) == (200, False, first["id"])
        other = await client.post(JOBS, json={"workflow": "notes", "payload": {"n": 2}, "key": "k"})
        assert other.status_code == 409
        assert (other.json()["id"], other.json()["state"]) == (first["id"], "queued")
        await api.run(first["id"])
        once_more = await submitted(client, key="k", again=True)
        assert once_more["run"] == 2


@in_a_loop
async def test_what_does_not_fit_the_workflow_is_told_part_by_part(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        answer = await client.post(JOBS, json={"workflow": "scans", "payload": {"pages": "s3cret", "title": 4}})
        assert answer.status_code == 422
        assert [error["location"] for error in answer.json()["errors"]] == ["body.payload.pages", "body.payload.title"]
        assert "s3cret" not in answer.text
        unknown = await client.post(JOBS, json={"workflow": "nothing", "payload": 1})
        assert unknown.status_code == 404
        mistaken = await client.post(JOBS, json={"workflow": "notes", "payload": 1, "prority": 5})
        assert mistaken.json()["errors"][0]["location"] == "body.prority"
        no_batch = await client.post(JOBS, json={"workflow": "notes", "batch": "0" * 20})
        assert no_batch.status_code == 404
        assert (await client.get("/api/v1/counts")).json()["total"] == 0


WRONG_FIELDS: list[tuple[str, Any]] = [
    ("workflow", ""), ("workflow", "a/b"), ("workflow", None), ("key", ""), ("key", "x" * 501), ("key", 5),
    ("after", -1), ("after", "soon"), ("priority", 101), ("priority", 1.5), ("queue", "a b"), ("tenant", "a/b"),
    ("budget", -1), ("again", "perhaps"), ("batch", "../x"),
]  # fmt: skip


@in_a_loop
async def test_a_field_that_is_wrong_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        for field, value in WRONG_FIELDS:
            answer = await client.post(JOBS, json={"workflow": "notes", "payload": 1, field: value})
            assert answer.status_code == 422, field
            assert answer.json()["errors"][0]["location"] == f"body.{field}"


@in_a_loop
async def test_people_steer_a_job_and_its_history_says_who(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client(**{"X-Penstock-As": "ada"}) as client:
        job = await submitted(client, "holds")
        at = f"{JOBS}/{job['id']}"
        paused = await client.post(f"{at}/pause", json={"reason": "lunch"})
        assert (paused.status_code, paused.json()["status"], paused.json()["reason"]) == (200, "paused", "lunch")
        keeps("job-summary", paused.json())
        assert (await client.post(f"{at}/resume")).json()["status"] == "queued"
        refused = await client.post(f"{at}/resume")
        assert (refused.status_code, refused.json()["state"], refused.json()["id"]) == (409, "queued", job["id"])
        canceled = (await client.post(f"{at}/cancel")).json()
        assert canceled["status"] in ("canceling", "canceled")
        if canceled["status"] == "canceling":
            await api.run(job["id"])
        assert (await client.post(f"{at}/pause")).json()["state"] == "canceled"
        by = {event["by"] for event in (await client.get(f"{at}/timeline")).json()["items"]}
        assert "ada" in by
        audit = (await client.get("/api/v1/audit", params={"target": f"job:{job['id']}"})).json()["items"]
        assert {(entry["actor"], entry["via"]) for entry in audit} == {("ada", "loopback")}
        assert {"job.submit", "job.pause", "job.cancel"} <= {entry["action"] for entry in audit}


@in_a_loop
async def test_a_failed_job_runs_again_as_its_next_run(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        job = await submitted(client, "breaks", key="k")
        await api.run(job["id"])
        again = await client.post(f"{JOBS}/{job['id']}/retry")
        assert (again.status_code, again.json()["run"], again.json()["key"]) == (200, 2, "k")
        assert again.json()["id"] != job["id"]


@in_a_loop
async def test_a_job_that_never_was_is_not_found_on_every_path(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        for verb, rest in [
            ("GET", ""), ("GET", "/timeline"), ("GET", "/logs"), ("POST", "/pause"), ("POST", "/resume"),
            ("POST", "/cancel"), ("POST", "/retry"),
        ]:  # fmt: skip
            answer = await client.request(verb, f"{JOBS}/{'0' * 20}{rest}")
            assert answer.status_code == 404 and answer.json()["detail"] == f"there is no job {'0' * 20}"


# Lists


@in_a_loop
async def test_a_list_is_filtered(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        failed = await submitted(client, "breaks", key="f")
        done = await submitted(client, key="d", tenant="acme")
        await api.run(failed["id"], done["id"])
        batch = (await client.post("/api/v1/batches", json={})).json()["id"]
        member = await submitted(client, key="m", batch=batch)

        async def ids(**params: Any) -> list[str]:
            return [job["id"] for job in (await client.get(JOBS, params=params)).json()["items"]]

        assert await ids() == [member["id"], done["id"], failed["id"]]
        assert await ids(tenant="acme") == [done["id"]]
        assert await ids(workflow="breaks") == [failed["id"]]
        assert await ids(status=["failed", "completed"]) == [done["id"], failed["id"]]
        assert await ids(key="m") == [member["id"]]
        assert await ids(batch=batch) == [member["id"]]
        assert await ids(parent=member["id"]) == []
        assert await ids(dead=True) == [failed["id"]]
        assert await ids(limit=1) == [member["id"]]
        plain = (await client.get(JOBS)).json()["items"][0]
        assert "payload" not in plain and "result" not in plain
        keeps("job-summary", plain)
        full = (await client.get(JOBS, params={"include": "payload"})).json()["items"][0]
        assert full["payload"] == {"n": 1}


WRONG_QUERIES = (
    "limit=0", "limit=501", "limit=x", "cursor=garbage", "cursor=W10", "cursor=WzFd", "cursor=bnVsbA", "cursor=",
    "cursor=%00", "cursor=WyJcdWQ4MDAiXQ", "status=lost", "include=all", "tenant=a%2Fb", "key=%00", "batch=%00",
    "dead=perhaps", "cursor=" + "x" * 3000,
)  # fmt: skip


@in_a_loop
async def test_a_query_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        for query in WRONG_QUERIES:
            answer = await client.get(f"{JOBS}?{query}")
            assert answer.status_code == 422, query
            assert answer.json()["errors"][0]["location"].split(".")[1] == query.partition("=")[0]


@in_a_loop
async def test_pages_lose_and_repeat_nothing_while_new_jobs_arrive(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        many = {"jobs": [{"workflow": "notes", "payload": n} for n in range(1000)]}
        there = {job["id"] for job in (await client.post(f"{JOBS}/many", json=many)).json()["jobs"]}
        seen: list[str] = []
        cursor: str | None = None
        while True:
            await submitted(client)
            params = {"limit": "70"} | ({"cursor": cursor} if cursor else {})
            page = (await client.get(JOBS, params=params)).json()
            seen += [job["id"] for job in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert len(seen) == len(set(seen)) and there <= set(seen)
        assert seen == sorted(seen, reverse=True)


@in_a_loop
async def test_a_timeline_is_paged(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        job = await submitted(client, "holds")
        for _ in range(3):
            await client.post(f"{JOBS}/{job['id']}/pause")
            await client.post(f"{JOBS}/{job['id']}/resume")
        whole = (await client.get(f"{JOBS}/{job['id']}/timeline")).json()["items"]
        first = (await client.get(f"{JOBS}/{job['id']}/timeline?limit=4")).json()
        rest = (await client.get(f"{JOBS}/{job['id']}/timeline?limit=100&cursor={first['next']}")).json()
        assert first["items"] + rest["items"] == whole and rest["next"] is None


# Many at once


@in_a_loop
async def test_many_jobs_are_stored_together_or_not_at_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        two = [{"workflow": "notes", "payload": 1, "key": "a"}, {"workflow": "scans", "payload": {"pages": 1}}]
        answer = await client.post(f"{JOBS}/many", json={"jobs": two})
        assert answer.status_code == 201
        assert (answer.json()["created"], [job["created"] for job in answer.json()["jobs"]]) == (2, [True, True])
        known = await client.post(f"{JOBS}/many", json={"jobs": two[:1]})
        assert (known.status_code, known.json()["created"]) == (200, 0)
        for wrong, status in [
            ({"workflow": "scans", "payload": {}}, 422),
            ({"workflow": "notes", "payload": 2, "key": "a"}, 409),
            ({"workflow": "nothing"}, 404),
        ]:
            refused = await client.post(f"{JOBS}/many", json={"jobs": [{"workflow": "notes"}, wrong]})
            assert refused.status_code == status
        assert (await client.post(f"{JOBS}/many", json={"jobs": []})).status_code == 422
        assert (await client.get("/api/v1/counts")).json()["total"] == 2


@in_a_loop
async def test_ten_thousand_jobs_are_one_request_and_one_more_is_too_many(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        jobs = [{"workflow": "notes", "payload": n} for n in range(10_000)]
        assert (await client.post(f"{JOBS}/many", json={"jobs": [*jobs, jobs[0]]})).status_code == 422
        assert (await client.post(f"{JOBS}/many", json={"jobs": jobs})).json()["created"] == 10_000
        assert (await client.get("/api/v1/counts")).json()["total"] == 10_000


# Idempotency-Key


@in_a_loop
async def test_the_same_key_twenty_times_at_once_is_one_job(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client(**{"Idempotency-Key": "upload 17"}) as client:
        asked = [client.post(JOBS, json={"workflow": "notes", "payload": {"n": 1}}) for _ in range(20)]
        answers = await asyncio.gather(*asked)
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["job"]["id"] for answer in answers}) == 1
        assert (await client.get("/api/v1/counts")).json()["total"] == 1


@in_a_loop
async def test_a_key_belongs_to_the_request_it_came_with(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        key = {"Idempotency-Key": "k"}
        many = {"jobs": [{"workflow": "notes", "payload": 1}]}
        batch = (await client.post("/api/v1/batches", json={}, headers=key)).json()["id"]
        for path, body, other in [
            (JOBS, {"workflow": "notes", "payload": 1}, {"workflow": "notes", "payload": 2}),
            (f"{JOBS}/many", many, {"jobs": many["jobs"] * 2}),
            ("/api/v1/batches", {}, {"limit": 3}),
        ]:
            first = await client.post(path, json=body, headers=key)
            again = await client.post(path, json=body, headers=key)
            assert again.json() == first.json() and again.status_code == first.status_code == 201
            refused = await client.post(path, json=other, headers=key)
            assert (refused.status_code, refused.json()["type"]) == (422, "/problems/idempotency-key-reused")
        assert (await client.get("/api/v1/counts")).json()["total"] == 2
        assert [one["id"] for one in (await client.get("/api/v1/batches")).json()["items"]] == [batch]


@in_a_loop
async def test_a_request_that_is_sent_again_answers_with_its_job_as_it_is_now(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client(**{"Idempotency-Key": "k"}) as client:
        first = (await client.post(JOBS, json={"workflow": "notes", "payload": 1})).json()
        await api.run(first["job"]["id"])
        again = await client.post(JOBS, json={"workflow": "notes", "payload": 1})
        assert (again.status_code, again.json()["created"]) == (201, True)
        assert again.json()["job"]["id"] == first["job"]["id"]
        assert (first["job"]["status"], again.json()["job"]["status"]) == ("queued", "completed")


@in_a_loop
async def test_a_key_of_one_tenant_is_none_of_another(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client(**{"Idempotency-Key": "k"}) as client:
        one = await submitted(client, tenant="acme")
        other = await submitted(client, tenant="bolt")
        assert one["id"] != other["id"]


@in_a_loop
async def test_a_key_must_be_printable_and_not_too_long(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        for key in (b"", b"x" * 256, b"caf\xe9", b"a\tb"):
            answer = await client.post(JOBS, json={"workflow": "notes"}, headers=[(b"Idempotency-Key", key)])
            assert answer.status_code == 422, key
            assert answer.json()["errors"][0]["location"] == "header.Idempotency-Key"


# Backpressure


async def full(client: httpx2.AsyncClient, most: int) -> httpx2.Response:
    """Submit until it is refused. What was let in since the store was last asked counts, so that is soon."""
    for _ in range(most + 1):
        answer = await client.post(JOBS, json={"workflow": "notes", "payload": 1})
        if answer.status_code != 201:
            return answer
    raise AssertionError("the queue was never full")


@in_a_loop
async def test_submits_are_put_off_while_the_queue_is_full(tmp_path: Path) -> None:
    async with serving(tmp_path, queue_limit=5) as api, api.client() as client:
        answer = await full(client, 5)
        assert (answer.status_code, answer.json()["type"]) == (429, "/problems/queue-full")
        assert int(answer.headers["retry-after"]) >= 1
        many = await client.post(f"{JOBS}/many", json={"jobs": [{"workflow": "notes"}]})
        assert many.status_code == 429
        assert (await client.get("/api/v1/counts")).json()["total"] == 5
        await drained(api)
        async with asyncio.timeout(30):
            while (await client.post(JOBS, json={"workflow": "notes", "payload": 1})).status_code == 429:
                await asyncio.sleep(LOOK_EVERY / 5)


async def drained(api: Api) -> None:
    await api.run(*(job.id for job in await api.penstock.jobs()))


@in_a_loop
async def test_the_store_is_not_asked_for_its_backlog_by_every_submit(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        store: Any = api.penstock.engine.store
        asked = 0
        rows = store.rows

        async def counting(sql: str, args: tuple[Any, ...]) -> Any:
            nonlocal asked
            asked += "phase = 'ready'" in sql and "count" in sql
            return await rows(sql, args)

        store.rows = counting
        clock = api.penstock.engine.clock
        began = clock.monotonic()
        for n in range(50):
            await submitted(client, key=str(n))
        assert 1 <= asked <= 2 + (clock.monotonic() - began) / LOOK_EVERY
