"""What is put off while the queue is full, what is answered all the same, and what a refused submit says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.service.api import limits
from tests.support.api import serving
from tests.support.house import in_a_loop

V1 = "/api/v1"
JOBS = f"{V1}/jobs"
NOTE = {"workflow": "notes", "payload": 1}
FULL = (429, "/problems/queue-full")


def told(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("type", "")


@pytest.fixture
def looked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is asked for its backlog at the first submit alone: from then on what is let in is counted."""
    monkeypatch.setattr(limits, "LOOK_EVERY", float("inf"))


@pytest.mark.usefixtures("looked_once")
def test_all_jobs_of_one_request_are_counted(tmp_path: Path) -> None:
    @in_a_loop
    async def main() -> None:
        async with serving(tmp_path, queue_limit=5) as api, api.client() as client:
            assert (await client.post(f"{JOBS}/many", json={"jobs": [NOTE] * 5})).status_code == 201
            assert told(await client.post(JOBS, json=NOTE)) == FULL

    main()


@pytest.mark.parametrize(("path", "body"), [(JOBS, NOTE), (f"{JOBS}/many", {"jobs": [NOTE, NOTE]})])
def test_what_was_done_already_is_answered_while_the_queue_is_full(tmp_path: Path, path: str, body: Any) -> None:
    @in_a_loop
    async def main() -> None:
        async with serving(tmp_path, queue_limit=2) as api, api.client() as client:
            first = await client.post(path, json=body, headers={"Idempotency-Key": "a"})
            while (await client.post(JOBS, json=NOTE)).status_code == 201:
                pass
            again = await client.post(path, json=body, headers={"Idempotency-Key": "a"})
            assert (again.status_code, again.json()) == (first.status_code, first.json())
            assert told(await client.post(path, json=body, headers={"Idempotency-Key": "b"})) == FULL
            other = {**NOTE, "payload": 2} if path == JOBS else {"jobs": [NOTE]}
            reused = await client.post(path, json=other, headers={"Idempotency-Key": "a"})
            assert told(reused) == (422, "/problems/idempotency-key-reused")

    main()


@in_a_loop
async def test_retries_are_put_off_while_the_queue_is_full(tmp_path: Path) -> None:
    async with serving(tmp_path, queue_limit=3) as api, api.client() as client:
        batch = (await client.post(f"{V1}/batches", json={})).json()["id"]
        member = (await client.post(JOBS, json={"workflow": "breaks", "batch": batch})).json()["job"]["id"]
        alone = (await client.post(JOBS, json={"workflow": "breaks"})).json()["job"]["id"]
        await client.post(f"{V1}/batches/{batch}/seal")
        await api.run(member, alone)
        await api.penstock.submit_many("notes", [1, 2, 3])
        while (await client.post(JOBS, json=NOTE)).status_code == 201:
            pass
        assert told(await client.post(f"{V1}/batches/{batch}/retry")) == FULL
        for body in ({"ids": [alone]}, {"workflow": "breaks"}):
            assert told(await client.post(f"{V1}/dead-letters/retry", json=body)) == FULL
        nothing = await client.post(f"{V1}/dead-letters/retry", json={"workflow": "notes"})
        assert (nothing.status_code, nothing.json()["retried"]) == (200, 0)
        assert len(await api.penstock.jobs(workflow="breaks")) == 2


@in_a_loop
async def test_asking_again_for_the_dead_letters_of_a_workflow_runs_the_next_ones(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        made = [(await client.post(JOBS, json={"workflow": "breaks"})).json()["job"]["id"] for _ in range(3)]
        await api.run(*made)
        for body, wanted in (({"workflow": "breaks", "limit": 1}, [2, 1]), ({"ids": made[:1]}, [0, None])):
            for place in wanted:
                answer = (await client.post(f"{V1}/dead-letters/retry", json=body)).json()
                retried = [item["id"] for item in answer["items"] if item["job"]]
                assert retried == ([] if place is None else [made[place]])


@in_a_loop
async def test_a_key_is_of_one_path(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client(**{"Idempotency-Key": "k"}) as client, api.client() as plain:
        batches = []
        for _ in range(2):
            batch = (await plain.post(f"{V1}/batches", json={})).json()["id"]
            job = (await plain.post(JOBS, json={"workflow": "breaks", "batch": batch})).json()["job"]["id"]
            await plain.post(f"{V1}/batches/{batch}/seal")
            await api.run(job)
            batches.append(batch)
        first = await client.post(f"{V1}/batches/{batches[0]}/retry")
        assert first.status_code == 201
        reused = await client.post(f"{V1}/batches/{batches[1]}/retry")
        assert told(reused) == (422, "/problems/idempotency-key-reused")


@in_a_loop
async def test_many_jobs_are_refused_with_what_stands_in_their_way(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        job = (await client.post(JOBS, json={**NOTE, "key": "a"})).json()["job"]["id"]
        await api.penstock.pause(job)
        batch = (await client.post(f"{V1}/batches", json={})).json()["id"]
        await client.post(JOBS, json={**NOTE, "batch": batch})
        await client.post(f"{V1}/batches/{batch}/seal")
        for wrong, about, state in (
            ([{**NOTE, "key": "a", "payload": 2}], job, "paused"),
            ([{**NOTE, "batch": batch}], batch, "sealed"),
            ([{**NOTE, "key": "new"}, {**NOTE, "key": "new", "payload": 2}], None, None),
        ):
            refused = await client.post(f"{JOBS}/many", json={"jobs": [NOTE, *wrong]})
            assert (refused.status_code, refused.json()["id"], refused.json()["state"]) == (409, about, state)
