"""A real PostgreSQL for the tests: the installed server programs, on a socket and port of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import asyncpg

USER = "penstock"


class Missing(Exception):
    """There is no PostgreSQL to start; says why."""


class PostgresServer:
    """Started when made. `fsync` is on, and text sorts as in English where the server can: the store must not care."""

    def __init__(self) -> None:
        self._programs = _programs()
        self._as_postgres = _drop_root() if os.getuid() == 0 else []
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir=_place()))
        if self._as_postgres:
            shutil.chown(self.folder, "postgres", "postgres")
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        self.port = 0
        try:
            self._make_cluster()
            self._start_on_free_port()
        except BaseException:
            self.stop()
            raise

    def fresh_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(self._numbers)}"

        async def create() -> None:
            connection = await asyncpg.connect(self.url("postgres"))
            try:
                await connection.execute(f"CREATE DATABASE {name}")
            finally:
                await connection.close()

        asyncio.run(create())
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={self.folder}&port={self.port}"

    def tcp_url(self, database: str, *, port: int | None = None) -> str:
        return f"postgresql://{USER}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(
                    "postgres", "-D", str(self.folder / "data"), "-k", str(self.folder), "-h", "127.0.0.1",
                    "-p", str(self.port), "-c", "max_connections=80", "-c", "shared_buffers=32MB", "-c", "fsync=on",
                ),
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        for _ in range(600):
            if self._answers():
                return
            if self._process.poll() is not None:
                raise Missing(f"PostgreSQL ended at once: {self._last_words()}")
            time.sleep(0.05)
        raise Missing(f"PostgreSQL did not answer within 30 seconds: {self._last_words()}")

    def shut_down(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends every session and stops; SIGQUIT is a crash, with recovery at the next start."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(60)

    def stop(self) -> None:
        # At once: what a checkpoint would bring to the disk is deleted anyway.
        self.shut_down(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._log.unlink(missing_ok=True)

    @property
    def _log(self) -> Path:
        return self.folder.parent / f"{self.folder.name}.log"

    def _make_cluster(self) -> None:
        plain = ["initdb", "-D", str(self.folder / "data"), "-A", "trust", "-U", USER, "-E", "UTF8", "--no-sync"]
        by_language = [*plain, "--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8"]
        for options in (by_language, [*plain, "--locale=C"]):
            made = subprocess.run(self._command(*options), capture_output=True, text=True, check=False)
            if made.returncode == 0:
                return
            shutil.rmtree(self.folder / "data", ignore_errors=True)
        raise Missing(f"initdb failed: {made.stderr.strip()[-200:]}")

    def _start_on_free_port(self) -> None:
        for turn in range(5):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            try:
                self.start()
                return
            except Missing:
                # Somebody else took the port meanwhile.
                if turn == 4:
                    raise

    def _answers(self) -> bool:
        asked = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder), "-p", str(self.port)]
        return subprocess.run(asked, check=False).returncode == 0

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [*self._as_postgres, str(self._programs / program), *arguments]

    def _last_words(self) -> str:
        return " ".join(self._log.read_text(errors="replace").split()[-40:])


def _place() -> str:
    """A short path, since a socket's name has about a hundred characters; in memory where there is plenty of it."""
    memory = "/dev/shm"
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30
    return memory if roomy else "/tmp"


def _programs() -> Path:
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda found: float(found.parts[-3]))
    if not installed:
        raise Missing("PostgreSQL's server programs (initdb, postgres) are not installed")
    return installed[-1].parent


def _drop_root() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if shutil.which("setpriv"):
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    if shutil.which("runuser"):
        return ["runuser", "-u", "postgres", "--"]
    raise Missing("PostgreSQL does not run as root, and there is neither setpriv nor runuser")
