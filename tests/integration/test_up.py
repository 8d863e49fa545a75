"""`penstock up`: what it serves, who does the work, and that nothing is lost however it ends."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from penstock import Penstock
from penstock.config import Settings
from penstock.config.settings import ServiceSettings
from penstock.delivery.upkeep import FIRST_PAUSE, LONGEST_PAUSE, Place, Verdict, judge
from penstock.engine.watch import EXIT_STUCK
from penstock.service import front, server
from penstock.service.app import create_app
from penstock.service.live import LiveFeed
from penstock.service.server import LARGEST_HEAD, Running, listen
from penstock.service.state import Service
from penstock.service.workforce import Nobody
from tests.support.cli import PATIENCE, PIPELINES, Cli
from tests.support.up import Up


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.stop()


def test_one_process_serves_the_api_and_the_dashboard_and_runs_jobs(cli: Cli) -> None:
    up = Up(cli)
    assert up.facts["worker"] == "embedded"
    assert up.facts["workflows"] == sorted(["bad", "held", "hello", "stuck", *PIPELINES])
    assert up.facts["tokens_needed"] is False
    page = up.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "server" not in page.headers
    told = up.submit("hello", "world")
    assert told.status_code == 201
    job_id = told.json()["job"]["id"]
    cli.until(lambda: up.job(job_id)["status"] == "completed", "the job")
    assert not up.workers
    assert cli("jobs", "wait", cli.submit("hello", "you"), "--timeout", "30s").out == '"Hello, you!"\n'
    assert up.stop() == 0


def test_it_says_where_everything_is_and_how_to_begin(cli: Cli) -> None:
    del cli.environ["PENSTOCK_APP"]
    up = cli.start("up", "--port", "0", "--app", "flow:app")
    cli.until(lambda: "Ctrl-C stops the service" in cli.log, "the introduction")
    said = dict(
        line.split(":", 1) for line in cli.log.splitlines() if line.startswith(("Dash", "Store", "App", "Work"))
    )
    assert said["Dashboard"].strip().startswith("http://127.0.0.1:")
    assert said["Store"].strip() == "sqlite:///.penstock/penstock.db"
    known = ", ".join(sorted({"bad", "held", "hello", "stuck", *PIPELINES}))
    assert said["App"].strip() == f"flow:app, workflows: {known}"
    assert said["Worker"].strip() == "in this process"
    assert "open to this machine alone, without a token" in cli.log
    assert "Listens:" not in cli.log
    assert f"is ready: workflows {known}; queues default; 100 at once" in cli.log
    assert """penstock jobs submit hello --payload '"world"' --app flow:app\n""" in cli.log
    up.send_signal(signal.SIGINT)
    assert up.wait(30) == 130
    assert "stopping: no job is started any more, running steps have 30 s to finish" in cli.log
    assert "stopped: nothing is running here any more" in cli.log


def test_it_says_that_other_machines_can_reach_it(cli: Cli) -> None:
    cli("tokens", "create", "admin", "--scope", "admin")
    cli.start("up", "--port", "0", "--host", "0.0.0.0")
    cli.until(lambda: "Ctrl-C stops the service" in cli.log, "the introduction")
    (line,) = [line for line in cli.log.splitlines() if line.startswith("Listens:")]
    (port,) = re.findall(r"Dashboard: +http://127\.0\.0\.1:(\d+)/", cli.log)
    assert f"on every address of this machine, port {port}, for other machines too" in line
    assert "with a token" in cli.log


def test_without_an_app_it_serves_the_store_and_runs_the_pipelines_alone(cli: Cli) -> None:
    first = cli.submit("hello", "world")
    app = cli.environ.pop("PENSTOCK_APP")
    up = Up(cli)
    assert (up.facts["app"], up.facts["worker"], up.facts["workflows"]) == (None, "embedded", sorted(PIPELINES))
    assert up.job(first)["status"] == "queued"
    refused = up.submit("hello", "you")
    assert (refused.status_code, refused.headers["content-type"]) == (404, "application/problem+json")
    cli.start_worker("--app", app)
    cli.until(lambda: up.job(first)["status"] == "completed", "the job")
    assert f"only Penstock's own pipelines are known here ({', '.join(PIPELINES)}): name it with --app" in cli.log
    assert up.stop() == 0


def test_a_port_that_is_taken_is_refused_with_the_way_out(cli: Cli) -> None:
    with listen("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
        told = cli("up", "--port", str(port), code=2).sentence
    assert told == (
        f"cannot listen on 127.0.0.1:{port}: another program listens there: stop it, or give another port; --port 0 "
        "takes any that is free"
    )
    up = Up(cli)
    port = int(up.url.rpartition(":")[2])
    told = cli("up", "--port", str(port), code=2).sentence
    assert told == (
        f"cannot listen on 127.0.0.1:{port}: a Penstock service is there already: use {up.url}/, stop it, or give "
        "another --port"
    )


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (
            ("--host", "0.0.0.0", "--port", "0"),
            "0.0.0.0 can be reached from other machines, and there is no usable token",
        ),
        (("--workers", "2", "--no-worker"), "--no-worker and --workers exclude each other"),
        (("--workers", "2", "--store", "memory://"), "memory:// is gone with its process"),
        (("--app", "flow:nothing"), "app: 'flow' has no 'nothing'"),
        (("--drain-wait", "soon"), "(from --drain-wait)"),
    ],
)
def test_what_cannot_be_served_is_refused(cli: Cli, args: tuple[str, ...], told: str) -> None:
    assert told in cli("up", *args, code=2).sentence


def test_the_first_signal_drains_and_requests_are_answered_meanwhile(cli: Cli) -> None:
    up = Up(cli)
    held = up.submit("held", "mark").json()["job"]["id"]
    cli.until_file("mark")
    up.ask_to_stop()
    cli.until(lambda: up.ready == 503, "the service to drain")
    answer = up.get(f"/api/v1/jobs/{held}")
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    late = up.submit("hello", "too late")
    assert late.status_code == 201
    cli.file("go").touch()
    assert up.process.wait(30) == 0
    assert cli.job(held)["status"] == "completed"
    assert cli.job(late.json()["job"]["id"])["status"] == "queued"
    assert cli.file("mark").read_text() == "started\n"


@pytest.mark.parametrize("workers", [(), ("--workers", "1")])
def test_the_second_signal_hands_back_what_runs_at_once(cli: Cli, workers: tuple[str, ...]) -> None:
    up = Up(cli, "--grace", "1h", *workers)
    held = up.submit("held", "mark").json()["job"]["id"]
    cli.until_file("mark")
    up.ask_to_stop()
    cli.until(lambda: up.ready == 503, "the service to drain")
    up.ask_to_stop()
    assert up.process.wait(30) == 0
    job = cli.job(held)
    assert (job["status"], job["attempt"], job["worker"]) == ("queued", 0, None)


def test_a_signal_for_every_process_of_the_service_is_one_signal(cli: Cli) -> None:
    """The workers are told twice then: by whoever sent it, and by the service."""
    up = Up(cli, "--workers", "1", "--grace", "1h")
    held = up.submit("held", "mark").json()["job"]["id"]
    cli.until_file("mark")
    for worker in up.workers:
        worker.terminate()
    up.ask_to_stop()
    cli.until(lambda: up.ready == 503, "the service to drain")
    cli.file("go").touch()
    assert up.process.wait(30) == 0
    assert cli.job(held)["status"] == "completed"
    assert cli.file("mark").read_text() == "started\n"


def test_a_signal_that_is_ignored_stays_so(cli: Cli) -> None:
    """Started with `nohup`, it outlives the terminal; had it counted, the second signal would stop the step."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        up = Up(cli, "--grace", "1h")
    finally:
        signal.signal(signal.SIGHUP, before)
    held = up.submit("held", "mark").json()["job"]["id"]
    cli.until_file("mark")
    up.ask_to_stop(signal.SIGHUP)
    assert up.ready == 200
    up.ask_to_stop()
    cli.until(lambda: up.ready == 503, "the service to drain")
    cli.file("go").touch()
    assert up.process.wait(30) == 0
    assert cli.job(held)["status"] == "completed"


def test_no_step_can_withstand_the_second_signal(cli: Cli) -> None:
    """It blocks the very loop that would have to hear of it."""
    source = cli.file("flow.py").read_text()
    cli.file("flow.py").write_text(source.replace("    while not Path", "    time.sleep(600)\n    while not Path"))
    up = Up(cli)
    held = up.submit("held", "mark").json()["job"]["id"]
    cli.until_file("mark")

    def is_gone() -> bool:
        up.ask_to_stop()
        return up.process.poll() is not None

    cli.until(is_gone, "the process to end")
    assert up.process.returncode == 1
    assert "this process ends without it, and its job is taken up again" in cli.log
    cli.file("flow.py").write_text(source)
    cli.file("go").touch()
    again = Up(cli)
    cli.until(lambda: again.job(held)["status"] == "completed", "the job to be taken up again")


def test_it_answers_not_ready_for_as_long_as_a_load_balancer_needs(cli: Cli) -> None:
    up = Up(cli, "--drain-wait", "1h", "--workers", "1")
    up.ask_to_stop()
    cli.until(lambda: up.workers == [], "the worker to end")
    # Nothing but the wait keeps it now.
    for _ in range(30):
        assert up.ready == 503
    assert up.get("/health/live").status_code == 200
    assert "and requests are answered for 3600 s" in cli.log
    up.ask_to_stop(signal.SIGINT)
    assert up.process.wait(30) == 130


@pytest.mark.parametrize(("path", "told"), [("/api/v1/events", "event: job"), ("/ui/live", "event: changed")])
def test_live_streams_go_on_while_the_service_drains(cli: Cli, path: str, told: str) -> None:
    up = Up(cli, "--grace", "1h")
    up.submit("held", "mark")
    cli.until_file("mark")
    with httpx2.stream("GET", f"{up.url}{path}", timeout=PATIENCE) as stream:
        lines = stream.iter_lines()
        first = "event: ready" if told == "event: job" else told
        assert first in lines
        up.ask_to_stop()
        cli.until(lambda: up.ready == 503, "the service to drain")
        up.submit("hello", "too late")
        assert told in lines
        cli.file("go").touch()
        for _ in lines:
            pass
    assert up.process.wait(30) == 0


def test_live_streams_end_with_the_service(cli: Cli) -> None:
    up = Up(cli)
    with httpx2.stream("GET", f"{up.url}/api/v1/events", timeout=PATIENCE) as stream:
        assert stream.status_code == 200
        parts = stream.iter_bytes()
        next(parts)
        up.ask_to_stop()
        for _ in parts:
            pass
    assert up.process.wait(30) == 0


def test_a_killed_worker_comes_back_while_the_service_answers(cli: Cli) -> None:
    cli.environ["PENSTOCK_LEASE"] = "500ms"
    up = Up(cli, "--workers", "1")
    assert (up.facts["worker"], up.facts["processes"]) == ("processes", 1)
    held = up.submit("held", "mark").json()["job"]["id"]
    cli.until_file("mark")
    (victim,) = up.workers
    victim.kill()
    statuses = []

    def is_back() -> bool:
        statuses.append(up.ready)
        return [worker.pid for worker in up.workers] not in ([], [victim.pid])

    cli.until(is_back, "another worker")
    assert set(statuses) == {200}
    assert 'penstock_fleet_processes{state="wanted"} 1.0' in up.get("/metrics").text
    cli.file("go").touch()
    cli.until(lambda: up.job(held)["status"] == "completed", "the job")
    assert cli.file("mark").read_text() == "started\n" * 2


def test_a_worker_that_was_asked_to_end_comes_back_too(cli: Cli) -> None:
    up = Up(cli, "--workers", "1")
    cli.until(lambda: "is ready: workflows" in cli.log, "the worker")
    (asked,) = up.workers
    asked.terminate()
    cli.until(lambda: [worker.pid for worker in up.workers] not in ([], [asked.pid]), "another worker")
    assert up.ready == 200


def test_workers_end_with_a_service_that_is_killed_and_the_next_one_goes_on(cli: Cli) -> None:
    up = Up(cli, "--workers", "2", "--grace", "100ms")
    held = up.submit("held", "mark").json()["job"]["id"]
    cli.until_file("mark")
    orphans = up.workers
    assert len(orphans) == 2
    up.kill()
    _, alive = psutil.wait_procs(orphans, timeout=PATIENCE)
    assert alive == []
    cli.file("go").touch()
    again = Up(cli, "--workers", "2")
    cli.until(lambda: again.job(held)["status"] == "completed", "the job to be taken up again")
    ours = again.workers
    assert again.stop() == 0
    assert not any(worker.is_running() for worker in ours)


def test_a_stuck_worker_leaves_the_service_alone(cli: Cli) -> None:
    up = Up(cli, "--workers", "1")
    job_id = up.submit("stuck", "mark").json()["job"]["id"]
    cli.until(lambda: up.job(job_id)["status"] == "completed", "the job")
    assert "was stuck and ended itself; starting another in 0.0 s" in cli.log
    assert up.ready == 200


def test_restarts_lose_nothing_and_do_nothing_twice(cli: Cli) -> None:
    """A client that submits all the while, and asks again where it got no answer."""
    source = cli.file("flow.py").read_text()
    cli.file("flow.py").write_text(
        source.replace("app = Penstock", DONE_ONCE + "app = Penstock").replace("[hello", "[done, hello")
    )
    up = Up(cli)
    port = int(up.url.rpartition(":")[2])
    ending = threading.Event()
    sent: list[str] = []
    client = threading.Thread(target=_submit_on_and_on, args=(up.url, ending, sent))
    client.start()
    try:
        for _ in range(2):
            enough = len(sent) + 40
            cli.until(lambda enough=enough: len(sent) >= enough, "the client")  # type: ignore[misc]
            assert up.stop() == 0
            up = Up(cli, "--port", str(port))
        enough = len(sent) + 40
        cli.until(lambda: len(sent) >= enough, "the client")
    finally:
        ending.set()
        client.join(60)
    cli.until(lambda: _statuses(up) == {"completed": len(sent)}, "all jobs")
    assert sorted(cli.file("done").read_text().split()) == sorted(sent)


DONE_ONCE = """
done = Workflow("done")

@done.step
async def note(name: str, ctx: Context) -> str:
    await asyncio.sleep(0.05)
    with Path("done").open("a") as file:
        file.write(name + "\\\\n")
    return name

""".replace("\\\\", "\\")


def _submit_on_and_on(url: str, ending: threading.Event, sent: list[str]) -> None:
    number = 0
    with httpx2.Client(base_url=url, timeout=10) as client:
        while not ending.is_set():
            number += 1
            name = f"job-{number}"
            body = {"workflow": "done", "payload": name}
            while True:
                try:
                    told = client.post("/api/v1/jobs", json=body, headers={"Idempotency-Key": name})
                except httpx2.TransportError:
                    ending.wait(0.01)
                    continue
                if told.status_code < 500:
                    break
            assert told.status_code in (200, 201), told.text
            sent.append(name)


def _statuses(up: Up) -> dict[str, int]:
    counted: dict[str, int] = {}
    cursor = None
    while True:
        told = up.get("/api/v1/jobs", limit=100, **({"cursor": cursor} if cursor else {})).json()
        for job in told["jobs"] if "jobs" in told else told["items"]:
            counted[job["status"]] = counted.get(job["status"], 0) + 1
        cursor = told.get("next")
        if cursor is None:
            return counted


def test_the_doctor_knows_whether_the_service_runs(cli: Cli) -> None:
    up = Up(cli)
    cli.environ["PENSTOCK_SERVICE__PORT"] = up.url.rpartition(":")[2]
    assert _service_check(cli) == ("ok", f"{up.url} is ready")
    assert up.stop() == 0
    assert _service_check(cli) == ("ok", f"not running; `penstock up` would serve {up.url}")
    with listen("127.0.0.1", int(cli.environ["PENSTOCK_SERVICE__PORT"])):
        status, detail = _service_check(cli)
    assert (status, detail.partition(" on ")[0]) == ("warn", "another program listens")


def _service_check(cli: Cli) -> tuple[str, str]:
    checks = {check["name"]: check for check in cli("doctor", "--json").json["checks"]}
    return checks["service"]["status"], checks["service"]["detail"]


async def _served(client: Any, settings: Settings | None = None, *, whole: bool = False) -> Any:
    """What `client(port)` answers, of a bare service in this process that says who asked, or of the whole one."""
    settings = settings or Settings()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        asked_by = [(b"x-asked-by", scope["client"][0].encode())]
        await send({"type": "http.response.start", "status": 204, "headers": asked_by})
        await send({"type": "http.response.body"})

    penstock = await Penstock(store="memory://").open(settings=settings)
    try:
        service = Service(penstock=penstock, settings=settings, feed=LiveFeed(penstock), open_access=whole)
        with listen("127.0.0.1", 0) as listener:
            running = Running(service, create_app(service) if whole else app, listener, Nobody())
            await running.begin()
            try:
                return await asyncio.to_thread(client, listener.getsockname()[1])
            finally:
                await running.end()
    finally:
        await penstock.close()


WHOLE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("sent", [(b"",), (WHOLE[:-2],), (WHOLE, WHOLE[:-2])])
def test_a_client_that_never_finishes_its_request_is_sent_away(
    monkeypatch: pytest.MonkeyPatch, sent: tuple[bytes, ...]
) -> None:
    monkeypatch.setattr(front, "HEADERS_WITHIN", 0.3)

    def client(port: int) -> int:
        answers = 0
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            for part in sent:
                connection.sendall(part)
                if part == WHOLE:
                    answers += connection.recv(4096).startswith(b"HTTP/1.1 204 ")
            assert connection.recv(4096) == b""
        return answers

    assert asyncio.run(_served(client)) == sent.count(WHOLE)


def test_a_head_that_is_too_large_is_refused() -> None:
    def client(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-Much: " + b"x" * (LARGEST_HEAD + 1))
            return connection.recv(4096)

    assert asyncio.run(_served(client)).startswith(b"HTTP/1.1 400 ")


SLOW = (
    b"POST /ui/login HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\n"
)


def _drip(port: int, *, most: int) -> bytes:
    """What is answered to a body that comes one byte at a time."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(SLOW)
        connection.settimeout(0.05)
        for _ in range(most):
            try:
                connection.sendall(b"x")
                return connection.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                return b""
        connection.settimeout(PATIENCE)
        return connection.recv(4096)


@pytest.mark.parametrize(("within", "slowest", "most"), [(0.3, 1024, 1), (1.0, 10**9, 99)])
def test_a_client_that_never_finishes_its_body_is_sent_away(
    monkeypatch: pytest.MonkeyPatch, within: float, slowest: int, most: int
) -> None:
    """Whether nothing more comes, or a little again and again."""
    monkeypatch.setattr(front, "BODY_WITHIN", within)
    monkeypatch.setattr(front, "SLOWEST", slowest)
    assert asyncio.run(_served(lambda port: _drip(port, most=most), whole=True)) == b""


def test_a_body_may_take_long_if_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "BODY_WITHIN", 3.0)
    monkeypatch.setattr(front, "SLOWEST", 1)
    told = asyncio.run(_served(lambda port: _drip(port, most=100), whole=True))
    assert told.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("path", ["/", "/health/live", "/health/ready", "/metrics", "/ui/login"])
def test_a_probe_may_ask_for_the_head_alone(path: str) -> None:
    def client(port: int) -> tuple[httpx2.Response, httpx2.Response]:
        url = f"http://127.0.0.1:{port}{path}"
        return httpx2.head(url), httpx2.get(url)

    head, get = asyncio.run(_served(client, whole=True))
    assert (head.status_code, head.content) == (get.status_code, b"") == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


def test_more_connections_than_there_are_files_for_are_refused_and_health_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_most_connections", lambda: 1)

    def client(port: int) -> tuple[int, httpx2.Response, int, str]:
        url = f"http://127.0.0.1:{port}"
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as held:
            held.sendall(SLOW + b"x")
            refusal = httpx2.get(f"{url}/ui/login")
            alive = httpx2.get(f"{url}/health/live").status_code
            held.close()
            with httpx2.Client(base_url=url) as kept:
                deadline = time.monotonic() + PATIENCE
                while (first := kept.get("/ui/login").status_code) == 503 and time.monotonic() < deadline:
                    pass
                return first, refusal, alive, kept.get("/metrics").text

    settings = Settings(service=ServiceSettings(host="127.0.0.1"))
    first, refusal, alive, metrics = asyncio.run(_served(client, settings, whole=True))
    assert (first, refusal.status_code, alive) == (200, 503, 200)
    assert refusal.headers["content-type"] == "application/problem+json"
    assert refusal.headers["x-content-type-options"] == "nosniff"
    assert (refusal.headers["retry-after"], refusal.headers["connection"]) == ("2", "close")
    assert "too many connections" in refusal.json()["detail"]
    assert 'status="503"' in metrics


@pytest.mark.parametrize(("trusted", "believed"), [(None, "127.0.0.1"), (("127.0.0.1",), "203.0.113.7")])
def test_only_a_proxy_that_is_trusted_says_who_asked(trusted: tuple[str, ...] | None, believed: str) -> None:
    def client(port: int) -> str:
        headers = {"X-Forwarded-For": "203.0.113.7"}
        told: str = httpx2.get(f"http://127.0.0.1:{port}/", headers=headers).headers["x-asked-by"]
        return told

    settings = Settings(service=ServiceSettings(trusted_proxies=trusted))
    assert asyncio.run(_served(client, settings)) == believed


def test_a_public_service_that_trusts_no_proxy_says_so(cli: Cli) -> None:
    cli("tokens", "create", "boss", "--scope", "admin")
    cli.environ["PENSTOCK_SERVICE__PUBLIC_URL"] = "https://penstock.example.com"
    assert Up(cli).stop() == 0
    assert "name it in service.trusted_proxies" in cli.log
    told = len(cli.log)
    cli.environ["PENSTOCK_SERVICE__TRUSTED_PROXIES"] = '["127.0.0.1"]'
    assert Up(cli).stop() == 0
    assert "trusted_proxies" not in cli.log[told:]


@pytest.mark.parametrize(
    ("code", "lived", "failures", "verdict"),
    [
        (0, 1.0, 0, Verdict(FIRST_PAUSE)),
        (0, 3600.0, 0, Verdict(0.0)),
        (2, 3600.0, 0, Verdict(LONGEST_PAUSE)),
        (EXIT_STUCK, 1.0, 5, Verdict(0.0)),
        (-9, 1.0, 1, Verdict(2 * FIRST_PAUSE)),
    ],
)
def test_the_service_always_wants_another_worker(code: int, lived: float, failures: int, verdict: Verdict) -> None:
    assert judge(code, lived=lived, failures=failures, for_ever=True) == verdict


def test_a_process_that_lived_well_makes_up_for_those_that_did_not() -> None:
    place = Place(1)
    assert place.begins(0.0) is True
    assert place.ended(-9, 1.0, for_ever=True) == Verdict(FIRST_PAUSE)
    assert place.begins(2.0) is False
    assert place.ended(-9, 3.0, for_ever=True) == Verdict(2 * FIRST_PAUSE)
    place.begins(4.0)
    assert place.ended(-9, 1000.0, for_ever=True) == Verdict(0.0)
    place.begins(1000.0)
    assert place.ended(-9, 1001.0, for_ever=True) == Verdict(FIRST_PAUSE)


def test_the_log_has_one_line_for_what_was_asked_and_no_query_string(cli: Cli) -> None:
    up = Up(cli, "--log-level", "debug")
    assert up.get("/api/v1/jobs", key="a-secret").status_code == 200
    cli.until(lambda: "/api/v1/jobs" in cli.log.partition('"url"')[2].partition("\n")[2], "the line")
    lines = [json.loads(line) for line in cli.log.splitlines() if "/api/v1/jobs 200" in line]
    assert len(lines) == 1
    assert "a-secret" not in cli.log
