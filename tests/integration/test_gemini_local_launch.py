"""Finding and starting the local Gemini of a home: one for all, gone when nobody needs it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from google import genai
from google.genai import types

from penstock.engine.errors import InvalidConfiguration
from penstock.gemini_local import launch
from penstock.gemini_local.launch import LaunchFailed, LocalServer, ensure_running
from penstock.gemini_local.server import ServerSettings, check_bind, read_running, serve
from penstock.gemini_local.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    if (tmp_path / "home").exists():
        launch.stop(tmp_path / "home")


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def started(home: Path, **options: float) -> LocalServer:
    return ensure_running(home, backend="script", **options)  # type: ignore[arg-type]


def is_up(server: LocalServer, home: Path) -> bool:
    running = read_running(home / "gemini")
    return running is not None and running.instance == server.instance and launch.is_healthy(running)


def test_a_server_is_started_once_and_found_again(home: Path) -> None:
    server = started(home)
    assert started(home) == server
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=server.base_url))
    assert client.models.generate_content(model="gemini-2.5-flash", contents="hi").text == "hi"
    client.close()


def test_many_processes_at_once_get_one_server(home: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from penstock.gemini_local.launch import ensure_running\n"
        "server = ensure_running(Path(sys.argv[1]), backend='script'); print(server.pid, server.base_url)"
    )
    asking = [
        subprocess.Popen([sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True) for _ in range(6)
    ]
    told = {process.communicate(timeout=60)[0].strip() for process in asking}
    assert len(told) == 1
    assert all(process.returncode == 0 for process in asking)


def test_a_dead_server_is_replaced_on_its_port(home: Path) -> None:
    server = started(home)
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not is_up(server, home))
    other = started(home)
    assert other.base_url == server.base_url
    assert other.instance != server.instance


def test_sigterm_is_a_clean_stop(home: Path) -> None:
    server = started(home)
    assert launch.stop(home)
    assert not is_up(server, home)
    assert not launch.stop(home)
    assert (home / "gemini" / "server.log").read_text() == ""


def test_an_idle_server_ends_by_itself(home: Path) -> None:
    server = started(home, idle_stop=0.3)
    until(lambda: not launch._is_held(home / "gemini" / "lock"))
    assert not is_up(server, home)


def test_a_server_with_an_unfinished_batch_is_not_idle(home: Path) -> None:
    server = ensure_running(home, backend="script", idle_stop=0.3, settings={"running_for": 1.0})
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=server.base_url))
    request = types.InlinedRequest(contents=[types.Content(parts=[types.Part(text="x")])])
    job = client.batches.create(model="gemini-2.5-flash", src=[request])
    client.close()
    until(lambda: not launch._is_held(home / "gemini" / "lock"))
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=started(home).base_url))
    assert job.name is not None
    assert client.batches.get(name=job.name).state == types.JobState.JOB_STATE_SUCCEEDED
    client.close()


def test_a_server_ends_when_its_home_is_gone(home: Path) -> None:
    server = started(home)
    running = read_running(home / "gemini")
    assert running is not None
    shutil.rmtree(home)
    until(lambda: not launch.is_healthy(running))
    assert server.pid == running.pid


def test_a_server_that_cannot_start_says_why(home: Path) -> None:
    with pytest.raises(LaunchFailed, match="there is no backend 'nonsense'"):
        ensure_running(home, backend="nonsense")
    with pytest.raises(LaunchFailed, match="no setting 'speed'"):
        ensure_running(home, backend="script", settings={"speed": 3})


def test_a_folder_that_cannot_be_written_is_told_in_one_line(home: Path) -> None:
    started(home)
    launch.stop(home)
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (home / "gemini" / name).unlink(missing_ok=True)
    (home / "gemini" / "state.db").mkdir()
    with pytest.raises(LaunchFailed) as failed:
        started(home)
    assert str(failed.value).count("\n") == 0
    assert "state.db cannot be written (unable to open database file)" in str(failed.value)
    assert str(failed.value).endswith(f"(all it said is in {home / 'gemini' / 'server.log'})")
    assert "Traceback" not in (home / "gemini" / "server.log").read_text()
    shutil.rmtree(home)
    home.touch()
    with pytest.raises(LaunchFailed, match="cannot be written: "):
        started(home)
    home.unlink()


def test_a_folder_has_one_server(home: Path) -> None:
    started(home)
    command = [sys.executable, "-m", "penstock.gemini_local", "--home", str(home), "--backend", "script"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert second.stderr.startswith("penstock: another local Gemini works in")


def test_other_machines_are_let_in_only_on_purpose_and_with_a_key(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(InvalidConfiguration, match="allow_remote"):
            serve(ServerSettings(tmp_path, host=host))
        with pytest.raises(InvalidConfiguration, match="needs an API key"):
            serve(ServerSettings(tmp_path, host=host, allow_remote=True))
        check_bind(ServerSettings(tmp_path, host=host, allow_remote=True, gemini=Settings(key="secret")))
    for host in ("127.0.0.1", "localhost", "::1"):
        check_bind(ServerSettings(tmp_path, host=host))
