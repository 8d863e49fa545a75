"""Throw-away virtual environments, one for each peer, kept between runs under the bench's home."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.home import bench_home

FINISHED = "finished"
"""A file in a complete environment: one whose making was interrupted is made again."""


class Unavailable(Exception):
    """Something a contestant needs cannot be had on this machine; the message says what and why."""


def environment(name: str, requirements: tuple[str, ...]) -> Path:
    """The interpreter of an environment with these requirements, made now unless an earlier run did."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    mark = hashlib.sha256("\n".join([version, *requirements]).encode()).hexdigest()[:8]
    folder = bench_home() / "environments" / f"{name}-{mark}"
    interpreter = folder / "bin" / "python"
    if not (folder / FINISHED).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        for command in _commands(folder, interpreter, requirements):
            _run(command, purpose=f"the environment of {name}")
        (folder / FINISHED).touch()
    return interpreter


def _commands(folder: Path, interpreter: Path, requirements: tuple[str, ...]) -> list[list[str]]:
    uv = shutil.which("uv")
    if uv and subprocess.run([uv, "--version"], capture_output=True, check=False).returncode == 0:
        return [
            [uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", str(interpreter), *requirements],
        ]
    return [
        [sys.executable, "-m", "venv", str(folder)],
        [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
    ]


def _run(command: list[str], *, purpose: str) -> None:
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Files that are linked into several environments are refused by NLTK.
    surroundings["UV_LINK_MODE"] = "copy"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise Unavailable(f"{purpose} could not be made: {' '.join(last) or 'no message'}")
