"""How much processor time some processes and all below them have had: what a document costs, however busy the machine
is with other things."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


def cpu_of(roots: Iterable[int]) -> float:
    """Seconds, of those that live now and of those they have waited for."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                # The name, in brackets, may hold anything.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                spent[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    wanted = set(roots)
    found = {pid for pid in spent if wanted & set(_line(pid, parents))}
    return sum(spent[pid] for pid in found)


def _line(pid: int, parents: dict[int, int]) -> list[int]:
    line = []
    while pid in parents and pid not in line:
        line.append(pid)
        pid = parents[pid]
    return line


def told_roots() -> list[int]:
    """This process, and those that `ROOTS` names."""
    return [os.getpid(), *map(int, os.environ.get("ROOTS", "").split())]
