"""One child as the pool sees it: started, given calls, watched, killed, buried.

All of it happens on one event loop. The start itself is made in the loop's own thread (a few milliseconds), because the
kernel ends a child with the *thread* that made it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from penstock.remote.pool.errors import ChildDied, TooLarge, TooLong, rebuilt
from penstock.remote.pool.frames import BadFrame, Blob, TooMuch, receive, send
from penstock.remote.pool.limits import MB, PoolLimits
from penstock.remote.pool.tree import kill_tree, memory, own_memory

T = TypeVar("T")

log = logging.getLogger("penstock.pool")

LOOK_EVERY = 0.1
"""Seconds between looks at a call's memory."""
START_WITHIN = 60.0
DIE_WITHIN = 5.0
LAST_MOMENT = 0.5
_STARTING = PoolLimits(seconds=START_WITHIN)
TAIL = 4096
"""Bytes kept of what a child has printed last, for the message when it dies."""

_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from penstock.remote.pool.child import main; main(*map(int, sys.argv[2:5]), sys.argv[5])"
)


@dataclass(slots=True, frozen=True)
class Request:
    """What a child is asked to do; all that is sent is in `parts`."""

    call: int
    function: str
    parts: Sequence[Blob]
    limits: PoolLimits


class Child:
    """A process that takes one call at a time. When a call is over and it is not `resting`, it must be buried."""

    def __init__(self, *, folder: Path, environment: Mapping[str, str], nice: int) -> None:
        self._folder = folder
        self.calls = 0
        self.worn = False
        self.resting = False
        self.last = ("", "")
        self.rests_with = 0.0
        self._printed = bytearray()
        self._talk: asyncio.Future[Any] | None = None
        self._loop = asyncio.get_running_loop()
        folder.mkdir()
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        path = json.dumps([entry or str(Path.cwd()) for entry in sys.path])
        numbers = [str(number) for number in (theirs.fileno(), os.getpid(), nice)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, path, *numbers, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=(theirs.fileno(),),
                env={**environment, "TMPDIR": str(folder)},
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(writing)
        self.pid = self._process.pid
        ours.setblocking(False)
        os.set_blocking(reading, False)
        self._connection = ours
        self._prints = reading
        self._loop.add_reader(reading, self._hear)

    async def ready(self) -> None:
        """Wait until it has started."""
        try:
            await self._watched(receive(self._connection, 0), "a process of the pool", _STARTING)
        except (TooLong, TooLarge) as error:
            raise ChildDied(f"could not start: {error}") from None
        self.resting = True

    async def call(self, request: Request) -> tuple[Any, list[bytes]]:
        self.calls += 1
        self.resting = False
        answer, blobs = await self._watched(self._exchange(request), request.function, request.limits)
        self.resting = True
        self.worn = answer.get("worn") is True
        if "error" not in answer:
            return answer.get("value"), blobs
        told = answer["error"] if isinstance(answer["error"], dict) else {}
        log.debug("%s failed in process %d\n%s", request.function, self.pid, told.get("traceback", ""))
        raise rebuilt(told)

    @property
    def alive(self) -> bool:
        """Looks without reaping: as long as it is not reaped its number, and its group's, belong to nobody else."""
        if self._process.returncode is not None:
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except AttributeError:
            return self._process.poll() is None
        except ChildProcessError:
            return False

    @property
    def memory_mb(self) -> float:
        return memory(self.pid) / MB

    @property
    def own_mb(self) -> float:
        """Without what it has started."""
        return own_memory(self.pid) / MB

    def kill(self) -> None:
        if self._process.returncode is None:
            kill_tree(self.pid)

    async def bury(self) -> None:
        """Kill it with all it has started, and leave nothing of it behind. Whoever waits for it learns of its death."""
        await self._end()
        if self._talk is not None and not self._talk.done():
            self._talk.cancel()
            await asyncio.wait({self._talk})
        # The loop lets go of the socket one turn after whoever waited for it.
        await asyncio.sleep(0.001)
        self._hear()
        self._deaf()
        self._connection.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _end(self) -> None:
        self.kill()
        await self._dead_within(DIE_WITHIN)
        if self._process.poll() is None:
            log.warning("process %d of the pool does not end, although it was killed", self.pid)

    async def _dead_within(self, seconds: float) -> bool:
        until = self._loop.time() + seconds
        wait = 0.001
        while self.alive and self._loop.time() < until:
            await asyncio.sleep(wait)
            wait = min(wait * 2, 0.05)
        return not self.alive

    async def _exchange(self, request: Request) -> tuple[dict[str, Any], list[bytes]]:
        # A process that has died may still have answered: what it said is read before its death is believed.
        with contextlib.suppress(ConnectionError):
            await send(self._connection, request.parts)
        answer, blobs = await receive(self._connection, request.limits.answer_mb * MB)
        if answer.get("call") != request.call:
            raise BadFrame(f"an answer to call {str(answer.get('call'))[:20]} instead of {request.call}")
        return answer, blobs

    async def _watched(self, work: Coroutine[Any, Any, T], what: str, limits: PoolLimits) -> T:
        """Wait for `work`, but not past the limits nor past the end of the process."""
        self._talk = task = asyncio.ensure_future(work)
        until = self._loop.time() + limits.seconds
        try:
            while True:
                alive = self.alive
                await asyncio.wait({task}, timeout=max(min(LOOK_EVERY, until - self._loop.time()), 0.0))
                if task.cancelled():
                    raise ConnectionResetError
                if task.done():
                    return task.result()
                if self._loop.time() >= until:
                    raise TooLong(f"{what} took more than the {limits.seconds:g} s it may, and was stopped")
                if not alive:
                    raise ConnectionResetError
                if (used := self.memory_mb) > limits.memory_mb:
                    raise TooLarge(f"{what} used {used:.0f} MB of memory, and may use {limits.memory_mb} MB")
        except ConnectionError:
            raise await self._obituary(what) from None
        except (BadFrame, TooMuch) as error:
            raise ChildDied(f"{what}: the process sent {error}, and was killed") from None
        finally:
            if not task.done():
                task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()

    async def _obituary(self, what: str) -> ChildDied:
        """Its connection has ended, and mostly that is because it has; how, it must have a moment to show."""
        died = await self._dead_within(LAST_MOMENT)
        await self._end()
        self._hear()
        code = self._process.returncode
        if not died:
            how = "the process closed its connection, and was killed"
        elif code is None or code >= 0:
            how = f"the process ended with exit code {code}"
        else:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            how = f"the process was ended by {name}"
            if -code == signal.SIGKILL:
                how += " (as the kernel does when memory runs out)"
        lines = [line for line in self._printed.decode(errors="replace").splitlines() if line.strip()]
        fatal = next((line for line in lines if line.startswith("Fatal Python error")), lines[-1] if lines else "")
        return ChildDied(f"{what}: {how}{f'; it last said: {fatal[:200]}' if fatal else ''}", code=code)

    def _hear(self) -> None:
        """Take what it has printed, so that it never waits for us to."""
        if self._prints < 0:
            return
        try:
            said = os.read(self._prints, 65536)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._deaf()
            return
        self._printed += said
        del self._printed[:-TAIL]
        if log.isEnabledFor(logging.DEBUG):
            log.debug("process %d: %s", self.pid, said.decode(errors="replace").rstrip())

    def _deaf(self) -> None:
        if self._prints >= 0:
            self._loop.remove_reader(self._prints)
            os.close(self._prints)
            self._prints = -1
