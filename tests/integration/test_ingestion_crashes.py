"""A knowledge base is filled exactly once, whatever happens to who fills it: `kill -9`, pause and cancel at every
commit of a run of 200 documents, on a SQLite file and on PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock import Conflict, Job, Penstock
from penstock.engine.model import FINAL
from penstock.pipelines.ingestion import control, finishing, status
from penstock.pipelines.ingestion.bases import Run
from penstock.pipelines.ingestion.samples import make_corpus
from penstock.store.protocol import Commit, unwrapped
from tests.support.ingestion_library import Hashing, configuration, contents, count_left, opened

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/library.db"
    url: str = request.getfixturevalue("pgvector_url")
    return url


def books(folder: Path, count: int = 200) -> Path:
    """Some of one chunk, some of many, two that are the same."""
    make_corpus(folder, documents=count - 2, seed=3, words=60)
    first = sorted(folder.rglob("*.md"))[0]
    (folder / "a-copy.md").write_text(first.read_text())
    long = "\n\n".join(f"## Part {n}\n\n" + f"The harvest of year {n} filled the roof. " * 12 for n in range(40))
    (folder / "long.md").write_text(f"# A long book\n\n{long}\n")
    return folder


async def undisturbed(folder: Path, home: Path) -> tuple[dict[str, Any], dict[str, int]]:
    async with opened(f"sqlite:///{home}/plain.db", home) as app, app.worker():
        job = await app.wait((await control.start(app, "library", configuration(folder))).job_id, timeout=60)
        return await contents(app), job.counters


async def left_by(app: Penstock, job: str) -> tuple[dict[str, Any], dict[str, int]]:
    ended = await app.job(job)
    assert (ended.status, ended.error) == ("completed", None)
    return await contents(app), ended.counters


def test_workers_that_are_killed_at_every_commit_fill_it_exactly_once(store: str, tmp_path: Path) -> None:
    folder = books(tmp_path / "books")

    async def begin() -> str:
        async with opened(store, tmp_path) as app:
            return (await control.start(app, "library", configuration(folder))).job_id

    job = asyncio.run(begin())
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.ingestion_library", store, str(tmp_path), "before,after", job],
        cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["code"] == 0, ran.stderr
    assert told["kills"] > 10, "at every commit"

    async def end() -> None:
        async with opened(store, tmp_path) as app:
            assert await left_by(app, job) == await undisturbed(folder, tmp_path)
            assert set((await count_left(app)).values()) == {0}

    asyncio.run(end())


def test_a_run_that_is_paused_at_every_group_is_as_if_it_had_not_been(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = books(tmp_path / "books")

    async def main() -> None:
        Hashing.asked.clear()
        async with opened(store, tmp_path) as app:
            monkeypatch.setattr(Hashing, "turnstile", asyncio.Semaphore(0))
            job = (await control.start(app, "library", configuration(folder))).job_id
            run, pauses = await control.run_meant(app, "library"), 0
            async with app.worker():
                while not (now := await _let_through(app, run, job)).final:
                    pauses += now.status == "paused"
                    told = await status.status_of(app, run)
                    assert told.status == "paused" and told.heartbeat_age is None
                    await control.resume(app, run)
            assert pauses >= 5
            assert len(Hashing.asked) == len(set(Hashing.asked)), "nothing is embedded twice"
            monkeypatch.setattr(Hashing, "turnstile", None)
            assert await left_by(app, job) == await undisturbed(folder, tmp_path)

    asyncio.run(main())


async def _let_through(app: Penstock, run: Run, job: str) -> Job:
    """Ask for a pause while a group is being embedded, and let it through; two, where the next one had begun."""
    with suppress(Conflict):  # it may have ended in this moment
        await control.pause(app, run)
    turnstile = Hashing.turnstile
    assert turnstile is not None
    async with asyncio.timeout(60):
        for turn in count():
            now = await app.job(job)
            if now.status in ("paused", *FINAL):
                return now
            if turn % 50 == 0 and turnstile.locked():
                turnstile.release()
            await asyncio.sleep(0.002)
    raise AssertionError


def test_a_run_that_is_cancelled_at_any_commit_leaves_nothing_and_takes_nothing(store: str, tmp_path: Path) -> None:
    folder = books(tmp_path / "books", 60)

    async def main() -> None:
        async with opened(store, tmp_path) as app, app.worker():
            commits = _Commits(app)
            await app.wait((await control.start(app, "library", configuration(folder))).job_id, timeout=60)
            before = await contents(app)
            _change(folder)
            canceled = 0
            while (ended := await _cancelled_at(app, folder, commits, canceled + 1)).status == "canceled":
                canceled += 1
                told = await status.status_of(app, await control.run_meant(app, "library"))
                assert (told.status, told.last_error) == ("not_started", "Canceled by user")
                assert told.finished_at is not None and told.checkpoint is None and not any(told.counters.values())
                assert await contents(app) == before
                assert set((await count_left(app)).values()) == {0}
            assert ended.status == "completed" and canceled >= 3
            await _purged(app)
            after = await contents(app)
        plain, _ = await undisturbed(folder, tmp_path)
        assert after == plain

    asyncio.run(main())


async def _cancelled_at(app: Penstock, folder: Path, commits: _Commits, number: int) -> Job:
    """A run that is cancelled after so many commits, if it is not over by then."""
    until = commits.count + number
    job = (await control.start(app, "library", configuration(folder, prune=True))).job_id
    while commits.count < until and not (await app.job(job)).final:
        await asyncio.sleep(0.001)
    with suppress(Conflict):
        await control.cancel(app, await control.run_meant(app, "library"))
    return await app.wait(job, timeout=60)


def test_a_large_edition_gets_an_index_of_neighbours_where_the_store_can(
    pgvector_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = books(tmp_path / "books", 30)
    monkeypatch.setattr(finishing, "LARGE", 20)

    async def main() -> None:
        async with opened(pgvector_url, tmp_path) as app, app.worker():
            job = await app.wait((await control.start(app, "library", configuration(folder))).job_id, timeout=60)
            before = await contents(app)
            (build,) = await app.jobs(workflow="ingestion.optimize")
            ended = await app.wait(build.id, timeout=60)
            assert (ended.error, ended.result) == (None, {"edition": job.result["edition"], "built": True})
            assert await contents(app) == before, "and finds the same"

    asyncio.run(main())


def _change(folder: Path) -> None:
    """Some documents are changed, some vanish, some are new."""
    for place, path in enumerate(sorted(folder.rglob("*.md"))):
        if place % 3 == 0:
            path.write_text(f"{path.read_text()}\n\nA line about water number {place}.\n")
        elif place % 7 == 0:
            path.unlink()
    make_corpus(folder / "new", documents=20, seed=9)


async def _purged(app: Penstock) -> None:
    """What was replaced is removed behind the run."""
    async with asyncio.timeout(30):
        while await app.jobs(workflow="ingestion.purge", status=("queued", "running", "waiting"), limit=1):
            await asyncio.sleep(0.01)


class _Commits:
    """How many commits of runs have been made; `more` waits for the next."""

    def __init__(self, app: Penstock) -> None:
        store: Any = app.engine.store
        apply = store.apply
        self.count = 0
        self._made = asyncio.Event()

        async def applied(ops: Any, *, replay: bool = False) -> Any:
            answer = await apply(ops, replay=replay)
            if any(isinstance(op, Commit) and op.move.writes for op in map(unwrapped, ops)):
                self.count += 1
                self._made.set()
            return answer

        store.apply = applied

    async def more(self) -> None:
        self._made.clear()
        async with asyncio.timeout(30):
            await self._made.wait()
