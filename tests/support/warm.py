"""Commands of Penstock as processes of their own that do not import it first: each is forked from one that has.

A command has its own arguments, folder, environment and streams, and ends as any process does. What it is like to start
from nothing is for tests that start services and workers, and for those of the documentation.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MOST = 1 << 20
ALSO = ("penstock.config.loading", "penstock.cli.schema_state", "penstock.store.sql.sqlite", "rich.table", "yaml")


def run(
    args: Sequence[str], *, cwd: Path, env: Mapping[str, str], text: str = "", timeout: float = 100
) -> subprocess.CompletedProcess[str]:
    """`penstock` with these arguments, to its end."""
    with contextlib.ExitStack() as files:
        given, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(text.encode())
        given.seek(0)
        ours, theirs = socket.socketpair()
        files.enter_context(ours)
        with theirs:
            asked = json.dumps({"args": list(args), "cwd": str(cwd), "env": dict(env)}).encode()
            assert len(asked) < MOST
            streams = [given.fileno(), out.fileno(), err.fileno(), theirs.fileno()]
            socket.send_fds(_kept().socket, [asked], streams)
        ours.settimeout(timeout)
        told = files.enter_context(ours.makefile())
        pid = int(told.readline())
        try:
            code = int(told.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(list(args), code, out.read().decode(), err.read().decode())


class _Keeper:
    """The process that others are forked from; it ends with this one."""

    def __init__(self) -> None:
        # Whoever reads sees the ends of what was asked, so that several threads may ask.
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno())]
            self.process = subprocess.Popen(
                command, env=environ, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        atexit.register(self.end)

    def end(self) -> None:
        self.socket.close()
        self.process.wait(30)


_keepers: dict[int, _Keeper] = {}


def _kept() -> _Keeper:
    """One for each test process."""
    if os.getpid() not in _keepers:
        _keepers[os.getpid()] = _Keeper()
    return _keepers[os.getpid()]


def _serve(asking: socket.socket) -> dict[str, Any] | None:
    """Returns in a new process, with what that is to do; or in this one, when nobody will ask any more."""
    while True:
        asked, streams, _, _ = socket.recv_fds(asking, MOST, 4)
        if not asked:
            return None
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not os.fork():
            asking.close()
            if not (command := os.fork()):
                for stream, number in zip(streams, (0, 1, 2), strict=False):
                    os.dup2(stream, number)
                for stream in streams:
                    os.close(stream)
                told: dict[str, Any] = json.loads(asked)
                return told
            os.write(streams[3], b"%d\n" % command)
            _, status = os.waitpid(command, 0)
            os.write(streams[3], b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        for stream in streams:
            os.close(stream)


def _main() -> None:
    import importlib

    from penstock.builtin import BUILT_IN_WORKFLOWS
    from penstock.cli.main import COMMANDS, main

    for name in (*COMMANDS.values(), *(place.partition(":")[0] for place in BUILT_IN_WORKFLOWS), *ALSO):
        importlib.import_module(name)
    # What all have in common is not looked through, and so not copied, by the collectors of each.
    gc.collect()
    gc.freeze()
    asked = _serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is None:
        return
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path[:0] = [place for place in asked["env"].get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.argv = ["penstock", *asked["args"]]
    main()


if __name__ == "__main__":
    _main()
