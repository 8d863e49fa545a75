"""How the machine is doing while the bench runs, for readers who compare two runs."""

from __future__ import annotations

import os
import statistics
import time

from bench.home import fresh_folder


def fsync_ms(times: int = 100) -> float:
    """The median of appending 4 KiB and waiting for the disk, in the folder where the stores are kept."""
    path = fresh_folder("fsync") / "probe"
    seconds = []
    with path.open("wb", buffering=0) as probe:
        for _ in range(times):
            began = time.perf_counter()
            probe.write(bytes(4096))
            os.fdatasync(probe.fileno())
            seconds.append(time.perf_counter() - began)
    return statistics.median(seconds) * 1000
