"""Keeps an eye on running ticks: soft limits, hard limits, and steps that block the event loop itself.

A step that awaits is cancelled. One that ignores that loses its job when the hard limit comes. One that blocks the
loop can only be reached from another thread: it is interrupted there, and where even that does not help (a C call
that never returns) its worker gives everything back and, if it may, ends the process so that a supervisor starts a
fresh one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.engine.tracing import about

if TYPE_CHECKING:
    from penstock.engine.membership import Membership
    from penstock.engine.tick import Tick

log = logging.getLogger("penstock.engine")

EXIT_STUCK = 70
LOOK_EVERY = 0.1
INTERRUPT_GRACE = 2.0


class Interrupted(BaseException):
    """Raised inside blocking code that ran past its hard limit; a `BaseException`, so that `except Exception` does
    not keep it."""


class Watch:
    """One for each engine; idle while no tick has a time limit."""

    def __init__(self, engine: Membership) -> None:
        self._engine = engine
        self._minded: dict[str, Tick] = {}
        self._task: asyncio.Task[None] | None = None

    def mind(self, tick: Tick) -> None:
        self._minded[tick.row.id] = tick
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._look(), name="penstock-watch")

    async def _look(self) -> None:
        # Begun by one tick, it looks after all of them.
        about.set(None)
        while self._minded:
            await self._engine.clock.sleep(LOOK_EVERY)
            now = self._engine.clock.monotonic()
            for job, tick in list(self._minded.items()):
                if tick.hard is None or self._engine.ticks.get(job) is not tick:
                    del self._minded[job]
                elif now >= tick.hard and not tick.abandoned:
                    del self._minded[job]
                    self._take_away(tick)
                elif tick.soft is not None and now >= tick.soft and not tick.overtime:
                    tick.overtime = True
                    if tick.thread is not None:
                        interrupt(tick.thread)
                    else:
                        tick.cut("soft time limit")
        self._task = None

    def _take_away(self, tick: Tick) -> None:
        lost = "job %s: step %r is past its hard limit and loses the job"
        log.warning(lost, tick.row.id, tick.row.step, extra=tick.facts())
        if tick.thread is not None:
            interrupt(tick.thread)
        self._engine.in_background(tick.abandon())
        tick.cut("hard time limit")

    def blocked_by(self, loop: asyncio.AbstractEventLoop, now: float) -> Tick | None:
        """Asked from another thread while the loop does not answer: the tick past its hard limit that is running right
        now, or, where a task of some step's own is running, the one that is past its limit longest."""
        running = asyncio.current_task(loop)
        late = [tick for tick in list(self._minded.values()) if tick.hard is not None and now >= tick.hard]
        for tick in late:
            if tick.task is running:
                return tick
        return min(late, key=lambda tick: tick.hard or now, default=None)


class LoopGuard(threading.Thread):
    """Lives beside the loop's thread; looks whether the loop still turns, and stops the step that keeps it from
    turning."""

    def __init__(self, engine: Membership, *, exits: bool) -> None:
        super().__init__(name="penstock-guard", daemon=True)
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._exits = exits
        self._ended = threading.Event()
        self._turned = threading.Event()
        self._handler_set = _set_handler()

    def run(self) -> None:
        interrupted_at: float | None = None
        while not self._ended.wait(LOOK_EVERY * 5):
            self._turned.clear()
            try:
                self._loop.call_soon_threadsafe(self._turned.set)
            except RuntimeError:
                return
            if self._turned.wait(LOOK_EVERY * 5):
                interrupted_at = None
                continue
            tick = self._engine.watch.blocked_by(self._loop, self._engine.clock.monotonic())
            if tick is None:
                continue
            if interrupted_at is None:
                interrupted_at = time.monotonic()
                log.warning(
                    "job %s: step %r blocks the loop past its hard limit; interrupting", tick.row.id, tick.row.step
                )
                self._interrupt(tick)
            elif time.monotonic() - interrupted_at > INTERRUPT_GRACE:
                self._give_up(tick)
                interrupted_at = None

    def _interrupt(self, tick: Tick) -> None:
        global _to_interrupt
        if self._handler_set:
            _to_interrupt = asyncio.current_task(self._loop) or tick.task
            signal.pthread_kill(self._loop_thread, signal.SIGUSR2)
        else:
            interrupt(self._loop_thread)

    def on_turn(self, call: Callable[[], None]) -> None:
        """Run `call` on the loop as soon as it turns again."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def _give_up(self, tick: Tick) -> None:
        log.critical(
            "job %s: step %r blocks in code that cannot be interrupted; its worker gives everything back",
            tick.row.id,
            tick.row.step,
        )
        self._engine.surrender(blamed=tick.row.id)
        if self._exits:
            os._exit(EXIT_STUCK)

    def stop(self) -> None:
        self._ended.set()


def interrupt(thread: int) -> None:
    """Raise `Interrupted` in another thread at its next Python instruction."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Interrupted))


_to_interrupt: asyncio.Task[object] | None = None


def _set_handler() -> bool:
    """On the main thread a signal is the better interrupt: it ends blocking system calls, and its handler can look
    once more whether the right step is running. Only if nobody else uses the signal."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGUSR2) != signal.SIG_DFL:
        return signal.getsignal(signal.SIGUSR2) is _on_signal
    signal.signal(signal.SIGUSR2, _on_signal)
    return True


def _on_signal(_number: int, _frame: object) -> None:
    global _to_interrupt
    target, _to_interrupt = _to_interrupt, None
    if target is not None and asyncio.current_task() is target:
        raise Interrupted("past the hard time limit")
