"""What a step may ask of the engine while it runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar

from pydantic_core import from_json, to_json

from penstock.engine.call import Call
from penstock.engine.call import view as call_view
from penstock.engine.clock import Clock
from penstock.engine.errors import InvalidRequest, LostClaim
from penstock.engine.identity import checked_key, made_storable
from penstock.engine.model import SLA_BREACHED, Job, JobRow, view
from penstock.engine.outcome import Move
from penstock.engine.priority import Priority
from penstock.engine.staging import Report, stage
from penstock.engine.whereabouts import place_of
from penstock.engine.workflow import Workflow, encode
from penstock.store.protocol import Announce, Commit, Landed, Note, TakeLock

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

T = TypeVar("T")

log = logging.getLogger("penstock.step")

LINES_A_TICK = 200
LINE_LIMIT = 2000
"""How many log lines of one tick are kept with its job, and how many characters of each."""

PROGRESS_EVERY = 1.0
"""Seconds between two progress notes that are stored while a tick runs."""


class Context:
    """Handed to every step. What it collects (counts, spawned jobs, own rows) is stored with the step's outcome, or
    not at all."""

    __slots__ = (
        "_closed",
        "_counters",
        "_counters_changed",
        "_engine",
        "_job",
        "_lines",
        "_noted",
        "_outputs",
        "_progress",
        "_release",
        "_row",
        "_seal",
        "_spawn",
        "_writes",
    )

    def __init__(self, engine: Engine, row: JobRow) -> None:
        self._engine = engine
        self._row = row
        self._job: Job | None = None
        self._counters: dict[str, int] | None = None
        self._counters_changed = False
        self._progress: str | None = None
        self._noted = 0.0
        self._spawn: list[Any] = []
        self._seal: list[str] = []
        self._release: list[str] = []
        self._writes: list[Any] = []
        self._outputs: list[str] = []
        self._lines: list[tuple[float, str, str]] = []
        self._closed: str | None = None

    @property
    def job(self) -> Job:
        """The job as it was when this tick began."""
        if self._job is None:
            self._job = view(self._row)
        return self._job

    @property
    def epoch(self) -> int:
        """The number of this claim: nobody who held the job before or will hold it after has the same."""
        return self._row.epoch

    @property
    def home(self) -> Path:
        """The folder that all workers share."""
        return self._engine.home

    @property
    def engine(self) -> Engine:
        """The engine itself, for what a pipeline keeps longer than a tick: it reads, and it knows the remotes. What is
        written through it does not join the step's commit."""
        return self._engine

    @property
    def settings(self) -> Any:
        """The configuration that this worker was opened with."""
        return self._engine.settings

    @property
    def scratch(self) -> Path:
        """A folder of this job's own, in the home that its workers share. It is yours to make and to remove."""
        return self._engine.home / "scratch" / self._row.id

    def now(self) -> float:
        """Seconds since the epoch, by the injected clock."""
        return self._engine.clock.now()

    @property
    def halted(self) -> bool:
        """True once somebody asked to pause or cancel the job, or the worker is to stop: save what you have and
        return."""
        return self._closed is not None or self._engine.is_halting(self._row.id)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines name the job, its step, attempt and tenant. Those from INFO on are kept with the job
        when the step's outcome is stored, so that people can read them there."""
        row = self._row
        facts = {
            "job": row.id, "workflow": row.workflow, "step": row.step, "attempt": row.attempt, "tenant": row.tenant,
        }  # fmt: skip
        return _JobLog(facts, self._lines, self._engine.clock)

    def count(self, **amounts: int) -> None:
        """Add to the job's counters, with the outcome of this step."""
        self._check_open()
        counters = self._all_counters()
        for name, amount in amounts.items():
            counters[name] = counters.get(name, 0) + amount
        self._counters_changed = True

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Say how far the job is. Shown about once a second while the step runs, and kept with its outcome."""
        self._check_open()
        self._progress = self._row.progress = to_json([done, total, note]).decode()
        now = self._engine.clock.now()
        if now - self._noted >= PROGRESS_EVERY:
            self._noted = now
            self._engine.note_progress(Note(self._row.id, self._row.epoch, self._progress))

    async def part(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work()` as a named part of this step. Where the delivery shows such parts it is seen there (a task run
        of Prefect); what it returns or raises is the same everywhere."""
        self._check_open()
        watching = stage.get()
        return await (work() if watching is None else watching.part(name, work))

    async def show(self, report: Report) -> None:
        """Let people see this where the delivery can show it (artifacts of Prefect). Nothing happens elsewhere."""
        watching = stage.get()
        if watching is not None:
            await watching.show(report)

    async def checkpoint(self, payload: Any) -> None:
        """Make `payload` (and what was counted) durable now: after a crash this step begins with it. Raises
        `LostClaim` if the job moved on without this worker."""
        self._check_open()
        move = self._move("checkpoint", payload=encode(payload))
        # Its number is used up, whatever becomes of it: another commit under this number would be taken for it.
        self._row.moves += 1
        try:
            landed: Landed = await self._engine.commit(Commit(move))
        except BaseException:
            self._close("what it saved may not have been stored, so nothing that comes after counts")
            raise
        self._row = landed.row
        self._engine.note_gate(self._row.id, landed.row.gate)
        if names := self._take_outputs():
            await self._engine.publish(names)

    async def lock(self, name: str) -> bool:
        """Take a lock for this job, without waiting: True if the job has it now. It goes with the job's end, or
        `release`."""
        self._check_open()
        answer: bool = await self._engine.commit(TakeLock(self._row.id, self._row.epoch, checked_key(name)))
        return answer

    async def call(self, remote: Any, key: str, request: Any = None, *, attempts: int = 1) -> Call:
        """The job's call of that `key` to a remote (the object, or its name): made now if it was not made yet, looked
        up if it was, also by an earlier tick or before a crash. Each request needs a key of its own.

        A call that takes long has not ended when this returns: `return Again(payload, until=call)`. One that failed,
        expired or was cancelled at the other side is made again up to `attempts` times in all, then returned as it is.
        """
        self._check_open()
        return await self._engine.calls.make(self._row, remote, key, request, attempts=attempts)

    async def remote(self, name: str) -> Any:
        """A remote itself, for work that costs nothing and need not be written down: the process pool, say."""
        self._check_open()
        return await self._engine.calls.ready(name)

    async def cancel_call(self, call: Call) -> None:
        """Ask that a call be stopped at the other side: one that is overdue, say, to be made again in smaller pieces.
        It has ended when the other side says so: wait for it as for any other."""
        self._check_open()
        await self._engine.calls.stop(call.id)

    def folder_of(self, call: Call) -> Path:
        """Where the files are that a call brought home; its result names them."""
        return self._engine.calls.folder_of(call.id)

    async def sla_breached(self, note: str) -> None:
        """Let it be known that a promise was broken: a line in the job's history, from which webhooks are told
        (`sla.breached`). Once for each job, however often its steps run."""
        self._check_open()
        await self._engine.commit(Announce(self._row.id, SLA_BREACHED, made_storable(note)))

    def release(self, name: str) -> None:
        """Free a lock of this job with the outcome of this step."""
        self._check_open()
        self._release.append(name)

    def write(self, statement: Any) -> None:
        """Let a SQLAlchemy Core statement of your own join the step's commit: both are stored, or neither."""
        self._check_open()
        self._writes.append(statement)

    async def read(self, statement: Any) -> list[tuple[Any, ...]]:
        """The rows that a SQLAlchemy Core statement, SQL text, or `(text, values)` of your own gives. It sees what is
        stored: not what this step wrote since its last checkpoint."""
        return await self._engine.read(statement)

    async def known_call(self, key: str, *, job: str | None = None) -> Call | None:
        """The last attempt at this job's call of that key, or at another job's; None if it was never made."""
        row = await self._engine.store.last_call(job or self._row.id, key)
        return None if row is None else call_view(row)

    async def output(self, name: str, content: bytes | Callable[[BinaryIO], object]) -> str:
        """Write a file that becomes public, whole, when this step's outcome is stored. Returns its SHA-256."""
        return (await self.outputs(lambda: {name: content}))[0]

    async def outputs(self, contents: Callable[[], Mapping[str, bytes | Callable[[BinaryIO], object]]]) -> list[str]:
        """The same for several files at once. `contents` is called in the thread that writes them."""
        self._check_open()
        row = self._row
        added = await self._engine.outputs.add_all(contents, tenant=row.tenant, job=row.id, epoch=row.epoch)
        self._check_open()
        for stored, statement in added:
            self._writes.append(statement)
            self._outputs.append(stored.name)
        return [str(stored.sha256) for stored, _ in added]

    def spawn(
        self,
        workflow: Workflow | str,
        payload: Any,
        *,
        key: str | None = None,
        batch: str | None = None,
        again: bool = False,
        after: float = 0.0,
        priority: Priority | None = None,
        queue: str | None = None,
        tenant: str | None = None,
    ) -> str:
        """Submit a child job with the outcome of this step; returns the id it gets if its key is new. It belongs to
        this job's tenant unless another is named."""
        self._check_open()
        new = self._engine.new_job(
            workflow,
            payload,
            tenant=self._row.tenant if tenant is None else tenant,
            key=key,
            batch=batch,
            again=again,
            after=after,
            priority=priority,
            queue=queue,
            parent=self._row.id,
        )
        self._spawn.append(new)
        return new.id

    def seal(self, batch: str) -> None:
        """Say with the outcome of this step that a batch is complete."""
        self._check_open()
        self._seal.append(batch)

    async def members(self) -> AsyncIterator[Job]:
        """In a batch's follow-up job: the members of the batch, with their results."""
        if self._row.fan_in is None:
            raise InvalidRequest(f"job {self._row.id} is not the follow-up of a batch")
        async for job in self._engine.members(self._row.fan_in):
            yield job

    def _move(self, kind: Any, *, payload: str | None = None, **details: Any) -> Move:
        """What this tick decided, with everything that was collected for it. For the engine's use."""
        row = self._row
        move = Move(
            job=row.id,
            epoch=row.epoch,
            number=row.moves + 1,
            kind=kind,
            step=row.step,
            payload=row.payload if payload is None else payload,
            worker=row.worker,
            **details,
        )
        if self._lines:
            move.logs = tuple(self._lines)
            self._lines.clear()
        if kind in ("retry", "fail", "park", "hand back"):
            return move
        if self._counters_changed:
            move.counters = to_json(self._counters).decode()
            self._counters_changed = False
        if self._progress is not None:
            move.progress = self._progress
            self._progress = None
        if self._spawn or self._seal or self._release or self._writes:
            move.spawn, move.seal = tuple(self._spawn), tuple(self._seal)
            move.release, move.writes = tuple(self._release), tuple(self._writes)
            self._spawn, self._seal, self._release, self._writes = [], [], [], []
        return move

    def _keep_place(self, error: BaseException) -> None:
        """Let the job's log say where in the author's code its step failed. For the engine's use."""
        if text := place_of(error):
            self._lines.append((self._engine.clock.now(), "error", text))

    def _take_outputs(self) -> list[str]:
        """The outputs that count now that the step's outcome is stored. For the engine's use."""
        names, self._outputs = self._outputs, []
        return names

    def _close(self, why: str) -> None:
        """From now on the step can change nothing. For the engine's use."""
        self._closed = why

    def _all_counters(self) -> dict[str, int]:
        if self._counters is None:
            self._counters = from_json(self._row.counters) if self._row.counters else {}
        return self._counters

    def _check_open(self) -> None:
        """Raises `LostClaim` once the step can change nothing any more. For the engine's use."""
        if self._closed is not None:
            raise LostClaim(f"job {self._row.id}, step {self._row.step!r}: {self._closed}")


class _JobLog(logging.LoggerAdapter[logging.Logger]):
    """Puts the job's facts on every record, leaves what the caller adds, and keeps the line for the job."""

    def __init__(self, facts: dict[str, Any], lines: list[tuple[float, str, str]], clock: Clock) -> None:
        super().__init__(log, facts)
        self._lines = lines
        self._clock = clock

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("ctx.log is a logger: use ctx.log.info(...), .warning(...) or .error(...)")

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        super().log(level, msg, *args, **kwargs)
        if level < logging.INFO or len(self._lines) > LINES_A_TICK:
            return
        try:
            text = str(msg) % args if args else str(msg)
        except (TypeError, ValueError, KeyError):
            text = f"{msg} {args}"
        if len(self._lines) == LINES_A_TICK:
            text = "further lines of this tick are in the worker's log only"
        line = (self._clock.now(), logging.getLevelName(level).lower(), made_storable(text[:LINE_LIMIT]) or "")
        self._lines.append(line)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **kwargs.get("extra", {})}
        return msg, kwargs
