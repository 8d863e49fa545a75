"""Worker processes of peers whose workers are programs of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.engine.script.assignment import Assignment


@contextmanager
def workers(assignment: Assignment, program: str, *arguments: str, count: int = 1) -> Iterator[list[int]]:
    """Run a program of this environment `count` times; gives the process ids."""
    command = [str(Path(sys.executable).parent / program), *arguments]
    with (assignment.folder / "worker.log").open("ab") as log:
        processes = [subprocess.Popen(command, stdout=log, stderr=log) for _ in range(count)]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
