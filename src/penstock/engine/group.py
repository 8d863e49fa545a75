"""Group commit: everything that wants to be stored at the same time goes in one transaction.

While one group is on its way to the disk the next one gathers, so a thousand ticks that end together cost one fsync,
and a lone one waits for nobody.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from penstock.engine.clock import Clock
from penstock.engine.errors import CommitUnknown, StoreFull, StoreReadOnly, StoreUnavailable
from penstock.store.protocol import ANY_QUEUE, Applied, Op, Store

MOST_AT_ONCE = 500

UNKNOWN_PATIENCE = 12
"""How often a group whose COMMIT is unknown is asked for again (about two minutes) before its callers are told."""


_Asked = tuple[Op, asyncio.Future[Any]]


class GroupCommit:
    """The only caller of `store.apply` in an engine."""

    def __init__(
        self, store: Store, clock: Clock, rng: random.Random, on_hints: Callable[[set[str], float], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._on_hints = on_hints
        self._pending: list[_Asked] = []
        self._storing: asyncio.Task[None] | None = None
        self._flush_is_due = False
        self.groups = 0
        self.unknown = 0
        self.on_crashes: Callable[[list[tuple[str, str]]], None] | None = None

    def do(self, op: Op) -> asyncio.Future[Any]:
        """Ask for one operation. The future is answered when it is durable, with its answer or its refusal."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._pending.append((op, future))
        self._flush_soon(loop)
        return future

    def _flush_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Not at once: whoever has its turn now may have something for the same group."""
        if not self._flush_is_due and self._storing is None:
            self._flush_is_due = True
            loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._pending and self._storing is None:
            group, self._pending = self._pending[:MOST_AT_ONCE], self._pending[MOST_AT_ONCE:]
            loop = asyncio.get_running_loop()
            self._storing = loop.create_task(self._carry_out(group), name="penstock-group-commit")

    async def _carry_out(self, group: list[_Asked]) -> None:
        try:
            await self._try(group)
        finally:
            self._storing = None
            if self._pending:
                self._flush_soon(asyncio.get_running_loop())

    async def _try(self, group: list[_Asked]) -> None:
        try:
            applied = await self._until_known([op for op, _ in group])
        except Exception as error:
            if len(group) > 1 and not isinstance(error, StoreUnavailable | StoreFull | StoreReadOnly | CommitUnknown):
                # One of them cannot be carried out, and took the others with it: each on its own, then.
                for asked in group:
                    await self._try([asked])
                return
            for _, future in group:
                if not future.done():
                    future.set_exception(_copy(error))
            return
        self.groups += 1
        _answer(group, applied)
        if applied.crashed and self.on_crashes is not None:
            self.on_crashes(applied.crashed)
        if applied.hints:
            self._on_hints(applied.hints, 0.0)
        if applied.due_in is not None:
            self._on_hints({ANY_QUEUE}, max(0.0, applied.due_in))

    async def _until_known(self, ops: list[Op]) -> Applied:
        """After an unknown COMMIT the same group is asked for again: the store finds what was done and does the
        rest."""
        try:
            return await self._store.apply(ops)
        except CommitUnknown as error:
            self.unknown += 1
            last: Exception = error
        for turn in range(UNKNOWN_PATIENCE):
            await self._clock.sleep(min(0.05 * 2**turn, 20.0) * (0.5 + self._rng.random()))
            try:
                return await self._store.apply(ops, replay=True)
            except (CommitUnknown, StoreUnavailable) as error:
                last = error
        raise CommitUnknown(f"it could not be found out whether the last transaction was stored: {last}") from last

    async def close(self) -> None:
        """Let what was asked for be carried out."""
        while self._storing is not None or self._pending:
            if self._storing is not None:
                await asyncio.wait([self._storing])
            else:
                await asyncio.sleep(0)


def _answer(group: list[_Asked], applied: Applied) -> None:
    for (_, future), answer in zip(group, applied.answers, strict=True):
        if future.done():
            continue
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def _copy(error: Exception) -> Exception:
    """One error for each waiting caller: a shared one would gather everybody's traceback."""
    if len(error.args) == 1 and isinstance(error.args[0], str):
        try:
            return type(error)(error.args[0]).with_traceback(error.__traceback__)
        except TypeError:
            return error
    return error
