"""`/metrics`: right whoever does the work, bounded whatever is asked, and as documented."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from penstock.engine.errors import StoreUnavailable
from penstock.service.census import Reading
from penstock.service.metrics import Metrics, counted
from penstock.service.traffic import Traffic, route_of
from tests.support.api import serving
from tests.support.cli import Cli

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, tuple(sorted(labels.items()))))


def total(found: Samples, name: str) -> float:
    return sum(amount for (known, _), amount in found.items() if known == name)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.stop()


class Served:
    """A service process that runs no jobs."""

    def __init__(self, cli: Cli) -> None:
        cli.start("up", "--no-worker", "--port", "0", "--json")
        cli.until(lambda: '"url"' in cli.log and "}" in cli.log, "the service")
        (address,) = re.findall(r'"url":\s*"([^"]+)"', cli.log)
        self.client = httpx2.Client(base_url=address, timeout=PATIENCE)

    def submit(self, workflow: str, payloads: list[Any]) -> None:
        for payload in payloads:
            answer = self.client.post("/api/v1/jobs", json={"workflow": workflow, "payload": payload})
            assert answer.status_code == 201, answer.text

    def metrics(self) -> Samples:
        answer = self.client.get("/metrics")
        assert answer.status_code == 200, answer.text
        return samples(answer.text)

    def until(self, name: str, wanted: float, **labels: str) -> Samples:
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.metrics()
            if value(found, name, **labels) == wanted:
                return found
            told = {key: amount for key, amount in found.items() if key[0] == name}
            assert time.monotonic() < deadline, f"{name}{labels} should be {wanted}: {told}"
            time.sleep(0.05)


@pytest.fixture
def served(cli: Cli) -> Iterator[Served]:
    served = Served(cli)
    with served.client:
        yield served


def test_totals_are_exact_when_two_workers_run_the_jobs_and_go_on_growing_after_a_restart(
    cli: Cli, served: Served
) -> None:
    served.submit("hello", [f"n{n}" for n in range(20)])
    served.submit("bad", list(range(3)))
    workers = [cli.start_worker("--concurrency", "2") for _ in range(2)]
    before = served.until("penstock_jobs", 3, workflow="bad", status="failed")
    served.until("penstock_jobs", 20, workflow="hello", status="completed")
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0

    found = served.metrics()
    assert value(found, "penstock_ticks_total", workflow="hello", step="greet", outcome="done") == 20
    assert value(found, "penstock_ticks_total", workflow="bad", step="fall", outcome="retry") == 3
    assert value(found, "penstock_ticks_total", workflow="bad", step="fall", outcome="fail") == 3
    assert value(found, "penstock_jobs_ended_total", workflow="hello", status="completed") == 20
    assert value(found, "penstock_jobs_ended_total", workflow="bad", status="failed") == 3
    assert value(found, "penstock_tick_seconds_count", workflow="hello", step="greet") == 20
    assert value(found, "penstock_queue_seconds_count", workflow="bad") == 3
    assert value(found, "penstock_dead_letters") == 3
    served.until("penstock_workers", 0)
    assert all(amount >= before[key] for key, amount in found.items() if key in before and key[0].endswith("_total"))

    served.submit("hello", ["again"])
    worker = cli.start_worker()
    served.until("penstock_jobs", 21, workflow="hello", status="completed")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE) == 0
    found = served.metrics()
    assert value(found, "penstock_jobs_ended_total", workflow="hello", status="completed") == 21
    assert value(found, "penstock_tick_seconds_count", workflow="hello", step="greet") == 21


def test_a_job_taken_away_from_a_dead_worker_counts_as_a_crash(cli: Cli, served: Served) -> None:
    served.submit("held", ["mark"])
    worker = cli.start_worker()
    cli.until_file("mark")
    assert value(served.metrics(), "penstock_workers") == 1
    (process,) = psutil.Process(worker.pid).children()
    process.kill()
    served.until("penstock_crashes_total", 1, workflow="held")
    cli.file("go").touch()
    served.until("penstock_jobs_ended_total", 1, workflow="held", status="completed")


def test_a_service_that_sends_to_webhooks_and_runs_no_jobs_has_no_worker(cli: Cli) -> None:
    hook = {"url": "http://127.0.0.1:9/", "secret": "at least sixteen characters"}
    cli.file("penstock.yaml").write_text(yaml.safe_dump({"webhooks": {"ops": hook}}))
    served = Served(cli)
    with served.client:
        served.submit("hello", ["a"])
        (sender,) = served.client.get("/api/v1/workers").json()["items"]
        assert (sender["alive"], sender["info"]["internal"]) == (True, True)
        found = served.metrics()
        assert value(found, "penstock_workers") == 0
        assert not [labels for name, labels in found if name == "penstock_worker_held_jobs"]
        deadline = time.monotonic() + PATIENCE
        while "No worker is alive" not in served.client.get("/").text:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    checks = {check["name"]: check["detail"] for check in cli("doctor", "--json").json["checks"]}
    assert checks["workers"] == "none alive, 1 unfinished job"
    assert "No worker is alive" in cli("jobs", "submit", "hello", "--payload", '"b"').err


def test_calls_tokens_and_money_are_counted_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api:
            await api.penstock.set_budget("tenant:default", 5.0)
            job = await api.penstock.submit("orders", {"remote": "shop", "does": "answer"})
            await api.run(job.job_id)
            running = await api.penstock.submit("orders", {"remote": "shop", "does": "run"})
            await api.run(running.job_id, until="waiting")
            await api.penstock.engine.store_meters()
            async with api.client() as client:
                found = samples((await client.get("/metrics")).text)
        assert value(found, "penstock_calls_entered_total", remote="shop", state="collected") == 1
        assert value(found, "penstock_calls_entered_total", remote="shop", state="submitted") == 2
        assert value(found, "penstock_call_seconds_count", remote="shop") == 1
        assert value(found, "penstock_cost_dollars_total", remote="shop", model="gemini-2.5-flash") == 0.123456
        tokens = {
            dict(labels)["kind"]: amount for (name, labels), amount in found.items() if name == "penstock_tokens_total"
        }
        assert tokens == {"input": 10_000, "output": 2_000, "cached": 4_000, "thinking": 500}
        live = {dict(k)["state"]: n for (name, k), n in found.items() if name == "penstock_calls" and n}
        assert sum(live.values()) == 1
        assert value(found, "penstock_budget_limit_dollars", scope="tenant:default") == 5.0
        assert value(found, "penstock_budget_spent_dollars", scope="tenant:default") == 0.123456
        assert value(found, "penstock_budget_reserved_dollars", scope="tenant:default") == 0.42

    asyncio.run(main())


def test_a_person_who_decides_or_cancels_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api:
            waiting = await api.penstock.submit("notes", "x", after=3600)
            async with api.client() as client:
                assert (await client.post(f"/api/v1/jobs/{waiting.job_id}/cancel", json={})).status_code == 200
                await api.penstock.engine.store_meters()
                found = samples((await client.get("/metrics")).text)
        assert value(found, "penstock_jobs_ended_total", workflow="notes", status="canceled") == 1
        assert value(found, "penstock_jobs", workflow="notes", status="canceled") == 1

    asyncio.run(main())


def test_metrics_are_for_who_is_bound_to_no_tenant(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, open_access=False) as api:
            bound = await api.secret("bound", "read", tenant="acme")
            free = await api.secret("free", "read")
            async with api.client() as client:
                assert (await client.get("/metrics")).status_code == 401
            async with api.client(bound) as client:
                assert (await client.get("/metrics")).status_code == 403
            async with api.client(free) as client:
                assert (await client.get("/metrics")).status_code == 200

    asyncio.run(main())


def test_routes_are_told_by_their_template_and_made_up_paths_are_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api, api.client() as client:
            for n in range(3):
                await client.get(f"/api/v1/jobs/ghost{n}")
                await client.get(f"/made-up/{n}?secret=hidden")
            await client.request("BREW", "/api/v1/jobs")
            text = (await client.get("/metrics")).text
        found = samples(text)
        assert value(found, "penstock_http_requests_total", method="GET", route="unmatched", status="404") == 3
        told = {dict(labels)["route"] for (name, labels) in found if name == "penstock_http_requests_total"}
        assert "/api/v1/jobs/{job_id}" in told
        counted = value(
            found, "penstock_http_requests_total", method="GET", route="/api/v1/jobs/{job_id}", status="404"
        )
        assert counted == 3
        assert "OTHER" in {dict(labels)["method"] for (name, labels) in found if name == "penstock_http_requests_total"}
        assert not re.search("ghost|hidden|made-up|BREW", text)

    asyncio.run(main())


def test_the_parts_of_a_mounted_app_are_one_route() -> None:
    assert route_of({"root_path": "/behind/ui/static"}, "/behind") == "/ui/static/{path}"
    assert route_of({"root_path": "/behind"}, "/behind") == "unmatched"


@pytest.mark.parametrize(
    ("sent", "kept"), [("abc-1.2:3_x", True), ("", False), ("a b", False), ("x" * 65, False), ("-x", False)]
)
def test_a_request_keeps_its_own_id_if_it_is_sane(tmp_path: Path, sent: str, kept: bool) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api, api.client() as client:
            answer = await client.get("/health/live", headers={"X-Request-ID": sent})
            told = answer.headers["x-request-id"]
            assert (told == sent) is kept
            assert re.fullmatch(r"[A-Za-z0-9._:-]{1,64}", told)

    asyncio.run(main())


def test_a_stream_is_not_held_back_and_counts_from_its_beginning(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api:
            metrics = Metrics(api.service)
            sent: list[Any] = []
            more = asyncio.Event()

            async def streaming(scope: Any, receive: Any, send: Any) -> None:
                headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
                await more.wait()
                await send({"type": "http.response.body", "body": b"", "more_body": False})

            async def send(message: Any) -> None:
                sent.append(message)

            async def receive() -> Any:
                return {"type": "http.request", "body": b"", "more_body": False}

            scope = {"type": "http", "method": "GET", "path": "/x", "headers": []}
            task = asyncio.create_task(Traffic(streaming, api.service, metrics)(scope, receive, send))
            async with asyncio.timeout(PATIENCE):
                while len(sent) < 2:
                    await asyncio.sleep(0)
            during = samples((await metrics.exposition())[0].decode())
            more.set()
            await task
            after = samples((await metrics.exposition())[0].decode())
        assert value(during, "penstock_http_streams") == 1
        assert value(during, "penstock_http_request_seconds_count", method="GET", route="unmatched") == 1
        assert total(during, "penstock_http_requests_total") == 0
        assert value(after, "penstock_http_streams") == 0
        assert value(after, "penstock_http_request_seconds_count", method="GET", route="unmatched") == 1
        assert total(after, "penstock_http_requests_total") == 1

    asyncio.run(main())


def test_an_error_of_the_apps_own_counts_as_500_and_a_client_that_left_as_499(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api:
            metrics = Metrics(api.service)

            async def broken(scope: Any, receive: Any, send: Any) -> None:
                raise ValueError("broken")

            async def silent(scope: Any, receive: Any, send: Any) -> None:
                return

            async def nothing(*args: Any) -> Any: ...

            scope = {"type": "http", "method": "GET", "path": "/x", "headers": []}
            with pytest.raises(ValueError, match="broken"):
                await Traffic(broken, api.service, metrics)(dict(scope), nothing, nothing)
            await Traffic(silent, api.service, metrics)(dict(scope), nothing, nothing)
            found = samples((await metrics.exposition())[0].decode())
        for status in ("500", "499"):
            assert value(found, "penstock_http_requests_total", method="GET", route="unmatched", status=status) == 1

    asyncio.run(main())


def test_a_store_that_is_away_is_told_and_the_rest_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api, api.client() as client:

            async def away() -> Any:
                raise StoreUnavailable("the database is restarting")

            monkeypatch.setattr(api.penstock.engine.store, "meters", away)
            answer = await client.get("/metrics")
            found = samples(answer.text)
            assert answer.status_code == 200
            assert value(found, "penstock_store_up") == 0
            assert total(found, "penstock_build_info") == 1
            assert "penstock_jobs " not in answer.text

    asyncio.run(main())


def test_who_asks_for_openmetrics_gets_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as api, api.client() as client:
            job = await api.penstock.submit("notes", "x")
            await api.run(job.job_id)
            await api.penstock.engine.store_meters()
            answer = await client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
            assert answer.headers["content-type"].startswith("application/openmetrics-text")
            families = {family.name for family in openmetrics_families(answer.text)}
            assert {"penstock_ticks", "penstock_jobs", "penstock_http_requests"} <= families

    asyncio.run(main())


def test_a_reading_is_made_once_for_all_who_ask_and_kept_the_longer_the_more_it_cost() -> None:
    now = 100.0
    reads = 0
    let_go = asyncio.Event()

    async def read() -> int:
        nonlocal reads, now
        reads += 1
        await let_go.wait()
        now += 2.0
        return reads

    async def main() -> None:
        nonlocal now
        reading = Reading(read, clock=lambda: now)
        assert reading.age is None
        asked = [asyncio.create_task(reading.get()) for _ in range(5)]
        await asyncio.sleep(0)
        let_go.set()
        assert await asyncio.gather(*asked) == [1] * 5
        now += 39.0
        assert (await reading.get(), reading.age) == (1, 39.0), "two seconds are 5 % of forty"
        now += 2.0
        assert (await reading.get(), reading.age) == (2, 0.0)

    asyncio.run(main())


def test_a_reading_that_failed_is_tried_again() -> None:
    answers: list[int | Exception] = [StoreUnavailable("away"), 7]

    async def read() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main() -> None:
        reading = Reading(read)
        with pytest.raises(StoreUnavailable):
            await reading.get()
        assert await reading.get() == 7

    asyncio.run(main())


def test_no_figure_is_older_than_the_oldest_that_is_allowed() -> None:
    """Up to then who asks has the last answer at once, and it is read anew meanwhile."""
    now, read_at, seconds = 0.0, [], 0.0

    async def read() -> int:
        nonlocal now
        now += seconds
        read_at.append(now)
        return len(read_at)

    async def main() -> None:
        nonlocal now, seconds
        seconds = 2.0
        reading = Reading(read, oldest=15.0, ahead=True, clock=lambda: now)
        assert await reading.get() == 1
        now += 14.0
        assert await reading.get() == 1, "two seconds are 5 % of forty"
        now += 1.0
        assert await reading.get() == 2
        seconds = 0.0
        now += 15.0
        assert await reading.get() == 3
        now += 5.0
        assert await reading.get() == 3, "who asks does not wait"
        await asyncio.sleep(0)
        assert await reading.get() == 4

    asyncio.run(main())


def test_what_has_changed_is_read_anew_where_that_is_cheap() -> None:
    answers: list[int | Exception] = [1, 2, StoreUnavailable("away"), 3]

    async def read() -> int:
        await asyncio.sleep(0)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main() -> None:
        reading = Reading(read, at_least=3600.0, clock=lambda: 0.0)
        early = asyncio.create_task(reading.get())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        reading.touch()
        assert await reading.get(cheap=1.0) == 2, "the first reading began before the change"
        assert await early == 1
        reading.touch()
        assert await reading.get() == 2
        with pytest.raises(StoreUnavailable):
            await reading.get(cheap=1.0)
        assert await reading.get(cheap=1.0) == 3, "an error takes no change back"

    asyncio.run(main())


def test_what_alerts_look_at_begins_at_nothing(tmp_path: Path) -> None:
    """A series that began at 1 would have no increase: nobody would hear of the first one."""

    async def main() -> None:
        async with serving(tmp_path) as api:
            found = samples((await api.client().get("/metrics")).text)
            for workflow in ("notes", "breaks"):
                assert value(found, "penstock_sla_breaches_total", workflow=workflow) == 0
                assert value(found, "penstock_crashes_total", workflow=workflow) == 0
                assert value(found, "penstock_jobs_ended_total", workflow=workflow, status="failed") == 0
            assert value(found, "penstock_jobs_ended_total", workflow="notes", status="completed") is None

    asyncio.run(main())


def test_a_workflow_of_other_processes_begins_at_nothing_once_it_was_counted() -> None:
    rows = [("ticks", '{"workflow":"far","step":"a","outcome":"done"}', 1.0), ("crashes", '{"workflow":"far"}', 2.0)]
    families = {family.name: family for family in counted(rows)}
    assert [sample.value for sample in families["penstock_sla_breaches"].samples] == [0.0]
    assert [sample.value for sample in families["penstock_crashes"].samples] == [2.0]


class _Fleet:
    alive = 1
    wanted = 2


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, ...]]:
    """Every metric of Penstock's own, by the name that Prometheus knows it by, with its labels."""

    async def main() -> dict[str, tuple[str, ...]]:
        async with serving(tmp_path_factory.mktemp("exposed")) as api:
            api.service.fleet = _Fleet()
            await api.penstock.set_budget("tenant:default", 5.0)
            jobs = [
                await api.penstock.submit("orders", {"remote": "shop", "does": "answer"}),
                await api.penstock.submit("notes", "x"),
            ]
            await api.run(*(job.job_id for job in jobs))
            running = await api.penstock.submit("orders", {"remote": "shop", "does": "run"})
            engine = api.penstock.engine
            async with api.penstock.worker(grace=5.0):
                await api.penstock.wait(running.job_id, timeout=PATIENCE, until=("waiting",))
                engine.meters.crashed([("notes", "queued")])
                engine.meters.add("sla_breaches", ("notes",))
                await engine.store_meters()
                async with api.client() as client:
                    await client.get("/health/live")
                    text = (await client.get("/metrics")).text
        found = {}
        for family in text_string_to_metric_families(text):
            if family.name.startswith("penstock_"):
                name = f"{family.name}_total" if family.type == "counter" else family.name
                labels = {label for sample in family.samples for label in sample.labels} - {"le"}
                assert family.samples, f"nothing here shows the labels of {name}"
                found[name] = tuple(sorted(labels))
        return found

    return asyncio.run(main())


def test_the_documentation_lists_every_metric_with_its_labels(exposed: dict[str, tuple[str, ...]]) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    listed = {}
    for name, _, labels in re.findall(r"^\| `(penstock_\w+)` \| (\w+) \|([^|]*)\|", page, re.MULTILINE):
        if name.startswith("penstock_ingestion_"):
            continue  # shown once there is a knowledge base: test_ingestion_http.py
        listed[name] = tuple(sorted(re.findall(r"`(\w+)`", labels)))
    assert listed == exposed


def used_in(expression: str) -> set[str]:
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\b(penstock_\w+)", expression)}


def test_the_grafana_dashboard_uses_metrics_that_exist(exposed: dict[str, tuple[str, ...]]) -> None:
    board = json.loads((ROOT / "deploy" / "grafana" / "penstock.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    expressions += [variable["definition"] for variable in board["templating"]["list"] if "definition" in variable]
    assert len(expressions) > 15
    assert {name for expression in expressions for name in used_in(expression)} <= set(exposed)
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_alert_rules_use_metrics_that_exist(exposed: dict[str, tuple[str, ...]]) -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) > 5
    for rule in alerts:
        assert used_in(rule["expr"]) <= set(exposed), rule["alert"]
        assert rule["annotations"]["summary"]
    scrape = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    assert scrape["rule_files"] == ["alerts.yml"]
    assert scrape["scrape_configs"][0]["metrics_path"] == "/metrics"
