"""Outlives the pool's process by a moment, to kill what that left behind. Run by its path, with the standard library only.

The kernel kills a child when its parent dies, but not what the child has started (tesseract); and a child that sits in
C code cannot do it. So each pool has this one small process: it reads `+group` and `-group` lines, and when the pipe
ends, however the other side ended, it kills the groups that are left and removes the pool's temporary folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main(folder: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    with open(0, "rb", buffering=0) as told:  # noqa: PTH123 - a descriptor, not a path
        for line in told:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
