"""A real process is killed while it deals with Gemini; the next one finds what was paid for. The request journal of the
local Gemini is the witness."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gemini import running_gemini
from tests.support.kill_flow import ROWS, app

PATIENCE = 150


def killed_at(point: str, folder: Path, url: str) -> None:
    """Run a worker to the point where it kills itself."""
    command = [sys.executable, "-m", "tests.support.kill_flow", str(folder), url, point]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(command, cwd=folder, env=environment, timeout=PATIENCE, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr


def goes_on(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, *, attempt: int = 1) -> None:
    """A fresh worker ends the job, with every row's answer."""
    monkeypatch.chdir(folder)

    async def main() -> None:
        async with app(folder, url) as keeper:
            # Whoever was killed had a while to send it and to look at it; nobody waits for that here.
            await keeper.engine.write("UPDATE calls SET submit_before = created - 60, due = created")
        fresh = app(folder, url)
        async with fresh, fresh.worker():
            (job,) = await fresh.jobs()
            ended = await fresh.wait(job.id, timeout=PATIENCE, until=("completed", "failed", "paused"))
            assert ended.status == "completed", (ended.error, ended.reason)
            assert sorted(ended.result) == [f"row-{n}" for n in range(ROWS)]
            newest, *earlier = await fresh.calls()
            assert (newest.state, newest.attempt) == ("collected", attempt)
            assert [call.state for call in earlier] == ["absent"] * (attempt - 1)

    asyncio.run(main())


@pytest.mark.parametrize("point", ["after accepting", "while collecting"])
def test_a_batch_that_gemini_has_is_adopted_and_created_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    with running_gemini() as gemini:
        killed_at(point, tmp_path, gemini.url)
        creates = gemini.journal(operation="create")
        assert [entry["status"] for entry in creates] == [200], "Gemini took the batch"
        goes_on(tmp_path, gemini.url, monkeypatch)
        assert len(gemini.journal(operation="create")) == 1, "and was asked for it once"
        assert gemini.journal(operation="create")[0]["label"].startswith("penstock-")


def test_a_batch_that_was_never_sent_is_created_when_that_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_gemini() as gemini:
        killed_at("before sending", tmp_path, gemini.url)
        assert not gemini.journal(operation="create")
        goes_on(tmp_path, gemini.url, monkeypatch, attempt=2)
        assert len(gemini.journal(operation="create")) == 1


def test_the_server_may_die_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_gemini() as gemini:
        killed_at("after accepting", tmp_path, gemini.url)
        gemini.kill()
        gemini.start()
        goes_on(tmp_path, gemini.url, monkeypatch)
        assert len(gemini.journal(operation="create")) == 1
