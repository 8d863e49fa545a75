"""`python -m bench.engine.script MODULE PART`: one part of one contestant's script, in this process.

The module is imported by its real name rather than run as a program, because workers import the same module to find its
tasks, and a task named after `__main__` would not be found.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback

from bench.engine.script.assignment import Assignment


def main() -> None:
    name, part = sys.argv[1:]
    status = 0
    try:
        getattr(importlib.import_module(name), part)(Assignment.given())
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Several engines leave threads behind that would keep the process from ending.
    os._exit(status)


if __name__ == "__main__":
    main()
