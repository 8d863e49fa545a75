"""Group commit: everything that wants to be stored at the same time goes in one transaction.

While one group is on its way to the disk the next one gathers, so a thousand ticks that end together cost one fsync, and a lone one
waits for nobody.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from penstock.engine.clock import Clock
from penstock.engine.errors import CommitUnknown, StoreUnavailable
from penstock.store.protocol import Op, Store

MOST_AT_ONCE = 1000
UNKNOWN_PATIENCE = 12
"""How often a group whose COMMIT is unknown is asked for again (about two minutes) before its callers are told."""


class GroupCommit:
    """The only caller of `store.apply` in an engine."""

    def __init__(self, store: Store, clock: Clock, rng: random.Random, on_hints: Callable[[set[str]], None]) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._on_hints = on_hints
        self._pending: list[tuple[Op, asyncio.Future[Any]]] = []
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
        try:
            while self._pending:
                group, self._pending = self._pending[:MOST_AT_ONCE], self._pending[MOST_AT_ONCE:]
                await self._carry_out(group)
                # The ticks just answered get their turn, so that what they decide next joins the next group.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        finally:
            self._task = None
            if self._pending:
                for _, future in self._pending:
                    future.cancel()
                self._pending = []

    async def _carry_out(self, group: list[tuple[Op, asyncio.Future[Any]]]) -> None:
        ops = [op for op, _ in group]
        try:
            applied = await self._until_known(ops)
        except Exception as error:
            for _, future in group:
                if not future.done():
                    future.set_exception(_copy(error))
            return
        self.groups += 1
        for (_, future), answer in zip(group, applied.answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        if applied.hints:
            self._on_hints(applied.hints)

    async def _until_known(self, ops: list[Op]) -> Any:
        """After an unknown COMMIT the same group is asked for again: the store finds what was done and does the rest."""
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
