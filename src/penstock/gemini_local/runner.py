"""Works off the batches: each waits its time, has its rows answered a few at once, and gets its result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from penstock.gemini_local.answering import Answering
from penstock.gemini_local.batches import Batches, in_blob, out_blob, rows_blob
from penstock.gemini_local.bending import SpoiltRow
from penstock.gemini_local.errors import INVALID_ARGUMENT, ApiError, bad_request
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.operations import EXPIRED, FAILED, PENDING, Batch
from penstock.gemini_local.rows import Spool, key_of, lines_of, request_of
from penstock.gemini_local.settings import Settings
from penstock.gemini_local.state import State
from penstock.gemini_local.timepiece import Timepiece
from penstock.gemini_local.uploads import InThread
from penstock.gemini_local.wire import Json

log = logging.getLogger("penstock.gemini")

COUNT_EVERY_ROWS, COUNT_EVERY_SECONDS = 256, 1.0
"""When the counts of a running batch are stored, whichever comes first."""
YIELD_EVERY = 8
"""Rows after which a backend that never waits lets others have the event loop."""


@dataclass(slots=True)
class Work:
    """One batch that is being worked off. `hits` counts the rows each fault was for."""

    batch: Batch
    spool: Spool
    counted_rows: int = 0
    counted_at: float = 0.0
    hits: dict[int, int] = field(default_factory=dict)


class Runner:
    """One task for each unfinished batch; all of them share `settings.concurrency` places at the backend."""

    def __init__(
        self,
        state: State,
        batches: Batches,
        answering: Answering,
        settings: Settings,
        clock: Timepiece,
        in_thread: InThread,
    ) -> None:
        self._state = state
        self._batches = batches
        self._answering = answering
        self._settings = settings
        self._clock = clock
        self._in_thread = in_thread
        self._places = asyncio.Semaphore(settings.concurrency)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._abandoned = False

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def start(self, batch: Batch) -> None:
        task = asyncio.create_task(self._guarded(batch), name=f"batch {batch.id}")
        self._tasks[batch.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(batch.id, None))

    def stop(self, id: str) -> None:
        """It has ended: nobody waits for its rows any more."""
        if (task := self._tasks.get(id)) is not None:
            task.cancel()
        else:
            self._tidy(id)

    def recover(self) -> None:
        """Go on with what an earlier process left."""
        for batch in self._batches.unfinished():
            self.start(batch)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def abandon(self) -> None:
        """As if the process had died: nothing more is written."""
        self._abandoned = True
        for task in self._tasks.values():
            task.cancel()

    async def _guarded(self, batch: Batch) -> None:
        try:
            await self._run(batch)
        except Exception as error:
            log.exception("batch %s failed", batch.id)
            self._batches.end(batch.id, FAILED, {"code": 13, "message": f"{type(error).__name__}: {error}"[:500]})
        finally:
            # After a stop the answers stay, unless it was the batch that ended.
            if not self._abandoned and self._batches.is_ended(batch.id):
                self._tidy(batch.id)

    async def _run(self, batch: Batch) -> None:
        pace = self._settings.pace
        if batch.state == PENDING:
            await self._hold(batch, "stuck_pending", batch.created, pace.pending_for)
            if not self._batches.begin(batch.id):
                return
            batch = self._batches.load(batch.id)
        started = batch.started or batch.created
        with Spool(self._state.blob(rows_blob(batch.id)), batch.rows) as spool:
            await self._answer_rows(Work(batch, spool, counted_at=self._clock.monotonic()))
            await self._hold(batch, "stuck_running", started, pace.running_for)
            if (fail := batch.fault("fail")) is not None:
                self._batches.end(batch.id, FAILED, {"code": fail.option("code"), "message": fail.option("message")})
            elif batch.fault("expire") is not None:
                self._batches.end(batch.id, EXPIRED)
            else:
                out = self._state.blob(out_blob(batch.id))
                size, sha256 = await self._in_thread(spool.write_result, batch, out)
                if not self._batches.succeed(batch, size=size, sha256=sha256):
                    out.unlink(missing_ok=True)

    async def _hold(self, batch: Batch, fault: str, since: float, seconds: float) -> None:
        """Wait as long as the pace says, and as a fault says."""
        await self._clock.until(since + seconds)
        if (stuck := batch.fault(fault)) is not None:
            if stuck.option("seconds") is None:
                await asyncio.Event().wait()
            await self._clock.until(since + float(stuck.option("seconds")))

    async def _answer_rows(self, work: Work) -> None:
        rows = self._open_rows(work)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._settings.concurrency, work.batch.rows)):
                group.create_task(self._take_rows(work, rows))
        self._batches.count(work.batch.id, work.spool.succeeded, work.spool.failed)

    def _open_rows(self, work: Work) -> Iterator[tuple[int, Any, tuple[Fault, ...]]]:
        """The rows without an answer, each with the faults that are for it. Faults are dealt to all rows in their
        order, answered or not, so that a restart deals them alike."""
        path = self._state.blob(in_blob(work.batch.id))
        dealt = any(fault.scope == "row" for fault in work.batch.faults)
        for number, line in enumerate(lines_of(path, self._settings.quotas.line_bytes)):
            done = work.spool.has(number)
            if done and not dealt:
                continue
            row = _read(line)
            faults = self._deal(work, number, key_of(row)) if dealt else ()
            if not done:
                yield number, row, faults

    def _deal(self, work: Work, number: int, key: str) -> tuple[Fault, ...]:
        dealt = []
        for place, fault in enumerate(work.batch.faults):
            if fault.scope != "row" or not fault.chooses(work.batch.id, number, key):
                continue
            most = fault.option("count")
            if most is None or work.hits.get(place, 0) < int(most):
                work.hits[place] = work.hits.get(place, 0) + 1
                dealt.append(fault)
        return tuple(dealt)

    async def _take_rows(self, work: Work, rows: Iterator[tuple[int, Any, tuple[Fault, ...]]]) -> None:
        delay = self._settings.pace.row_delay
        for taken, (number, row, faults) in enumerate(rows, 1):
            async with self._places:
                if delay:
                    await self._clock.sleep(delay)
                answer, well = await self._answer(work.batch, row, faults)
            work.spool.add(number, answer, well=well)
            self._count(work)
            if taken % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _answer(self, batch: Batch, row: Any, faults: tuple[Fault, ...]) -> tuple[Json, bool]:
        answer = _echo(row, batch.inline)
        try:
            if isinstance(row, ApiError):
                raise row
            request = request_of(row)
            if not isinstance(request, dict):
                raise bad_request('The row has no request: a line is {"key": …, "request": {…}}.')
            answer["response"] = await self._response(batch, request, faults, key_of(row))
        except ApiError as error:
            answer["error"] = {"code": error.rpc, "message": error.message}
        except SpoiltRow as spoilt:
            answer[spoilt.under] = spoilt.error
        return answer, "response" in answer

    async def _response(self, batch: Batch, request: Json, faults: tuple[Fault, ...], key: str) -> Json:
        if not batch.embeds:
            return await self._answering.generate(batch.model, request, faults, key=key)
        [(values, tokens)] = await self._answering.embed(batch.model, [request], faults)
        return {"embedding": {"values": values}, "tokenCount": str(tokens)}

    def _count(self, work: Work) -> None:
        spool, now = work.spool, self._clock.monotonic()
        rows = spool.succeeded + spool.failed
        if rows - work.counted_rows >= COUNT_EVERY_ROWS or now - work.counted_at >= COUNT_EVERY_SECONDS:
            work.counted_rows, work.counted_at = rows, now
            self._batches.count(work.batch.id, spool.succeeded, spool.failed)

    def _tidy(self, id: str) -> None:
        for blob in (in_blob(id), rows_blob(id)):
            self._state.drop_blob(blob)


def _read(line: bytes | None) -> Any:
    """The row on a line, or the error it gets."""
    if line is None:
        return ApiError(INVALID_ARGUMENT, "The line is too long.")
    try:
        row = from_json(line)
    except ValueError as error:
        return ApiError(INVALID_ARGUMENT, f"The line is not JSON: {error}"[:300])
    return row if isinstance(row, dict) else ApiError(INVALID_ARGUMENT, "The line is not a JSON object.")


def _echo(row: Any, inline: bool) -> Json:
    """What an answer repeats of its row. Of fields nobody knows, lists come back empty, as the service does."""
    if not isinstance(row, dict):
        return {}
    if inline:
        return {"metadata": row["metadata"]} if "metadata" in row else {}
    if "request" not in row:
        return {"key": row["key"]} if "key" in row else {}
    return {name: [] if isinstance(value, list) else value for name, value in row.items() if name not in _own}


_own = ("request", "response", "error", "status")
