"""An asyncio event loop without sockets, threads or real time: when nothing is ready, time jumps to the next timer.

Every callback carries the context in which it was made, and the context says to which simulated process it belongs.
Callbacks of a process that was killed are never run: not even a `finally` gets its turn, as after `kill -9`. Those of a
frozen one run later.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import sys
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

MOST_TURNS_AT_ONCE = 50_000
"""Callbacks at one instant of virtual time before the loop says that somebody spins."""


class Owner(Protocol):
    """What the loop needs to know of a simulated process."""

    dead: bool
    frozen_until: float


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("penstock_simulated_process", default=None)


class Stuck(Exception):
    """Nothing can ever happen again (everybody waits), or nothing but spinning happens."""


class _Handle:
    __slots__ = ("_when", "args", "callback", "context", "gone")

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
        when: float = 0.0,
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.gone = False
        self._when = when

    def cancel(self) -> None:
        self.gone = True

    def cancelled(self) -> bool:
        return self.gone

    def when(self) -> float:
        return self._when


class VirtualLoop(asyncio.AbstractEventLoop):
    """First come, first served at one instant; timers of the same instant in the order in which they were set."""

    def __init__(self, start: float) -> None:
        self._now = start
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle]] = []
        self._count = 0
        self._abort: BaseException | None = None
        self._closed = False
        self.tasks: list[asyncio.Task[Any]] = []
        self.turns = 0

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return events._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._closed

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> _Handle:
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> _Handle:
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context, when)
        self._later(when, handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> _Handle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _later(self, when: float, handle: _Handle) -> None:
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        # A killed process leaves its tasks pending. They are kept, so that no collector ends them at a time of its own.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """There are no threads: it is done at once."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def abort(self, error: BaseException) -> None:
        """End the run with this error, whoever catches what on the way."""
        if self._abort is None:
            self._abort = error

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.abort(context.get("exception") or RuntimeError(context.get("message", "unknown error on the loop")))

    call_exception_handler = default_exception_handler

    def run_until_complete(self, future: Any) -> Any:
        main = asyncio.ensure_future(future, loop=self)
        ready, timers = self._ready, self._timers
        before, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(finalizer=self._finish)
        instant, turns = self._now, 0
        try:
            while not main.done():
                if not ready:
                    if not timers:
                        raise Stuck(f"everybody waits and nobody will ever go on: {self._waiting()}")
                    when, _, handle = heapq.heappop(timers)
                    if handle.gone:
                        continue
                    if when > self._now:
                        self._now = when
                else:
                    handle = ready.popleft()
                    if handle.gone:
                        continue
                owner = handle.context.get(OWNER)
                if owner is not None:
                    if owner.dead:
                        continue
                    if owner.frozen_until > self._now:
                        self._later(owner.frozen_until, handle)
                        continue
                turns += 1
                handle.context.run(handle.callback, *handle.args)
                if self._abort is not None:
                    raise self._abort
                if self._now > instant:
                    self.turns += turns
                    instant, turns = self._now, 0
                elif turns > MOST_TURNS_AT_ONCE:
                    raise Stuck(f"time stands still: more than {MOST_TURNS_AT_ONCE:,} callbacks at one instant")
            return main.result()
        finally:
            self.turns += turns
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(before)

    def _finish(self, generator: AsyncGenerator[Any, Any]) -> None:
        """An async generator that nobody reads to its end. Those of a killed process are not tidied up."""
        if not self._closed:
            self.create_task(generator.aclose())

    def _waiting(self) -> str:
        return ", ".join(task.get_name() for task in self.tasks if not task.done()) or "no tasks"

    def close(self) -> None:
        """Throw away what still waits, quietly: also what would rather wait than end."""
        self._closed = True
        complain, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
        try:
            for task in self.tasks:
                coro = task.get_coro()
                if not task.done() and coro is not None:
                    with contextlib.suppress(BaseException):
                        coro.close()
            self._ready.clear()
            self._timers.clear()
            self.tasks.clear()
        finally:
            sys.unraisablehook = complain
