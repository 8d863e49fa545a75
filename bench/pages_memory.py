"""How much memory this process has had at most."""

from __future__ import annotations

import re
import resource
from pathlib import Path


def peak_megabytes() -> float:
    status = Path("/proc/self/status")
    # The system's other figure begins with what the parent had when it started this process.
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
