"""Delivery by Celery as the tests see it: the real `penstock worker --delivery celery` on a real broker and database,
and the app it serves."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from penstock import Context, Penstock, Retry, Workflow
from penstock.config import Settings, load
from penstock.delivery.contract import contract_workflows
from tests.support.cli import PENSTOCK
from tests.support.crash_flow import crash_workflows
from tests.support.redis import RedisServer

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0

stuck = Workflow("stuck", payload=str, queue="slow", retry=Retry(attempts=3, base=0.01))


@stuck.step
async def block(mark: str, ctx: Context) -> int:
    """The first time it holds up its whole process, in code that nothing but the process's end interrupts."""
    with Path(mark).open("a") as file:
        file.write(f"{os.getpid()}\n")
    if Path(mark).read_text().count("\n") == 1:
        time.sleep(3600)
    return ctx.job.attempt


sleepy = Workflow("sleepy", payload=str, queue="slow", retry=Retry(attempts=2, base=0.01))


@sleepy.step
async def sleep(mark: str, ctx: Context) -> None:
    with Path(mark).open("a") as file:
        file.write(f"{os.getpid()}\n")
    await asyncio.sleep(3600)


app = Penstock(workflows=[*contract_workflows(), *crash_workflows(), stuck, sleepy])


try:
    from penstock.delivery.celery.tasks import submitter
except ImportError:
    pass
else:

    @submitter("tests.count_to")
    async def count_to(app: Penstock, key: str, steps: int = 1) -> dict[str, Any]:
        told = await app.submit("contract", {"steps": steps}, key=key)
        return {"job_id": told.job_id, "created": told.created}

    @submitter("tests.full_disk")
    async def full_disk(app: Penstock, mark: str) -> None:
        """The first time there is no room."""
        if not Path(mark).exists():
            Path(mark).touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        await app.submit("contract", {"steps": 1}, key=mark)


class House:
    """One store, one broker, and the workers that were started on them."""

    def __init__(self, redis: RedisServer, store_url: str, folder: Path) -> None:
        self.redis = redis
        self.store_url = store_url
        self.folder = folder
        self.told = {
            "store": store_url,
            "home": str(folder),
            "app": "tests.support.celery_house:app",
            "delivery": "celery",
            "lease": "3s",
            "grace": "10s",
            "celery.broker_url": redis.fresh_url(),
            "celery.sweep_every": "500ms",
        }
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def environ(self) -> dict[str, str]:
        own = {f"PENSTOCK_{key.upper().replace('.', '__')}": value for key, value in self.told.items()}
        return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")} | own

    @property
    def settings(self) -> Settings:
        return load(None, self.told, cwd=self.folder)

    def client(self) -> Penstock:
        """Open it with `settings`: then what it submits is told to the broker."""
        return Penstock(workflows=[*contract_workflows(), *crash_workflows(), stuck, sleepy])

    def start(self, *args: str, wait: bool = True, **more: str) -> subprocess.Popen[bytes]:
        ready = self.log.count("the worker is ready")
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [str(PENSTOCK), "worker", "--concurrency", "2", *args],
                env=self.environ | more, cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.workers.append(process)
        if wait:
            until(lambda: self.log.count("the worker is ready") > ready, "the worker to be ready", self)
        return process

    @property
    def broker(self) -> str:
        return self.told["celery.broker_url"]

    def ask(self, *words: str) -> str:
        """Of the broker's database."""
        return self.redis.ask(*words, database=self.broker.rpartition("/")[2])

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def children(self) -> list[psutil.Process]:
        """The processes of the pools, and the beats."""
        return [child for worker in self.workers for child in psutil.Process(worker.pid).children(recursive=True)]

    def end(self, how: signal.Signals) -> list[int]:
        """All workers; SIGKILL means their children too."""
        for process in self.workers:
            if how == signal.SIGKILL:
                os.killpg(process.pid, how)
            else:
                process.send_signal(how)
        codes = [process.wait(PATIENCE) for process in self.workers]
        self.workers = []
        return codes


def until(happened: Callable[[], object], what: str, house: House | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"waited in vain for {what}: {house.log[-3000:] if house else ''}"
        time.sleep(0.02)
