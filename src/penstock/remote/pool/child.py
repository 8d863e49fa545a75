"""A child of the pool: takes one call after another from its socket, and ends when that does.

It is not a sandbox: hostile *data* can crash or choke it, and then only it suffers; hostile *code* has our user's
rights. What a call has started or left in the temporary folder is gone when the call is.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import inspect
import os
import resource
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.engine.errors import Permanent
from penstock.remote.pool.errors import NoSuchFunction, TooLarge, described
from penstock.remote.pool.frames import Blob, TooMuch, checked_length, pack, unpacked
from penstock.remote.pool.limits import MB
from penstock.remote.pool.pages import begin_pages, check_pages
from penstock.remote.pool.tree import kill_below

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PARENT_GONE = getattr(signal, "SIGRTMAX", signal.SIGTERM)
"""A signal that no library takes for itself."""
SLACK = 256 * MB
"""Thread stacks and the buffers of number libraries are mapped whole and used in part."""
MOURNING = 2.0
"""Seconds to wait for the end of what a call left running."""


def main(descriptor: int, parent: int, nice: int, folder: str) -> None:
    end_with(parent)
    keep_small(nice)
    faulthandler.enable()
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    sys.argv = ["penstock-pool"]
    with contextlib.suppress(ConnectionError, KeyboardInterrupt):
        serve(connection, Path(folder))
    # Whatever a call has left in threads or exit handlers must not keep this process.
    os._exit(0)


def end_with(parent: int) -> None:
    """The kernel tells us when our parent is gone; one that died before we could ask has left us another parent. What
    our calls start, and what that starts, stays below us, so that it ends with us."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        signal.signal(PARENT_GONE, end)
        libc.prctl(PR_SET_PDEATHSIG, PARENT_GONE)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:
        os._exit(1)


def end(*_: object) -> None:
    kill_below(os.getpid())
    os.killpg(0, signal.SIGKILL)


def keep_small(nice: int) -> None:
    """No core dumps, less urgent than the event loop, and the first to go when the machine is out of memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.nice(nice)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def serve(connection: socket.socket, folder: Path) -> None:
    myself = os.getpid()
    _send(connection, pack({"ready": True}))
    while (request := _receive(connection)) is not None:
        head, blobs = request
        parts = answer(head, blobs)
        if os.getpid() != myself:
            os._exit(0)  # a copy that the function has forked and let return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        end_leftovers()
        empty(folder)
        _send(connection, parts)


def answer(head: dict[str, Any], blobs: list[bytes]) -> list[Blob]:
    """Call the function, and pack what it returned or raised. `worn`: this process had better be replaced."""
    call, name = head["call"], head["function"]
    try:
        begin_pages(head["pages"])
        with memory_limit(name, head["memory_mb"]):
            function = named(name)
            value, back = _both(
                name, function(head["args"], blobs + [Path(file).read_bytes() for file in head["files"]])
            )
        check_pages()
        return _packed(name, {"call": call, "value": value}, back, head["answer_mb"] * MB)
    except BaseException as error:
        worn = isinstance(error, (TooLarge, RecursionError)) or not isinstance(error, Exception)
        return pack({"call": call, "error": described(error, name), "worn": worn})


def named(name: str) -> Callable[[Any, list[bytes]], Any]:
    """The function that `package.module:function` names."""
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise NoSuchFunction(f"{name}: there is no module {missing!r} on the pool's path") from error
        raise
    function = getattr(module, attribute, None)
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise NoSuchFunction(f"{name}: {module_name} has no plain function {attribute!r}")
    return function  # type: ignore[no-any-return]


@contextlib.contextmanager
def memory_limit(name: str, megabytes: int) -> Iterator[None]:
    """Stops a sudden burst; the pool watches what is really in use. The address space is left alone, because number
    libraries and models map much more of it than they use; writable memory may be twice the limit and some slack."""
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = 2 * megabytes * MB + SLACK
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield
    except MemoryError as error:
        raise TooLarge(f"{name} needed more than the {megabytes} MB it may") from error
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def end_leftovers() -> None:
    """Kill what the call left running. Orphans of what we kill come to us, so we go on until nobody is left."""
    until = time.monotonic() + MOURNING
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG) != (0, 0):
                continue
        except ChildProcessError:
            return
        kill_below(os.getpid())
        time.sleep(0.001)


def empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)


def _both(name: str, returned: Any) -> tuple[Any, list[Blob]]:
    if not isinstance(returned, tuple):
        return returned, []
    if len(returned) == 2 and isinstance(returned[1], (list, tuple)):
        value, blobs = returned
        if all(isinstance(blob, (bytes, bytearray, memoryview)) for blob in blobs):
            return value, list(blobs)
    raise Permanent(f"{name} returned a tuple that is not (value, list of bytes)")


def _packed(name: str, head: dict[str, Any], blobs: Sequence[Blob], most: int) -> list[Blob]:
    size = sum(memoryview(blob).nbytes for blob in blobs)
    if size > most:
        raise TooLarge(f"{name} returned {size / MB:.1f} MB of blobs, and {most / MB:g} MB may come back")
    try:
        parts = pack(head, blobs)
        unpacked(memoryview(parts[0])[4:], most)
    except TooMuch as error:
        raise TooLarge(f"{name} returned {error}") from None
    except Exception as error:
        raise Permanent(f"{name} returned a value that is not JSON: {error}") from error
    return parts


def _send(connection: socket.socket, parts: Sequence[Blob]) -> None:
    for part in parts:
        connection.sendall(part)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[bytes]] | None:
    prefix = connection.recv(4, socket.MSG_WAITALL)
    if len(prefix) < 4:
        return None
    head, sizes = unpacked(_received(connection, checked_length(prefix)), sys.maxsize)
    return head, [_received(connection, size) for size in sizes]


def _received(connection: socket.socket, length: int) -> bytes:
    whole = bytearray(length)
    rest = memoryview(whole)
    while rest:
        got = connection.recv_into(rest)
        if not got:
            raise ConnectionResetError
        rest = rest[got:]
    return bytes(whole)
