"""Which process this is, so that a worker that died on this machine is known to be dead without waiting for its lease
to run out.

A process is told apart by the machine's boot, its process namespace, its number and the moment it started: where all
of these are known and the process is not there, it cannot come back. Anywhere else nothing is concluded.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

if TYPE_CHECKING:
    from penstock.store.protocol import WorkerRow

_PROC = Path("/proc")


def this_process() -> dict[str, Any]:
    """What a worker tells of itself."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, **_marks(pid)}


@cache
def _marks(pid: int) -> dict[str, str | None]:
    """Of a process that is there for as long as this is asked."""
    return {"boot": _boot(), "space": _space(), "since": _since(pid)}


def told_by(worker: WorkerRow) -> dict[str, Any]:
    """What a worker said of itself; of one that said nothing everything is thought possible."""
    try:
        told = from_json(worker.info or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def is_internal(worker: WorkerRow) -> bool:
    """Whether it does the service's own work only, and no job that a person could have submitted."""
    return told_by(worker).get("internal") is True


def workers_at_work(workers: Iterable[WorkerRow], now: float) -> list[WorkerRow]:
    """Those whose lease has not run out, and that take people's jobs."""
    return [worker for worker in workers if worker.expires > now and not is_internal(worker)]


def is_dead(process: Mapping[str, Any]) -> bool:
    """Whether a process that described itself so is certainly gone."""
    boot, space, pid, since = (process.get(name) for name in ("boot", "space", "pid", "since"))
    if boot is None or space is None or since is None or not isinstance(pid, int):
        return False
    if boot != _boot() or space != _space():
        return False
    seen = _since(pid)
    return _is_gone(pid) if seen is None else seen != since


def _is_gone(pid: int) -> bool:
    """Asked of the kernel: what cannot be read in /proc may only be another user's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _read(_PROC / str(pid) / "stat") is not None


def _boot() -> str | None:
    return _read(_PROC / "sys/kernel/random/boot_id")


def _space() -> str | None:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None


def _since(pid: int) -> str | None:
    """When the process started, in the kernel's own ticks; None for a zombie, and for what cannot be seen."""
    stat = _read(_PROC / str(pid) / "stat")
    if stat is None:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in ("Z", "X") else fields[18]


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
