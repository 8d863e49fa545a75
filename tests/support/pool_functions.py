"""What the tests let a pool's children do: mostly misbehave."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from penstock.engine.errors import Ambiguous, InvalidRequest, Permanent, RateLimited, Transient
from penstock.remote.pool import page_done, pages_left


class OwnKind(Permanent):
    """A subclass that only the child knows."""


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("and no message either")


def echo(args: Any, blobs: list[bytes]) -> Any:
    return args, blobs


def plain(args: Any, blobs: list[bytes]) -> Any:
    return {"args": args, "sizes": [len(blob) for blob in blobs], "pid": os.getpid()}


def environment(args: Any, blobs: list[bytes]) -> Any:
    return {"names": sorted(os.environ), "stdin": sys.stdin.read(), "tmp": os.environ["TMPDIR"]}


def sleep(args: Any, blobs: list[bytes]) -> Any:
    if "started" in args:
        Path(args["started"]).write_text(str(os.getpid()))
    time.sleep(args["seconds"])
    return "slept"


def journal(args: Any, blobs: list[bytes]) -> Any:
    """Notes its begin and end in a file; in between it waits for a line there."""
    with Path(args["file"]).open("a") as file:
        file.write(f"+{args['name']}\n")
        file.flush()
        while args.get("until", "") not in Path(args["file"]).read_text():
            time.sleep(0.01)
        file.write(f"-{args['name']}\n")


def with_grandchildren(args: Any, blobs: list[bytes]) -> Any:
    """Starts one process in our group and one that went its own way, notes their numbers, and waits or returns."""
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    near = subprocess.Popen(command)
    far = subprocess.Popen(command, start_new_session=True)
    note = Path(args["file"])
    note.with_suffix(".tmp").write_text(f"{os.getpid()} {near.pid} {far.pid}")
    note.with_suffix(".tmp").rename(note)
    near.returncode = far.returncode = 0  # nobody is going to wait for them
    time.sleep(args.get("seconds", 600))
    return [near.pid, far.pid]


def deaf(args: Any, blobs: list[bytes]) -> Any:
    """Starts a process, and then sits in C code with the interpreter's lock held."""
    below = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
    note = Path(args["file"])
    note.with_suffix(".tmp").write_text(f"{os.getpid()} {below.pid}")
    note.with_suffix(".tmp").rename(note)
    ctypes.PyDLL(None).sleep(600)


def leave_file(args: Any, blobs: list[bytes]) -> Any:
    import tempfile

    descriptor, name = tempfile.mkstemp()
    os.close(descriptor)
    time.sleep(args.get("seconds", 0))
    return name


def burst(args: Any, blobs: list[bytes]) -> Any:
    return len(bytearray(20 * 2**30))


def hog(args: Any, blobs: list[bytes]) -> Any:
    """Takes more and more, and uses it."""
    held = []
    while True:
        held.append(os.urandom(2**20) * 4)
        time.sleep(0.001)


def hog_below(args: Any, blobs: list[bytes]) -> Any:
    """Lets a process of its own take the memory."""
    program = "import time; held = [bytes([n]) * 2**22 for n in range(100)]; time.sleep(600)"
    return subprocess.run([sys.executable, "-S", "-c", program], check=False).returncode


def segfault(args: Any, blobs: list[bytes]) -> Any:
    ctypes.string_at(0)


def suicide(args: Any, blobs: list[bytes]) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def leave(args: Any, blobs: list[bytes]) -> Any:
    os._exit(7)


def exit_politely(args: Any, blobs: list[bytes]) -> Any:
    sys.exit("enough")


def chatter(args: Any, blobs: list[bytes]) -> Any:
    """Writes to both streams, through Python and below it, more than any pipe holds."""
    print("x" * 300_000)
    os.write(1, b"\x00\x00\x00\x02{}" * 1000)
    print("y" * 300_000, file=sys.stderr)
    return "said"


def much_json(args: Any, blobs: list[bytes]) -> Any:
    return "x" * 9 * 2**20


def much_bytes(args: Any, blobs: list[bytes]) -> Any:
    return None, [bytes(2**20)] * args["mb"]


def not_json(args: Any, blobs: list[bytes]) -> Any:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    values = {"set": {1}, "nan": float("nan"), "bytes": b"x", "surrogate": "\ud800", "tuple": (1, 2, 3)}
    return {**values, "nested": nested}[args]


def deep(args: Any, blobs: list[bytes]) -> Any:
    return deep(args, blobs)


def fail(args: Any, blobs: list[bytes]) -> Any:
    raise {
        "ValueError": ValueError("page 3 has no end"),
        "Permanent": Permanent("never"),
        "Transient": Transient("later"),
        "RateLimited": RateLimited("slow down", retry_after=7),
        "InvalidRequest": InvalidRequest("no such page"),
        "Ambiguous": Ambiguous("who knows"),
        "OwnKind": OwnKind("mine"),
        "disk": OSError(28, "No space left on device"),
        "missing": FileNotFoundError(2, "No such file", "x.pdf"),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "surrogate": ValueError("\ud800"),
        "mute": Mute(),
    }[args]


async def coroutine(args: Any, blobs: list[bytes]) -> Any:
    return None


def pages(args: Any, blobs: list[bytes]) -> Any:
    for _ in range(args["pages"]):
        try:
            page_done()
        except Permanent:
            if not args.get("stubborn"):
                raise
    return pages_left()


def fork_and_return(args: Any, blobs: list[bytes]) -> Any:
    """Both copies return."""
    import warnings

    warnings.simplefilter("ignore")
    os.fork()
    return "once"


def lie(args: Any, blobs: list[bytes]) -> Any:
    """Answers in the pool's own way, and promises more than may come."""
    text = b'{"call": 1, "value": 1, "blobs": [4294967296]}'
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, len(text).to_bytes(4, "big") + text)
        except OSError:
            continue
    time.sleep(600)


def hang_up(args: Any, blobs: list[bytes]) -> Any:
    os.closerange(3, 64)
    time.sleep(600)


def scribble(args: Any, blobs: list[bytes]) -> Any:
    """Writes over every descriptor it may have."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\xff\xff\xff\xff garbage")
        except OSError:
            continue
    return "done"
