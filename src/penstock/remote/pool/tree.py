"""A process and all that it has started: how much memory they use, and how to end them. Reads /proc; where there is
none (macOS) memory is not watched, and only the process group is killed."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_ROUNDS = 3
"""Looks for what was started while the others were being killed."""


def descendants(pid: int) -> list[int]:
    """All that a process has started, and those in turn. A child is the reaper of its orphans, so none is missed."""
    found: list[int] = []
    pending = [pid]
    while pending:
        for listed in _children_files(pending.pop()):
            with contextlib.suppress(OSError):
                children = [int(child) for child in listed.read_text().split()]
                found += children
                pending += children
    return found


def memory(pid: int) -> int:
    """Bytes in use by a process and its descendants. Mapped files (models, libraries) do not count: the kernel can drop
    them; what was reserved and never touched does not count either."""
    return sum(own_memory(each) for each in (pid, *descendants(pid)))


def own_memory(pid: int) -> int:
    """The same of one process alone."""
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return 0
    counted = (line for line in status.splitlines() if line.startswith((b"RssAnon:", b"RssShmem:")))
    return sum(int(line.split()[1]) * 1024 for line in counted)


def kill_tree(pid: int) -> None:
    """End a process that leads its group, and everything below it, also what went into a group of its own. The process
    must not have been reaped: only so is its number sure to be its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGSTOP)
    kill_below(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill_below(pid: int) -> None:
    """End everything below a process."""
    for _ in range(_ROUNDS):
        below = descendants(pid)
        for each in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        if not below:
            break


def _children_files(pid: int) -> list[Path]:
    try:
        return [task / "children" for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
