"""Outlives the pool's process by a moment, to kill what that left behind. Runs with the standard library only.

The kernel tells a child that its parent has died, but a child that sits in C code does not hear it. So each pool has
this one small process: it reads `+pid` and `-pid` lines, and when the pipe ends, however the other side ended, it kills
the children that are left, with all they have started, and removes the pool's temporary folder.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable


def main(folder: str, kill: Callable[[int], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    children: set[int] = set()
    with open(0, "rb", buffering=0) as told:
        for line in told:
            with contextlib.suppress(ValueError):  # a line that broke off with its writer
                (children.add if line[:1] == b"+" else children.discard)(int(line[1:]))
    for child in children:
        kill(child)
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
