"""The pool's end of the guard: tells it which children there are (see `guard.py`)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

# By path: without the package, which takes ten times as long to import.
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); import guard, tree; "
    "guard.main(sys.argv[2], tree.kill_tree)  # penstock-pool-guard"
)


class Keeper:
    """Starts the guard with the first child, and another when somebody has killed it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: set[int] = set()
        self._guard: subprocess.Popen[bytes] | None = None

    def add(self, child: int) -> None:
        self._children.add(child)
        if self._guard is None or self._guard.poll() is not None:
            self.close()
            self._start()
            for each in self._children:
                self._tell(f"+{each}\n")
        else:
            self._tell(f"+{child}\n")

    def remove(self, child: int) -> None:
        self._children.discard(child)
        self._tell(f"-{child}\n")

    def close(self) -> None:
        """The end of its pipe is the guard's sign to clean up and go."""
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(OSError):
                self._guard.stdin.close()

    def wait(self, seconds: float) -> None:
        """Blocks until the guard is gone."""
        if self._guard is not None:
            try:
                self._guard.wait(seconds)
            except subprocess.TimeoutExpired:
                self._guard.kill()
                self._guard.wait()

    def _start(self) -> None:
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(__file__).parent), str(self._folder)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        if self._guard.stdin is not None:
            os.set_blocking(self._guard.stdin.fileno(), False)

    def _tell(self, line: str) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._guard.stdin.write(line.encode())
