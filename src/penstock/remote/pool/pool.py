"""A few processes that do what should not happen in ours: parse foreign files, burn CPU.

    pool = ProcessPool(workers=2, classes={"ocr": 1})
    value, blobs = await pool.run("package.module:function", {"page": 3}, blobs=[image], limits=PoolLimits(seconds=30))

In a child the function is called as `function(args, blobs)`: `args` as given (JSON), `blobs` a list of bytes. It
returns a JSON value, or a tuple `(value, list of bytes)`. It calls `page_done()` for each page. What it prints goes to
the log, at debug.

A pool belongs to the event loop that first uses it. Children are started when needed, kept warm, and replaced when
they die, are worn, or have grown.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import logging
import os
import re
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.engine.errors import InvalidRequest, PenstockError
from penstock.remote.pool.errors import ChildDied, Deadly, PoolClosed, TooLarge
from penstock.remote.pool.frames import Blob, TooMuch, pack
from penstock.remote.pool.keeper import Keeper
from penstock.remote.pool.limits import MB, PoolLimits
from penstock.remote.pool.process import Child, Request
from penstock.remote.pool.turns import Turns

log = logging.getLogger("penstock.pool")

DEATHS = 3
"""A call that has ended so many processes will end the next one too."""
REMEMBERED = 1000
CLOSE_WITHIN = 10.0

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|DATABASE|DSN|PENSTOCK_STORE", re.IGNORECASE)
_PASSWORD_IN_URL = re.compile(r"://[^/@\s]*:[^/@\s]*@")


@dataclass(slots=True, frozen=True, kw_only=True)
class PoolState:
    """What the pool is doing: calls running and waiting by resource class, children that are idle, and, since the
    beginning, children started and lost (died by themselves or killed for a limit)."""

    running: Mapping[str, int]
    waiting: Mapping[str, int]
    idle: int
    started: int
    lost: int


class ProcessPool:
    """`workers` children at most. `classes` says how many calls of a resource class may run at once; one that is not
    named there may use all workers. `env` is added to the environment the children get, which is ours without what
    looks like a secret."""

    def __init__(
        self,
        workers: int = 2,
        *,
        classes: Mapping[str, int] | None = None,
        calls_per_child: int = 500,
        recycle_mb: int = 768,
        nice: int = 5,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._turns = Turns(workers, classes or {})
        self._workers = workers
        self._calls_per_child = calls_per_child
        self._recycle_mb = recycle_mb
        self._nice = nice
        self._environment = _environment(workers) | dict(env or {})
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._burials: set[asyncio.Task[None]] = set()
        self._deaths: OrderedDict[str, int] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._folder: Path | None = None
        self._keeper: Keeper | None = None
        self._numbers = itertools.count(1)
        self._started = self._lost = 0
        self._closed = False

    @property
    def state(self) -> PoolState:
        return PoolState(
            running={resource: calls for resource, calls in self._turns.running.items() if calls},
            waiting=self._turns.waiting,
            idle=len(self._idle),
            started=self._started,
            lost=self._lost,
        )

    async def run(
        self,
        function: str,
        args: Any = None,
        *,
        blobs: Sequence[Blob] = (),
        files: Sequence[Path | str] = (),
        limits: PoolLimits | None = None,
        resource: str = "cpu",
    ) -> tuple[Any, list[bytes]]:
        """Call a function in a child. `files` are read there and come after `blobs`; large ones are better named in
        `args`. Cancelling kills what runs. Raises what `errors.py` lists, or the function's own Penstock error."""
        self._belong()
        request = _request(next(self._numbers), function, args, blobs, files, limits or PoolLimits())
        async with self._turns.turn(resource):
            child = await self._child(request, resource)
            try:
                return await child.call(request)
            except ChildDied as error:
                raise await self._judged(error, request) from None
            finally:
                await self._put_back(child)

    async def close(self) -> None:
        """Kill what runs, refuse what waits. Safe to do again."""
        self._closed = True
        self._turns.close()
        for child in (*self._idle, *self._busy):
            self._bury(child)
        self._idle.clear()
        if self._burials:
            await asyncio.wait(self._burials, timeout=CLOSE_WITHIN)
        if self._keeper is not None and self._folder is not None:
            self._keeper.close()
            await asyncio.to_thread(self._keeper.wait, CLOSE_WITHIN)
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _belong(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise InvalidRequest("a process pool belongs to the event loop that first used it: make one for each loop")
        self._loop = loop
        if self._closed:
            raise PoolClosed("the process pool is closed")

    async def _child(self, request: Request, resource: str) -> Child:
        """A process for this call: the one that has most likely imported what it needs, or a fresh one."""
        wanted = (request.function, resource)
        for dead in [each for each in self._idle if not each.alive]:
            self._idle.remove(dead)
            self._bury(dead)
        # What earlier calls have imported and kept must not be counted against this one.
        fitting = [each for each in self._idle if each.rests_with <= request.limits.memory_mb / 2]
        if fitting:
            child = max(fitting, key=lambda each: (each.last == wanted, each.last[1] == resource))
            self._idle.remove(child)
            self._busy.add(child)
            child.last = wanted
            return child
        if len(self._idle) + len(self._busy) >= self._workers:
            self._bury(self._idle.pop(0))
        child = self._start()
        child.last = wanted
        try:
            await child.ready()
        except ChildDied:
            if self._closed:
                raise PoolClosed("the process pool was closed while a process started") from None
            raise
        finally:
            if not child.resting:
                await self._put_back(child)
        return child

    def _start(self) -> Child:
        if self._closed:
            raise PoolClosed("the process pool is closed")
        if self._folder is None or self._keeper is None:
            self._folder = Path(tempfile.mkdtemp(prefix="penstock-pool-"))
            self._keeper = Keeper(self._folder)
        self._started += 1
        try:
            child = Child(folder=self._folder / str(self._started), environment=self._environment, nice=self._nice)
        except OSError as error:
            raise ChildDied(f"a process could not be started: {error}") from error
        self._busy.add(child)
        self._keeper.add(child.pid)
        return child

    async def _put_back(self, child: Child) -> None:
        """Keep it for the next call, or bury it. One that was killed is waited for: its call is over when it is."""
        self._busy.discard(child)
        if child.resting and not self._closed and not self._spent(child):
            self._idle.append(child)
            return
        burial = self._bury(child)
        if not child.resting:
            self._lost += 1
            await asyncio.shield(burial)

    def _spent(self, child: Child) -> bool:
        # Looked up once: a process that waits for its next call needs no more than now, and has nothing below it.
        child.rests_with = child.own_mb
        return child.worn or child.calls >= self._calls_per_child or child.rests_with > self._recycle_mb

    def _bury(self, child: Child) -> asyncio.Task[None]:
        burial = asyncio.ensure_future(self._buried(child))
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)
        return burial

    async def _buried(self, child: Child) -> None:
        await child.bury()
        if self._keeper is not None:
            self._keeper.remove(child.pid)

    async def _judged(self, error: ChildDied, request: Request) -> PenstockError:
        """A death may be the machine's doing; the third of the same call is the call's."""
        if self._closed:
            return PoolClosed(f"the process pool was closed while {request.function} ran")
        call = await asyncio.to_thread(_fingerprint, request)
        deaths = self._deaths.pop(call, 0) + 1
        self._deaths[call] = deaths
        if len(self._deaths) > REMEMBERED:
            self._deaths.popitem(last=False)
        log.warning("%s; process %d that this call has ended", error, deaths)
        return error if deaths < DEATHS else Deadly(f"{error}; this call has ended {deaths} processes")


def checked_function(function: str) -> str:
    if not _NAME.fullmatch(function):
        raise InvalidRequest(f"{function[:80]!r} does not name a function as package.module:function")
    if function.startswith("__main__:"):
        raise InvalidRequest(f"{function}: a program's own file cannot be imported by the pool; use a module")
    return function


def _request(
    call: int, function: str, args: Any, blobs: Sequence[Blob], files: Sequence[Path | str], limits: PoolLimits
) -> Request:
    """What goes to the child, refused here if it could not."""
    head = {
        "call": call,
        "function": checked_function(function),
        "args": args,
        "files": [str(file) for file in files],
        "pages": limits.pages,
        "memory_mb": limits.memory_mb,
        "answer_mb": limits.answer_mb,
    }
    try:
        parts = pack(head, blobs)
    except TooMuch as error:
        raise InvalidRequest(f"{function}: {error}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRequest(f"{function}: the arguments must be JSON, the blobs bytes: {error}") from error
    size = sum(len(blob) for blob in parts[1:]) / MB
    if size > limits.memory_mb:
        raise TooLarge(f"{function}: {size:.0f} MB of blobs do not fit in the {limits.memory_mb} MB it may use")
    return Request(call, function, tuple(parts), limits)


def _fingerprint(request: Request) -> str:
    head = {**json.loads(bytes(request.parts[0][4:])), "call": None}
    digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for blob in request.parts[1:]:
        digest.update(hashlib.sha256(blob).digest())
    return digest.hexdigest()


def _environment(workers: int) -> dict[str, str]:
    """Ours without what looks like a secret; and number libraries share the cores instead of fighting for them."""
    threads = str(max((os.cpu_count() or 1) // workers, 1))
    ours = {
        name: value
        for name, value in os.environ.items()
        if not _SECRET.search(name) and not _PASSWORD_IN_URL.search(value)
    }
    return {"OMP_NUM_THREADS": threads, "OMP_THREAD_LIMIT": threads, **ours}
