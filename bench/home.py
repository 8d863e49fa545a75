"""Where a bench keeps what it makes: the peers' environments, the servers' data, scratch files.

Never in the repository. The figures are about durable commits, so the folder should be on a real disk: /var/tmp is by
convention, /tmp is often memory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def bench_home() -> Path:
    """`$BENCH_HOME`, or a folder of this user's in the system's temporary folder; made when it is missing."""
    chosen = os.environ.get("BENCH_HOME")
    if chosen:
        home = Path(chosen).expanduser().resolve()
    else:
        durable = Path("/var/tmp")
        base = durable if os.access(durable, os.W_OK) else Path(tempfile.gettempdir())
        home = base / f"penstock-bench-{os.getuid()}"
    home.mkdir(parents=True, exist_ok=True)
    return home


@contextmanager
def reserved() -> Iterator[None]:
    """Only one bench at a time: a second one would spoil the figures and the files of the first."""
    with (bench_home() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another bench is running in {bench_home()}; wait for it, or set BENCH_HOME") from None
        yield


def fresh_folder(name: str) -> Path:
    """An empty folder under the bench's home; what an earlier run left there is gone."""
    folder = bench_home() / "scratch" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
