"""Group commit: everything that wants to be stored at the same time goes in one transaction.

While one group is on its way to the disk the next one gathers, so a thousand ticks that end together cost one fsync,
and a lone one waits for nobody.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.engine.clock import Clock
from penstock.engine.errors import CommitUnknown, StoreUnavailable
from penstock.store.protocol import ANY_QUEUE, Applied, Op, Store

MOST_AT_ONCE = 1000
SMALL_GROUP = 50
UNKNOWN_PATIENCE = 12
"""How often a group whose COMMIT is unknown is asked for again (about two minutes) before its callers are told."""


_Asked = tuple[Op, asyncio.Future[Any]]


class _Group(NamedTuple):
    asked: list[_Asked]
    applied: Applied | Exception


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
        self._task: asyncio.Task[None] | None = None
        self.groups = 0
        self.unknown = 0

    def do(self, op: Op) -> asyncio.Future[Any]:
        """Ask for one operation. The future is answered when it is durable, with its answer or its refusal."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.append((op, future))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="penstock-group-commit")
        return future

    async def _work(self) -> None:
        """Two groups at once: while one is being stored, the answers of the one before are worked on."""
        stored: _Group | None = None
        try:
            while self._pending or stored is not None:
                storing: asyncio.Task[Applied | Exception] | None = None
                group = self._take()
                if group:
                    storing = asyncio.get_running_loop().create_task(self._store_group(group))
                    await asyncio.sleep(0)
                if stored is not None:
                    self._answer(stored)
                if storing is not None:
                    stored = _Group(group, await storing)
                else:
                    stored = None
                    # Who was just answered gets a turn, so that what it decides next joins the next group.
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
        finally:
            self._task = None
            for _, future in self._pending:
                future.cancel()
            self._pending = []

    def _take(self) -> list[_Asked]:
        """Half of what waits, where much does: then there is always a half to work on while the other is stored."""
        size = min(MOST_AT_ONCE, max(SMALL_GROUP, (len(self._pending) + 1) // 2))
        group, self._pending = self._pending[:size], self._pending[size:]
        return group

    async def _store_group(self, group: list[_Asked]) -> Applied | Exception:
        try:
            return await self._until_known([op for op, _ in group])
        except Exception as error:
            return error

    def _answer(self, group: _Group) -> None:
        if isinstance(group.applied, Exception):
            for _, future in group.asked:
                if not future.done():
                    future.set_exception(_copy(group.applied))
            return
        self.groups += 1
        for (_, future), answer in zip(group.asked, group.applied.answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        if group.applied.hints:
            self._on_hints(group.applied.hints, 0.0)
        if group.applied.due_in is not None:
            self._on_hints({ANY_QUEUE}, max(0.0, group.applied.due_in))

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
        while self._task is not None:
            await asyncio.wait([self._task])


def _copy(error: Exception) -> Exception:
    """One error for each waiting caller: a shared one would gather everybody's traceback."""
    if len(error.args) == 1 and isinstance(error.args[0], str):
        try:
            return type(error)(error.args[0]).with_traceback(error.__traceback__)
        except TypeError:
            return error
    return error
