"""Runs a contestant of the ingestion bench in an interpreter and a folder of its own, and reads what it took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.environments import Unavailable, environment
from bench.home import bench_home
from bench.results import RESULTS

ROOT = RESULTS.parent.parent
PATIENCE = 3600.0

REQUIREMENTS = {
    "llamaindex": ("llama-index-core", "llama-index-vector-stores-lancedb", "pandas"),
    "cocoindex": ("cocoindex", "lancedb"),
}
"""By the end of the module's name; all others run with this interpreter. The embedder is the one that is installed
here."""

OFFLINE = {"COCOINDEX_DISABLE_USAGE_TRACKING": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
"""No contestant has anything to tell or to ask anywhere."""

Taken = dict[str, Any]


def interpreter(module: str) -> Path:
    """`Unavailable` where its environment cannot be made."""
    kind = module.rpartition("_")[2]
    if kind not in REQUIREMENTS:
        return Path(sys.executable)
    return environment(kind, (*REQUIREMENTS[kind], f"wordllama=={version('wordllama')}"))


def child(module: str, *arguments: object) -> Any:
    """What it printed last. `Unavailable`, with its last words, where it failed."""
    command = [str(interpreter(module)), "-m", module, *map(str, arguments)]
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    surroundings |= {**OFFLINE, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    log = bench_home() / "scratch" / f"{module.rpartition('.')[2]}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as errors:
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, check=False, cwd=ROOT, env=surroundings,
                timeout=PATIENCE,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{module} was not done after {PATIENCE:g} s") from None
    if done.returncode:
        last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
        raise Unavailable(f"{module} failed: {' '.join(last) or 'no message'}")
    return json.loads(done.stdout.splitlines()[-1])
