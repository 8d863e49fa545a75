"""Documents a second with a model that answers at once: Penstock in one process on SQLite, Penstock on Celery with two
processes, Valkey and PostgreSQL, and a plain chain of Celery tasks on the same servers. They take turns; each ratio is
of one round. The model is one local Gemini with a scripted answer, which all of them ask through Google's client."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.documents_ours import WARM
from bench.gemini.server import local_gemini
from bench.home import fresh_folder
from bench.results import RESULTS
from bench.servers import Servers
from penstock.pipelines.documents.samples import bulk

ROOT = RESULTS.parent.parent
PROCESSES = 2
ANSWER: dict[str, object] = {
    "vendor": "Acme", "invoice_number": "1", "date": "2024-01-02", "due_date": None, "subtotal": "10.00",
    "tax_rate": "20", "tax_amount": "2.00", "total": "12.00", "currency": "EUR", "line_items": [],
}  # fmt: skip

EMBEDDED, ON_CELERY, CHAIN = "Penstock, one process, SQLite", "Penstock on Celery", "plain Celery chain"
CONTESTANTS = (EMBEDDED, ON_CELERY, CHAIN)

Taken = dict[str, float]


def rounds(count: int, documents: int, contestants: Sequence[str] = CONTESTANTS) -> dict[str, list[Taken]]:
    """Contestant → what each round took. `Unavailable` where a server cannot be had."""
    found: dict[str, list[Taken]] = {name: [] for name in contestants}
    folder = fresh_folder("documents-in")
    bulk(folder, documents + WARM, seed=7)
    with Servers() as servers, local_gemini(answer=ANSWER) as gemini:
        for number in range(1, count + 1):
            for name in contestants:
                found[name].append(_one(name, folder, servers, gemini))
                told = found[name][-1]
                print(f"round {number}: {name}: {told['documents'] / told['work']:.1f} documents/s", flush=True)
    shutil.rmtree(folder)
    return found


def _one(name: str, folder: Path, servers: Servers, gemini: str) -> Taken:
    home = fresh_folder("documents")
    told = {"PENSTOCK_HOME": str(home), "PENSTOCK_GEMINI__BASE_URL": gemini, "PENSTOCK_LOCAL_GEMINI__USE": "never",
            "PENSTOCK_GEMINI__API_KEY": "bench"}  # fmt: skip
    try:
        if name == EMBEDDED:
            return _run("bench.documents_ours", folder, told | {"WORKER": "here"})
        redis = servers.redis(safe=False)
        database = servers.postgres().fresh_database("documents")
        _empty(redis.port)
        if name == ON_CELERY:
            told |= {"PENSTOCK_STORE": database, "PENSTOCK_DELIVERY": "celery",
                     "PENSTOCK_CELERY__BROKER_URL": f"{redis.url}/1"}  # fmt: skip
            worker = ["penstock", "worker", "--delivery", "celery", "--concurrency", str(PROCESSES)]
            with _worker(worker, told, home) as pid:
                return _run("bench.documents_ours", folder, told | {"ROOTS": f"{pid} {servers.postgres().pid}"})
        told = {"CHAIN_HOME": str(home), "CHAIN_BROKER": f"{redis.url}/2", "CHAIN_DATABASE": database,
                "CHAIN_GEMINI": gemini}  # fmt: skip
        worker = ["celery", "-A", "bench.documents_chain", "worker", "-c", str(PROCESSES), "-P", "prefork",
                  "--loglevel", "ERROR", "-Q", "chain", "--without-gossip", "--without-mingle"]  # fmt: skip
        with _worker(worker, told, home) as pid:
            return _run("bench.documents_chain", folder, told | {"ROOTS": f"{pid} {servers.postgres().pid}"})
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(module: str, folder: Path, told: Mapping[str, str]) -> Taken:
    command = [sys.executable, "-m", module, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT, env=_surroundings(told))
    taken: Taken = json.loads(done.stdout.splitlines()[-1])
    return taken


@contextmanager
def _worker(command: list[str], told: Mapping[str, str], home: Path) -> Iterator[int]:
    program, *arguments = command
    whole = [str(Path(sys.executable).with_name(program)), *arguments]
    log = home.with_name(f"{program}.log")
    with log.open("wb") as lines:
        process = subprocess.Popen(
            whole, stdout=lines, stderr=lines, cwd=ROOT, env=_surroundings(told), start_new_session=True
        )
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _surroundings(told: Mapping[str, str]) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "CHAIN_"))}
    return {**plain, "PYTHONPATH": str(ROOT), **told}


def _empty(port: int) -> None:
    from redis import Redis

    with Redis(port=port) as redis:
        redis.flushall()
