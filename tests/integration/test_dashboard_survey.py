"""What pages count and read of the whole: kept for a while, and an error where there is one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.errors import StoreUnavailable
from penstock.service import census
from penstock.service.dashboard import survey
from penstock.service.dashboard.pages import batches
from penstock.store.protocol import SetLimits
from tests.integration.test_dashboard_pages import Tab
from tests.support.api import serving
from tests.support.house import in_a_loop


@in_a_loop
async def test_a_count_that_fails_is_told_as_the_stores_error_and_not_as_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as api:
        await api.penstock.submit("notes", 1)
        store, count = api.penstock.engine.store, api.penstock.engine.store.count

        async def away(**options: Any) -> Any:
            raise StoreUnavailable("the database is restarting")

        monkeypatch.setattr(store, "count", away)
        tab = Tab(api.client())
        page = await tab.open("/ui/jobs", status=503)
        assert "Not available now" in page
        counts = survey.Survey(api.service)
        with pytest.raises(StoreUnavailable):
            await counts.look(None)
        monkeypatch.setattr(store, "count", count)
        assert (await counts.look(None)).jobs == 1
        await tab.open("/ui/jobs")


@in_a_loop
async def test_counts_are_counted_once_for_many_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AT_LEAST", "OLDEST"):
        monkeypatch.setattr(census, name, 3600.0)
    async with serving(tmp_path) as api:
        await api.penstock.submit("notes", 1)
        store, count, counted = api.penstock.engine.store, api.penstock.engine.store.count, 0

        async def counting(**options: Any) -> Any:
            nonlocal counted
            counted += 1
            return await count(**options)

        monkeypatch.setattr(store, "count", counting)
        client = api.client()
        for _ in range(5):
            assert (await client.get("/api/v1/counts")).json()["total"] == 1
        assert "penstock_jobs" in (await client.get("/metrics")).text
        assert counted == 1


@in_a_loop
async def test_what_a_batch_cost_is_not_added_up_for_every_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "COSTS_KEPT", 3600.0)
    monkeypatch.setattr(survey, "OLDEST", 3600.0)
    async with serving(tmp_path) as api:
        batch = await api.penstock.open_batch(key="b")
        costs, asked = api.penstock.costs, 0

        async def asking(**options: Any) -> Any:
            nonlocal asked
            asked += 1
            return await costs(**options)

        monkeypatch.setattr(api.penstock, "costs", asking)
        tab = Tab(api.client())
        for _ in range(2):
            await tab.open(f"/ui/batches/{batch.id}")
        assert asked == 1


@in_a_loop
async def test_what_calls_hold_of_a_resource_is_in_use(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.penstock.engine.group.do(SetLimits({"resource:gpu": 4}))
        order = {"remote": "shop", "does": "run", "resources": ["gpu"]}
        jobs = [(await api.penstock.submit("orders", order)).job_id for _ in range(3)]
        await api.run(*jobs, until="waiting")
        page = re.sub(r"\s+", " ", await Tab(api.client()).open("/ui/workers"))
        assert "3 of 4 in use" in page
