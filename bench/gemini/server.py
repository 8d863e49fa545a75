"""A local Gemini of the bench's own, with the scripted backend: what is measured is the server, not a model."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.home import fresh_folder

PATIENCE = 30


@contextmanager
def local_gemini(answer: Any = None) -> Iterator[str]:
    """Its address, for as long as the block lasts. It answers everything with this JSON, where it is given."""
    home = fresh_folder("gemini-server")
    backend = "script"
    if answer is not None:
        (home / "script.yaml").write_text(json.dumps({"default": {"json": answer}}))
        backend = f"script:{home / 'script.yaml'}"
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "penstock.gemini_local", "--home", str(home), "--backend", backend]
    command += ["--port", "0", "--ready-fd", str(writing)]
    with (home / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, pass_fds=(writing,))
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], PATIENCE)
        told = os.read(reading, 4096) if ready else b""
        if not told:
            raise SystemExit(f"the local Gemini did not start: {(home / 'log').read_text()[-500:]}")
        yield f"http://127.0.0.1:{json.loads(told)['port']}"
    finally:
        os.close(reading)
        process.terminate()
        process.wait(PATIENCE)
