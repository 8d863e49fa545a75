"""Does a store keep the contract? Random operations, applied to it and to the in-memory oracle, must be answered alike.

Authors of stores run this against their own:

    clock = ManualClock()
    coverage = await compare(MemoryStore(clock), store, clock=clock, seed=7, length=60)

Both stores must be empty and go by that clock. Operations are made up from what the oracle holds at the moment, so deep
states are reached (a crash of a job that is being cancelled, the retry of a batch whose members were dropped); some are
wrong on purpose. A difference raises `AssertionError` with the seed and the shortest `length` that shows it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar

from penstock.engine.call import CallRow
from penstock.engine.errors import PenstockError
from penstock.engine.model import FINAL, STATUSES, JobRow, NewJob
from penstock.engine.outcome import Move, MoveKind
from penstock.store.conformance_calls import EVERYTHING, CallOperations
from penstock.store.conformance_records import Feed, RecordOperations
from penstock.store.protocol import (
    ANY_QUEUE,
    Applied,
    Asked,
    BatchRow,
    Beat,
    CallFilter,
    Claim,
    Claimed,
    ClaimJob,
    Commit,
    Control,
    Fire,
    HandBack,
    Intended,
    JobFilter,
    Learn,
    Leave,
    LockFilter,
    Note,
    Op,
    OpenBatch,
    RemoveSchedule,
    RetryBatch,
    ScheduleRow,
    Seal,
    SetBudget,
    SetLimits,
    SetSchedule,
    Store,
    Submit,
    TakeLock,
    Tidied,
    Tidy,
    WorkerRow,
    unwrapped,
)

T = TypeVar("T")

# Names that sort differently by locale, and queues that begin alike: lanes are compared as text.
_TENANTS = ("acme", "acme", "acme", "Zen")
_WORKFLOWS = ("draw", "Draw", "print")
_QUEUES = ("q", "q", "q", "q-1", "Q")
_STEPS = ("one", "two", "three")
_RESOURCES = ("", "", "gpu", "cpu")
_CLASSES = ((50, 3600, 20), (50, 3600, 20), (60, 10, 30), (10, 1, 100), (80, 0, 0))
_WORKERS = ("w1", "w2", "w3")
_LOCKS = ("x", "y")
_LIMITS: tuple[dict[str, int], ...] = (
    {},
    {"workflow:draw": 1},
    {"resource:gpu": 1, "workflow:Draw": 2},
    {"tenant:*": 2},
    {"tenant:*": 1, "tenant:acme": 3},
    {"tenant:Zen": 1, "resource:cpu": 1, "workflow:print": 1},
)
_MOVES: tuple[MoveKind, ...] = (
    "next", "next", "next", "again", "done", "done", "retry", "fail", "fail", "park", "hand back", "checkpoint",
    "cleaned",
)  # fmt: skip


class ManualClock:
    """Time that passes only when it is told to."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self._now += seconds


@dataclass(slots=True, frozen=True)
class Group:
    """Operations for one transaction. With `replay` they are the last group's, as after an unknown COMMIT."""

    ops: tuple[Op, ...]
    replay: bool = False


@dataclass(slots=True)
class Coverage:
    """How often each kind of operation was done, refused, or found nothing to do; of what was learned about a call,
    the state it was in then. And how often situations were met that no answer shows."""

    seen: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, ops: Sequence[Op], answers: Sequence[Any]) -> None:
        for op, answer in zip(ops, answers, strict=True):
            self.seen[_kind(unwrapped(op)), _verdict(answer)] += 1
            if isinstance(op, Asked):
                self.seen[f"Asked {_kind(op.op)}", _verdict(answer)] += 1

    def update(self, other: Coverage) -> None:
        self.seen.update(other.seen)


async def compare(reference: Store, store: Store, *, clock: ManualClock, seed: int, length: int) -> Coverage:
    """Apply `length` random groups to both; `AssertionError` at the first difference in an answer or in the state."""
    coverage = Coverage()
    operations = _Operations(reference, clock, seed)
    before: dict[str, JobRow] = {}
    calls_before: dict[str, CallRow] = {}
    feeds = Feed(reference), Feed(store)
    for step in range(length):
        group = await operations.next_group()
        expected = await apply_group(reference, group)
        answered = await apply_group(store, group)
        where = f"seed {seed}, step {step} (shown by length={step + 1})"
        _compare_answers(group, expected, answered, where)
        coverage.add(group.ops, expected.answers)
        operations.records.heard(group.ops, expected.answers, replay=group.replay)
        after = {row.id: row for row in await reference.jobs(JobFilter(limit=EVERYTHING))}
        changed = {job for job in before.keys() | after.keys() if before.get(job) != after.get(job)}
        changed |= {op.move.job for op in group.ops if isinstance(op, Commit)}
        calls = {row.id: row for row in await reference.calls(CallFilter(limit=EVERYTHING))}
        changed |= {row.job for row in calls.values() if calls_before.get(row.id) != row}
        last = step + 1 == length
        questions = operations.questions(sorted(after if last else changed), thorough=last)
        for name, question in questions.items():
            theirs, ours = await question(reference), await question(store)
            if theirs != ours:
                raise AssertionError(
                    f"{where}: after {_shown(group)}\n{name} should be\n  {theirs!r}\nand is\n  {ours!r}"
                )
        await _compare_changes(feeds, group, where)
        before, calls_before = after, calls
    for feed in feeds:
        await feed.check(random.Random(seed), sorted(before))
    coverage.seen.update(operations.calls.met)
    coverage.seen.update(operations.records.met)
    return coverage


async def _compare_changes(feeds: tuple[Feed, Feed], group: Group, where: str) -> None:
    theirs, ours = [await feed.new() for feed in feeds]
    if theirs != ours:
        missing, surplus = (list((Counter(a) - Counter(b)).elements()) for a, b in ((theirs, ours), (ours, theirs)))
        raise AssertionError(f"{where}: after {_shown(group)}\nchanges() lacks {missing}\nand has too much {surplus}")


async def random_operations(reference: Store, clock: ManualClock, *, seed: int, length: int) -> AsyncIterator[Group]:
    """Groups of operations that fit what `reference` holds; each must be applied to it before the next is asked for."""
    operations = _Operations(reference, clock, seed)
    for _ in range(length):
        yield await operations.next_group()


async def apply_group(store: Store, group: Group) -> Applied:
    """Each store draws the ids of a batch's retry for itself, from the same list."""
    return await store.apply([_with_ids(op) for op in group.ops], replay=group.replay)


def _with_ids(op: Op) -> Op:
    if isinstance(op, Asked) and isinstance(op.op, RetryBatch):
        return replace(op, op=_numbered(op.op))
    return _numbered(op) if isinstance(op, RetryBatch) else op


def _numbered(op: RetryBatch) -> RetryBatch:
    return replace(op, new_job=map(f"{op.new_id}.{{}}".format, count()).__next__)


def _compare_answers(group: Group, expected: Applied, answered: Applied, where: str) -> None:
    for op, theirs, ours in zip(group.ops, expected.answers, answered.answers, strict=True):
        if _comparable(theirs) != _comparable(ours):
            raise AssertionError(
                f"{where}: {op}\nshould be answered\n  {theirs!r}\nand is\n  {ours!r}\nin {_shown(group)}"
            )
    if expected.due_in != answered.due_in:
        raise AssertionError(f"{where}: {_shown(group)}\nis due in {answered.due_in}, not in {expected.due_in}")
    # A hint too many wakes somebody for nothing; one too few is lost work.
    if ANY_QUEUE not in answered.hints and not expected.hints <= answered.hints:
        raise AssertionError(
            f"{where}: {_shown(group)}\nshould give hints for {sorted(expected.hints)}, not {sorted(answered.hints)}"
        )


def _comparable(answer: Any) -> Any:
    return (type(answer), str(answer)) if isinstance(answer, BaseException) else answer


def _shown(group: Group) -> str:
    lines = "\n".join(f"    {op}" for op in group.ops)
    return f"the {'replayed ' if group.replay else ''}group\n{lines}"


def _kind(op: Op) -> str:
    if isinstance(op, Commit):
        return f"Commit {op.move.kind}"
    if isinstance(op, Control):
        return f"Control {op.action}"
    if isinstance(op, Learn):
        return f"Learn {op.fact.kind}"
    return type(op).__name__


def _verdict(answer: Any) -> str:
    if isinstance(answer, PenstockError):
        return type(answer).__name__
    if isinstance(answer, Claimed):
        return "done" if answer.rows else "nothing"
    if isinstance(answer, Tidied):
        return "done" if answer != Tidied() else "nothing"
    if isinstance(answer, Intended):
        return "done" if answer.sends else "nothing"
    if isinstance(answer, CallRow):
        return answer.state
    return "nothing" if answer is False or answer == 0 or answer == [] else "done"


class _Operations:
    """Makes up what to do next from what the reference store holds now."""

    def __init__(self, reference: Store, clock: ManualClock, seed: int) -> None:
        self._reference = reference
        self._clock = clock
        self._seed = seed
        self._rng = random.Random(seed)
        self._count = count()
        self._last: Group | None = None
        self._sent: list[Move] = []
        self._batch_ids: list[str] = []
        self._soon: list[Callable[[], Op]] = []
        self._in_group: Counter[str] = Counter()
        self._jobs: list[JobRow] = []
        # What a worker knows of a job it holds: the row as it was when it got it, which others may have changed since.
        self._beliefs: dict[tuple[str, int, int], JobRow] = {}
        self._batches: list[BatchRow] = []
        self._workers: list[WorkerRow] = []
        self._schedules: list[ScheduleRow] = []
        self._next_due: float | None = None
        self._long_after = False
        self.calls = CallOperations(reference, self._rng, _TENANTS)
        self.records = RecordOperations(reference, self._rng, _TENANTS, self._id)

    async def next_group(self) -> Group:
        await self._look()
        await self._pass_time()
        if self._last is not None and not self._last.replay and self._maybe(0.08):
            self._last = Group(self._last.ops, replay=True)
            return self._last
        self._in_group.clear()
        makers, weights = zip(*_MAKERS, strict=True)
        size = self._rng.choice((1, 1, 1, 2, 3, 5, 8))
        ops = [self._asked(make(self)) for make in self._rng.choices(makers, weights, k=size)]
        if self._soon and self._maybe(0.5):
            ops.append(self._soon.pop(0)())
        if self._long_after:
            ops.append(self.tidy())
        self._last = Group(tuple(ops))
        return self._last

    def questions(self, histories: Sequence[str], *, thorough: bool) -> dict[str, Callable[[Store], Any]]:
        """What is asked of both stores after a group, by name."""
        where = JobFilter(
            tenant=self._one_or_none(_TENANTS), workflow=self._one_or_none(_WORKFLOWS),
            key=self._one_or_none(("k1", "k2")), status=tuple(self._some(STATUSES)) if self._maybe(0.5) else (),
            batch=self._one_or_none(self._batch_ids),
            before=self._one_or_none([row.id for row in self._jobs]), limit=self._rng.randint(1, 5),
        )  # fmt: skip
        ids = [row.id for row in self._jobs]
        rarely = JobFilter(
            tenant=self._one_or_none(_TENANTS), workflow=self._one_or_none(_WORKFLOWS), dead=self._maybe(0.5),
            after=self._one_or_none(ids), ids=tuple(self._some([*ids, "nobody"])) if self._maybe(0.3) else None,
            parent=self._one_or_none(("p1",)), limit=self._rng.randint(1, 5),
        )  # fmt: skip
        asked: dict[str, Callable[[Store], Any]] = {
            "jobs()": lambda s: s.jobs(JobFilter(limit=EVERYTHING)),
            f"jobs({where})": lambda s: s.jobs(where),
            f"jobs({rarely})": lambda s: s.jobs(rarely),
            f"jobs({where}, brief)": lambda s: s.jobs(replace(where, brief=True)),
            "count()": lambda s: s.count(),
            "count(tenant='acme')": lambda s: s.count(tenant="acme"),
            "locks()": lambda s: s.locks(),
            "locks(tenant='Zen')": lambda s: s.locks(LockFilter(tenant="Zen")),
            "workers()": lambda s: s.workers(),
            "schedules()": lambda s: s.schedules(),
            "limits()": lambda s: s.limits(),
            "held_amounts()": lambda s: s.held_amounts(["resource:gpu", "resource:cpu", "tokens", "nobody"]),
            "ready_queues()": lambda s: s.ready_queues(),
            "next_due()": lambda s: s.next_due(),
            "now()": lambda s: s.now(),
            "job('nobody')": lambda s: s.job("nobody"),
        }
        for worker in _WORKERS:
            asked[f"halting({worker!r})"] = lambda s, worker=worker: s.halting(worker)  # type: ignore[misc]
        for batch in (*self._batch_ids, "nothing"):
            asked[f"batch({batch!r})"] = lambda s, batch=batch: s.batch(batch)  # type: ignore[misc]
            asked[f"members({batch!r})"] = lambda s, batch=batch: s.members(batch)  # type: ignore[misc]
        for job in histories:
            asked[f"history({job!r})"] = lambda s, job=job: s.history(job)  # type: ignore[misc]
        asked |= self.records.questions(histories, self._batch_ids)
        return asked | self.calls.questions(thorough=thorough)

    async def _look(self) -> None:
        self._jobs = await self._reference.jobs(JobFilter(limit=EVERYTHING))
        for row in self._jobs:
            if row.phase == "held":
                self._beliefs.setdefault((row.id, row.epoch, row.moves), replace(row))
        self._batches = [b for b in [await self._reference.batch(i) for i in self._batch_ids] if b is not None]
        self._workers = await self._reference.workers()
        self._schedules = await self._reference.schedules()
        self._next_due = await self._reference.next_due()
        await self.calls.look(self._jobs, self._batch_ids)
        await self.records.look(self._jobs)

    async def _pass_time(self) -> None:
        """Often none at all, now and then to the very moment something happens, seldom so long that workers die, and
        once in a while so long that answers are forgotten."""
        now = self._clock.now()
        moments = [w.expires for w in self._workers] + ([] if self._next_due is None else [self._next_due])
        moments += self.calls.moments() + await self.records.moments()
        self._long_after = False
        moments = [moment for moment in moments if moment > now]
        chance = self._rng.random()
        if chance < 0.15:
            self._clock.advance(self._rng.randint(1, 12) / 4)
        elif chance < 0.3:
            self._clock.advance(self._rng.random() * 3)
        elif chance < 0.45 and moments:
            self._clock.advance(min(moments) - now)
        elif chance < 0.48:
            self._clock.advance(self._rng.choice((30.0, 100.0)))
        elif chance < 0.488 and (far := self.records.far_moments()):
            self._clock.advance(self._rng.choice(far) - now)
            self._long_after = True

    def _asked(self, op: Op) -> Op:
        return self.records.asked(op, self._clock.now())

    def _maybe(self, chance: float) -> bool:
        return self._rng.random() < chance

    def _one_or_none(self, options: Sequence[T]) -> T | None:
        return self._rng.choice(options) if options and self._maybe(0.3) else None

    def _some(self, options: Sequence[T]) -> list[T]:
        return self._rng.sample(options, self._rng.randint(1, len(options)))

    def _id(self) -> str:
        """Ids that neither count up nor sort alike in every locale."""
        return f"{self._rng.choice('aBcD')}{self._rng.randint(0, 99):02}-{self._seed}-{next(self._count)}"

    def _held(self) -> JobRow | None:
        held = [row for row in self._jobs if row.phase == "held"]
        if self._maybe(0.4):
            held = [row for row in held if row.batch] or held
        return self._rng.choice(held) if held else None

    def _worker(self) -> str:
        alive = [worker.id for worker in self._workers if worker.expires > self._clock.now() or self._maybe(0.2)]
        return self._rng.choice(alive) if alive and self._maybe(0.95) else self._rng.choice((*_WORKERS, "stranger"))

    def _batch_id(self, tenant: str | None = None) -> str:
        fitting = [b.id for b in self._batches if tenant in (None, b.tenant) and b.sealed is None]
        if fitting and self._maybe(0.9):
            return self._rng.choice(fitting)
        others = [b.id for b in self._batches]
        return self._rng.choice(others) if others and self._maybe(0.8) else "nowhere"

    def _new_job(self, *, keyed: float = 0.5, batched: float = 0.4) -> NewJob:
        rng = self._rng
        tenant = rng.choice(_TENANTS)
        base, period, cap = rng.choice(_CLASSES)
        payload = "[1]" if self._maybe(0.93) else "[2]"
        return NewJob(
            self._id(), rng.choice(_WORKFLOWS), rng.choice(_STEPS), payload, f"d{payload}", tenant,
            key=rng.choice(("k1", "k2", "K3")) if self._maybe(keyed) else None, again=self._maybe(0.4),
            queue=rng.choice(_QUEUES), after=rng.choice((0.0, 0.0, 0.0, 20.0, 7 * rng.random())),
            base=base, period=period, cap=cap,
            aged_from=self._clock.now() - rng.choice((-50, 0, 5, 500)) if self._maybe(0.2) else None,
            batch=self._batch_id(tenant) if self._batches and self._maybe(batched) else None,
            parent=self._one_or_none(("p1",)), cleanup=rng.choice((None, "tidy")), resource=rng.choice(_RESOURCES),
            budget=rng.choice((0, 50, 400)) if self._maybe(0.1) else None,
        )  # fmt: skip

    def submit(self) -> Submit:
        return Submit(tuple(self._new_job() for _ in range(self._rng.choice((1, 1, 2, 4)))))

    def claim(self) -> Op:
        if not self._workers and self._maybe(0.8):
            return self.beat()
        workflows = _WORKFLOWS if self._maybe(0.8) else tuple(self._some(_WORKFLOWS))
        room, oldest = self._rng.choice((0, 1, 1, 2, 3, 5)), self._rng.choice((0, 0, 0, 1, 2))
        queues = [row.queue for row in self._jobs if row.phase == "ready"] if self._maybe(0.9) else []
        return Claim(self._worker(), self._rng.choice(queues or _QUEUES), workflows, room, oldest)

    def claim_job(self) -> ClaimJob:
        ready = [row.id for row in self._jobs if row.phase == "ready"]
        chosen = ready if ready and self._maybe(0.7) else [*(row.id for row in self._jobs), "nobody"]
        lease = self._rng.choice((None, 5.0, 15 * self._rng.random()))
        return ClaimJob(self._worker(), self._rng.choice(chosen), tuple(self._some(_WORKFLOWS)), lease)

    def commit(self) -> Op:
        if self._sent and self._maybe(0.1):
            return Commit(self._rng.choice(self._sent))
        row = self._held()
        if row is None:
            return self.claim() if self._maybe(0.95) else Commit(Move("nobody", 1, 1, "done", "one", "[]"))
        rng = self._rng
        kind: MoveKind = "cleaned" if row.status == "canceling" and self._maybe(0.7) else rng.choice(_MOVES)
        epoch = row.epoch if self._maybe(0.93) else row.epoch + rng.choice((-1, 1))
        number = row.moves + 1 + self._in_group[row.id] if self._maybe(0.95) else max(1, row.moves)
        self._in_group[row.id] += 1
        move = Move(
            row.id, epoch, number, kind, rng.choice(_STEPS) if kind == "next" else row.step,
            payload=f'["{self._id()}"]', after=rng.choice((0.0, 1.5, 9 * rng.random())), keep=self._maybe(0.6),
            resource=rng.choice(_RESOURCES), result="1",
            error="Boom: \x00 \udcff" if kind in ("retry", "fail", "park") else None, throttled=self._maybe(0.3),
            counters=self._one_or_none(('{"n":1}', '{"n":2}')), progress=self._one_or_none(("[1,2,null]",)),
            took=0.25, worker=row.worker,
            spawn=tuple(self._spawned(row) for _ in range(rng.choice((1, 2)))) if self._maybe(0.15) else (),
            seal=(self._batch_id(),) if self._maybe(0.08) else (),
            release=tuple(self._some(_LOCKS)) if self._maybe(0.15) else (),
            until=self.calls.until(row) if kind in ("again", "retry", "next") else (),
            waits=self._one_or_none(("waits for c1 \x00",)), logs=self.records.logs(),
        )  # fmt: skip
        self._sent.append(move)
        known = number == row.moves + 1 and epoch == row.epoch
        belief = self._beliefs.get((row.id, row.epoch, row.moves), row)
        # Its progress a worker always knows: it is the one who notes it.
        believed = replace(belief, progress=row.progress) if known and self._maybe(0.7) else None
        return Commit(move, believed)

    def _spawned(self, row: JobRow) -> NewJob:
        new = self._new_job()
        its_next_run = replace(new, tenant=row.tenant, workflow=row.workflow, key=row.key, again=True)
        return its_next_run if self._maybe(0.3) else new

    def take_lock(self) -> Op:
        row = self._held()
        if row is None:
            return self.claim()
        return TakeLock(row.id, row.epoch - self._maybe(0.1), self._rng.choice(_LOCKS))

    def note(self) -> Op:
        row = self._held()
        return self.claim() if row is None else Note(row.id, row.epoch - self._maybe(0.1), "[3,4,null]")

    def control(self) -> Control:
        action = self._rng.choice(("pause", "resume", "resume", "cancel", "retry", "retry", "polish"))
        fits: dict[str, Callable[[JobRow], bool]] = {
            "pause": lambda row: row.status not in FINAL,
            "resume": lambda row: row.status == "paused" or row.gate == "pause",
            "cancel": lambda row: row.status not in FINAL,
            "retry": lambda row: row.status in ("failed", "paused"),
            "polish": lambda row: True,
        }
        rows = [row for row in self._jobs if fits[action](row)]
        row = self._rng.choice(rows) if rows and self._maybe(0.8) else self._any_job()
        if row is None:
            return Control("nobody", action)
        tenant = self._rng.choice((None, None, row.tenant, "stranger"))
        reason = self._one_or_none(("because",))
        return Control(row.id, action, tenant, reason, self._one_or_none(("me",)), self._id())

    def _any_job(self) -> JobRow | None:
        return self._rng.choice(self._jobs) if self._jobs else None

    def open_batch(self) -> OpenBatch:
        batch_id = self._id()
        self._batch_ids.append(batch_id)
        then = self._new_job(keyed=0.05, batched=0.05) if self._maybe(0.6) else None
        key = self._rng.choice(("b1", "b2", batch_id))
        budget = self._rng.choice((None, None, 100))
        return OpenBatch(batch_id, self._rng.choice(_TENANTS), key, self._rng.choice((None, 1, 2)), then, budget)

    def seal(self) -> Op:
        if not self._batches and self._maybe(0.9):
            return self.open_batch()
        return Seal(self._batch_id())

    def retry_batch(self) -> Op:
        ended = [b for b in self._batches if b.finished is not None and b.failed]
        newest = [b.id for b in ended if not any(o.key == b.key and o.generation > b.generation for o in self._batches)]
        if not newest and self._maybe(0.9):
            return self.commit()
        new_id = self._id()
        self._batch_ids.append(new_id)
        batch = self._rng.choice(newest) if newest and self._maybe(0.9) else self._batch_id()
        return RetryBatch(batch, new_id, lambda: "")

    def set_limits(self) -> SetLimits:
        return SetLimits(self._rng.choice(_LIMITS))

    def set_schedule(self) -> SetSchedule:
        due = self._clock.now() + self._rng.choice((1.0, 30.0))
        cron, zone = self._rng.choice(("* * * * *", "0 * * * *")), self._rng.choice(("UTC", "Europe/Zurich"))
        enabled = self._maybe(0.9)
        name, tenant = self._rng.choice("st"), self._rng.choice(_TENANTS)
        return SetSchedule(name, tenant, cron, zone, due, self._new_job(keyed=0.2), enabled)

    def remove_schedule(self) -> RemoveSchedule:
        return RemoveSchedule(self._rng.choice("st"), self._rng.choice(_TENANTS))

    def fire(self) -> Fire:
        if not self._schedules:
            return Fire("s", "acme", 1.0, 2.0, self._new_job())
        schedule = self._rng.choice(self._schedules)
        due = schedule.next_due if self._maybe(0.8) else 1.0
        return Fire(schedule.name, schedule.tenant, due, due + 60.0, self._new_job())

    def beat(self) -> Beat:
        worker = self._rng.choice(_WORKERS)
        known = any(w.id == worker for w in self._workers)
        first = self._maybe(0.1) if known else self._maybe(0.9)
        return Beat(worker, self._rng.choice((10.0, 40.0, 200.0)), f'{{"n":{next(self._count)}}}', first)

    def leave(self) -> Leave:
        worker = self._worker()
        held = [row.id for row in self._jobs if row.worker == worker]
        return Leave(worker, self._one_or_none(held), died=self._maybe(0.2))

    def hand_back(self) -> HandBack:
        worker = self._worker()
        held = [(row.id, row.epoch) for row in self._jobs if row.worker == worker]
        known = [pair for pair in held if self._maybe(0.7)]
        return HandBack(worker, frozenset((job, epoch - self._maybe(0.1)) for job, epoch in known))

    def tidy(self) -> Tidy:
        ages = (None, 0.0, 10.0, 1000.0)
        keep_audit = self._rng.choice((None, 0.0, 10.0, 1000.0))
        return Tidy(self._rng.choice(ages), self._rng.choice(ages), self._rng.choice((1, 3, 500)), keep_audit)

    def intend(self) -> Op:
        callers = [row for row in self._jobs if row.phase == "held" and self.calls.has(row.id)]
        row = self._rng.choice(callers) if callers and self._maybe(0.4) else self._held()
        return self.claim() if row is None else self.calls.intend(row)

    def learn(self) -> Op:
        return self.calls.learn() or self.intend()

    def take_calls(self) -> Op:
        return self.calls.take_calls()

    def set_budget(self) -> SetBudget:
        return self.calls.set_budget()

    def ask_again(self) -> Op:
        asked = self.records.again()
        if asked is None:
            return self.submit()
        if isinstance(asked.op, OpenBatch):
            self._batch_ids.append(asked.op.id)
        elif isinstance(asked.op, RetryBatch):
            self._batch_ids.append(asked.op.new_id)
        return asked

    def ask_too_early(self) -> Op:
        """Refused; then possible, and asked again."""
        batch_id = self._id()
        self._batch_ids.append(batch_id)
        new = replace(self._new_job(keyed=0.0), batch=batch_id)
        asked = self.records.once(Submit((new,)), self._clock.now())
        self._soon += [lambda: OpenBatch(batch_id, new.tenant, batch_id), lambda: self.records.anew(asked)]
        return asked

    def beside_jobs(self) -> Op:
        """What concerns no job."""
        records, now = self.records, self._clock.now()
        make: Callable[[], Op] = self._rng.choice(
            (
                records.record, records.announce, records.announce, lambda: records.put_token(now),
                lambda: records.put_token(now), records.revoke_token, records.touch_token, records.put_session,
                records.put_session, records.drop_session, lambda: records.add_meters(now),
                lambda: records.add_meters(now), records.set_cursor,
            )
        )  # fmt: skip
        return make()


_MAKERS: tuple[tuple[Callable[[_Operations], Op], int], ...] = (
    (_Operations.submit, 12),
    (_Operations.claim, 14),
    (_Operations.claim_job, 6),
    (_Operations.commit, 26),
    (_Operations.take_lock, 4),
    (_Operations.note, 2),
    (_Operations.control, 10),
    (_Operations.open_batch, 2),
    (_Operations.seal, 3),
    (_Operations.retry_batch, 4),
    (_Operations.set_limits, 2),
    (_Operations.set_schedule, 2),
    (_Operations.remove_schedule, 1),
    (_Operations.fire, 2),
    (_Operations.beat, 9),
    (_Operations.leave, 1),
    (_Operations.hand_back, 1),
    (_Operations.tidy, 2),
    (_Operations.intend, 12),
    (_Operations.learn, 16),
    (_Operations.take_calls, 3),
    (_Operations.set_budget, 3),
    (_Operations.ask_again, 5),
    (_Operations.ask_too_early, 1),
    (_Operations.beside_jobs, 12),
)
