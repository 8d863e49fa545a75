"""Resident memory of processes and all their descendants, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path


def resident_mb(*pids: int) -> float:
    """The sum over these processes and their descendants, in MB; shared pages count in each."""
    page = os.sysconf("SC_PAGE_SIZE")
    waiting, pages = list(pids), 0
    while waiting:
        process = Path("/proc") / str(waiting.pop())
        try:
            pages += int((process / "statm").read_text().split()[1])
            for children in process.glob("task/*/children"):
                waiting += map(int, children.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended while we looked
    return pages * page / 2**20
