"""One tick: run the step a claim is for, and store what it decided; then the next step, for as long as the claim is
kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.call import Call
from penstock.engine.context import Context
from penstock.engine.errors import (
    Halted,
    InvalidPayload,
    LostClaim,
    PenstockError,
    Permanent,
    StepError,
    StepTimeout,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Transient,
)
from penstock.engine.meters import outcome_of
from penstock.engine.model import FINAL, JobRow
from penstock.engine.outcome import Again, Goto, Move
from penstock.engine.retry import judge
from penstock.engine.tracing import Span, about, trace_id_of
from penstock.engine.watch import Interrupted
from penstock.engine.whereabouts import told_error
from penstock.engine.workflow import Step, Workflow, encode
from penstock.store.protocol import Commit, Landed

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

log = logging.getLogger("penstock.engine")

MESSAGE_LIMIT = 2000
PLACES_KEPT = 5
"""Of so many failed tries the place in the code is kept, and of the last: a step may be tried a million times."""

FAR_AWAY = float("inf")


class Tick:
    """A claimed job on its way. The watch (`watch.py`) looks at `soft` and `hard`, the loop times at which it runs
    out of time."""

    __slots__ = (
        "abandoned",
        "began",
        "context",
        "cuts",
        "engine",
        "hard",
        "overtime",
        "soft",
        "span",
        "task",
        "thread",
        "workflow",
    )

    def __init__(self, engine: Engine, row: JobRow, workflow: Workflow) -> None:
        self.engine = engine
        self.workflow = workflow
        self.context = Context(engine, row)
        self.task: asyncio.Task[Any] | None = None
        self.span: Span | None = None
        self.thread: int | None = None
        self.began = 0.0
        self.soft: float | None = None
        self.hard: float | None = None
        self.overtime = False
        self.abandoned = False
        self.cuts = 0

    @property
    def row(self) -> JobRow:
        """The job as this tick knows it; each commit gives a new one."""
        return self.context._row

    def facts(self) -> dict[str, Any]:
        """For log lines that are written while this tick runs."""
        row = self.row
        told = {"job": row.id, "workflow": row.workflow, "step": row.step, "attempt": row.attempt}
        told |= {"tenant": row.tenant, "worker": row.worker, "trace_id": trace_id_of(row.id)}
        return told if self.span is None else {**told, "span_id": self.span.id}

    async def run(self) -> float | None:
        """Never raises but for cancellation: whatever happens is a decision about the job. Returns in how many
        seconds the job is to be advanced again, or None."""
        engine, row = self.engine, self.row
        job = row.id
        self.task = asyncio.current_task()
        engine.ticks[row.id] = self
        # What was asked of the job's last tick is answered: a clean-up step, or a resumed job, is not halted by it.
        engine.note_gate(row.id, row.gate)
        engine.meters.claimed(row)
        about.set(self.facts)
        try:
            while True:
                if engine.tracer is not None:
                    self.span = engine.tracer.tick(self.row)
                move = await self._decide()
                if self.abandoned:
                    return None
                # The store may write what was decided into the very row that is known here.
                ran = self.row.step
                try:
                    # A checkpoint that was cut off may have landed: then the row is not what this tick knows.
                    known = None if self.context._closed is not None else self.context._row
                    landed: Landed | None = await engine.group.do(Commit(move, known))
                except Exception as error:
                    landed = await self._stored_after(error, move)
                self._count(ran, move, landed)
                if landed is not None and (names := self.context._take_outputs()):
                    await engine.publish(names)
                if landed is None:
                    return None
                if not landed.kept:
                    if landed.row.status in FINAL:
                        engine.tell_final(job)
                    return _delay(landed.row, move)
                self.context = Context(engine, landed.row)
        finally:
            self.context._close("the tick is over")
            about.set(None)
            if self.span is not None:
                self.span.end("abandoned" if self.abandoned else "cancelled")
            if engine.ticks.get(job) is self:
                del engine.ticks[job]

    def _count(self, step: str, move: Move, landed: Landed | None) -> None:
        after = None if landed is None else landed.row
        self.engine.meters.ticked(self.workflow.name, step, move, after)
        if self.span is not None:
            self.span.end("lost" if after is None else outcome_of(move), error=move.error, after=after)

    async def _stored_after(self, error: Exception, move: Move) -> Landed | None:
        """A store that is away is waited for: the decision is not lost while this process lives. What the store
        refuses (the step's own rows, a spawned job, a batch) is the step's failure; if even that is refused, a sweep
        decides."""
        for last_word in (False, True):
            try:
                if not isinstance(error, StoreUnavailable | StoreFull):
                    raise error
                landed: Landed = await self.engine.commit(Commit(move))
                return landed
            except LostClaim:
                log.warning(
                    "job %s: the claim was lost; what step %r decided does not count", self.row.id, self.row.step
                )
                return None
            except Exception as problem:
                if last_word or isinstance(problem, StoreError):
                    log.error(
                        "job %s, step %r: the outcome could not be stored: %s", self.row.id, self.row.step, problem
                    )
                    self.engine.doubt()
                    return None
                move = self._failure(problem, self.workflow.steps[self.row.step])
                error = StoreUnavailable("not tried yet")
        return None

    async def _store(self, move: Move) -> Landed | None:
        return await self._stored_after(StoreUnavailable("not tried yet"), move)

    async def _decide(self) -> Move:
        row = self.row
        step = self.workflow.steps.get(row.step)
        if step is None:
            return self._park(f"workflow {row.workflow!r} has no step {row.step!r} any more")
        try:
            payload = step.parse(row.payload)
        except InvalidPayload as error:
            return self._park(str(error))
        self._start_watch(step)
        try:
            entered = self.began if row.entered is None else row.entered - self.engine.skew
            if step.deadline is not None and self.began - entered > step.deadline:
                raise Permanent(f"step {step.name!r} did not finish within its deadline of {step.deadline:g} s")
            if step.blocking:
                value = await self.engine.in_thread(self, step.run, payload, self.context)
            else:
                value = await step.run(payload, self.context)
            return self._outcome(step, value)
        except asyncio.CancelledError:
            if self.abandoned:
                return self.context._move("hand back")
            if self.engine.draining or (self.task is not None and self.task.cancelling() > self.cuts):
                raise
            if not self.overtime:
                return self._failure(Transient(f"step {step.name!r} awaited something that was cancelled"), step)
            return self._failure(StepTimeout(f"step {step.name!r} ran longer than {step.timeout:g} s"), step)
        except Interrupted:
            limit = f"{step.timeout} s" if self.overtime else f"its hard limit of {step.hard_timeout} s"
            return self._failure(StepTimeout(f"step {step.name!r} blocked past {limit}"), step)
        except SystemExit:
            return self._failure(Permanent(f"step {step.name!r} called sys.exit()"), step)
        except Halted:
            return self.context._move("hand back")
        except LostClaim as error:
            self.abandoned = True
            self.engine.doubt()
            log.warning("job %s: %s", row.id, error)
            return self.context._move("hand back")
        except Exception as error:
            return self._failure(error, step)
        finally:
            self.soft = self.hard = None
            # The watch cancelled the step, not whoever delivers this tick in the same task.
            while self.cuts and self.task is not None:
                self.task.uncancel()
                self.cuts -= 1

    def _start_watch(self, step: Step) -> None:
        self.overtime = False
        self.began = self.engine.clock.now()
        if step.hard_timeout is not None:
            self.hard = FAR_AWAY
            if not step.blocking:
                self.start_limits()
            self.engine.watch.mind(self)

    def start_limits(self) -> None:
        """From now on the step runs; a blocking one may have had to wait for its thread."""
        step = self.workflow.steps[self.row.step]
        if step.hard_timeout is not None:
            now = self.engine.clock.monotonic()
            self.soft = None if step.timeout is None else now + step.timeout
            self.hard = now + step.hard_timeout

    def _outcome(self, step: Step, value: Any) -> Move:
        """What the step returned, as a move. The clean-up step's value is of no further use."""
        took = self.engine.clock.now() - self.began
        context = self.context
        context._check_open()
        if isinstance(value, Again):
            if not 0 <= value.wait < float("inf"):
                raise Permanent(
                    f"step {step.name!r} returned Again(after={value.after!r}): it must be 0 or more seconds"
                )
            return context._move(
                "again",
                payload=encode(value.payload),
                after=value.wait,
                until=tuple(call.id for call in value.calls),
                waits=_waits_for(value.calls),
                took=took,
            )
        if step is self.workflow.cleanup_step:
            return context._move("cleaned", took=took)
        following: Step | None
        if isinstance(value, Goto):
            following, value = self.workflow.find(value.step), value.payload
        else:
            following = self.workflow.after(step.name)
        text = encode(value)
        if following is None:
            return context._move("done", result=text, took=took)
        move = context._move(
            "next", payload=text, keep=not self.engine.draining, resource=following.resource, took=took
        )
        move.step = following.name
        return move

    def _failure(self, error: BaseException, step: Step) -> Move:
        took = self.engine.clock.now() - self.began
        row = self.row
        verdict = judge(error, step.retry, attempt=row.attempt, throttled=row.throttled, rng=self.engine.rng)
        told = told_error(error, MESSAGE_LIMIT)
        if not isinstance(error, StepError) and (verdict.after is None or row.attempt <= PLACES_KEPT):
            self.context._keep_place(error)
        if verdict.parks:
            return self.context._move("park", error=told, took=took)
        if verdict.after is None:
            shown = None if isinstance(error, PenstockError) else error
            log.warning("job %s failed in step %r: %s", row.id, row.step, told, exc_info=shown)
            return self.context._move("fail", error=told, took=took)
        if not isinstance(error, PenstockError):
            log.debug(
                "job %s, step %r, attempt %d failed and is tried again", row.id, row.step, row.attempt, exc_info=error
            )
        return self.context._move("retry", after=verdict.after, error=told, throttled=verdict.throttled, took=took)

    def _park(self, why: str) -> Move:
        log.warning("job %s is parked: %s", self.row.id, why)
        return self.context._move("park", error=f"parked: {why}; deploy code that fits, then retry it")

    def cut(self, why: str) -> None:
        """Cancel the step at its next `await`."""
        if self.task is not None:
            self.cuts += 1
            self.task.cancel(why)

    async def abandon(self) -> None:
        """Past its hard limit and still not ended: the job is taken away from the step, which can change nothing any
        more."""
        about.set(self.facts)
        step = self.workflow.steps[self.row.step]
        self.abandoned = True
        limit = step.hard_timeout or 0.0
        move = self._failure(StepTimeout(f"step {step.name!r} was stopped after its hard limit of {limit:g} s"), step)
        self.context._close(f"it ran past its hard limit of {limit:g} s and the job was taken away from it")
        self._count(step.name, move, await self._store(move))


def _waits_for(calls: Sequence[Call]) -> str | None:
    """For people: what the job is waiting for."""
    named = ", ".join(f"{call.remote} {call.key}" for call in calls[:3])
    return f"waits for {named}{', …' if len(calls) > 3 else ''}" if calls else None


def _delay(row: JobRow, move: Move) -> float | None:
    if row.phase == "ready":
        return 0.0
    return move.after if row.phase == "timed" else None
