"""Runs one part of a contestant's script in its own interpreter and reads its figures as they come."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from bench.engine.contestants import Part
from bench.engine.script.assignment import Assignment
from bench.engine.script.report import FIGURE, FIRST_JOB_DONE

ROOT = Path(__file__).parents[2]
LIMITS = {Part.SPEED: 150, Part.COLD: 60, Part.WAITING: 200, Part.CLAIMS: 300}
"""Seconds after which a part is given up."""


def run_part(interpreter: Path, module: str, part: Part, assignment: Assignment) -> tuple[dict[str, float], str | None]:
    """The figures of this part, and what went wrong, if anything; figures from before a failure count."""
    errors = assignment.folder / f"{part}.stderr"
    surroundings = os.environ | assignment.as_environment()
    surroundings |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}
    figures: dict[str, float] = {}
    with errors.open("wb") as stderr:
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(interpreter), "-m", "bench.engine.script", module, part],
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=ROOT,
            env=surroundings,
            text=True,
            start_new_session=True,
        )
        overdue = threading.Timer(LIMITS[part], _kill_all, [process.pid])
        overdue.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(FIRST_JOB_DONE):
                    figures["cold_start"] = time.perf_counter() - began
                elif line.startswith(FIGURE):
                    measure, value = json.loads(line.removeprefix(FIGURE))
                    figures[measure] = value
            status = process.wait()
        finally:
            in_time = overdue.is_alive()
            overdue.cancel()
            # Workers that the script started and a failure left behind are in its session.
            _kill_all(process.pid)
            process.wait()
    if not in_time:
        return figures, f"not done after {LIMITS[part]} seconds"
    return figures, _last_line(errors) if status else None


def _kill_all(session: int) -> None:
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return


def _last_line(errors: Path) -> str:
    lines = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "it ended without a message"
