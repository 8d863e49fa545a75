"""The contract every store keeps: operations that go in one transaction, and questions that change nothing.

`Store.apply` is the one door (rule 1). It takes a group of operations, carries all of them out in one transaction,
and gives one answer for each; an operation that is refused answers with its exception and leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from penstock.engine.audit import AuditEntry, AuditRow
from penstock.engine.call import CallRow, Fact, NewCall
from penstock.engine.model import Event, JobRow, NewJob
from penstock.engine.outcome import Move


@dataclass(slots=True, frozen=True)
class Submit:
    """Create jobs, or find the ones that hold their keys already. All of them, or none. Answers a list of
    `Submitted`."""

    jobs: tuple[NewJob, ...]


@dataclass(slots=True, frozen=True)
class Claim:
    """Take the best `room` jobs of a queue for a worker. `oldest` of them go to the longest waiting. Answers
    `Claimed`."""

    worker: str
    queue: str
    workflows: tuple[str, ...]
    room: int = 1
    oldest: int = 0


@dataclass(slots=True, frozen=True)
class ClaimJob:
    """Take this very job: limits count, priority does not. With a `lease` the claim lapses by itself. Answers
    `Claimed`."""

    worker: str
    job: str
    workflows: tuple[str, ...]
    lease: float | None = None


@dataclass(slots=True, frozen=True)
class Commit:
    """Store what a tick decided. Answers `Landed`, or `LostClaim`.

    `row` is the job as its worker knows it; where it still is what is stored, the store need not read it again.
    """

    move: Move
    row: JobRow | None = None


@dataclass(slots=True, frozen=True)
class TakeLock:
    """Take a lock for a job without waiting. Answers whether the job has it now, or `LostClaim`."""

    job: str
    epoch: int
    name: str


@dataclass(slots=True, frozen=True)
class Note:
    """Show how far a running tick is. Answers the job's gate, or `LostClaim`; not part of the job's history."""

    job: str
    epoch: int
    progress: str


@dataclass(slots=True, frozen=True)
class Control:
    """What a person asks of a job: pause, resume, cancel, or retry (with `new_id` for the next run). Answers the
    row."""

    job: str
    action: str
    tenant: str | None = None
    reason: str | None = None
    actor: str | None = None
    new_id: str | None = None


@dataclass(slots=True, frozen=True)
class OpenBatch:
    """Create a batch, with what it may spend, or find the one that holds its key, which stays as it is. Answers the
    `BatchRow`."""

    id: str
    tenant: str
    key: str
    limit: int | None = None
    then: NewJob | None = None
    budget: int | None = None


@dataclass(slots=True, frozen=True)
class Seal:
    """No more members: the batch ends when all it has have ended. Answers the `BatchRow`."""

    batch: str


@dataclass(slots=True, frozen=True)
class RetryBatch:
    """Generation n+1 of an ended batch: what completed is kept, what failed runs again. Answers the new `BatchRow`."""

    batch: str
    new_id: str
    new_job: Callable[[], str]


@dataclass(slots=True, frozen=True)
class SetLimits:
    """Replace all limits. Answers nothing."""

    limits: dict[str, int]


@dataclass(slots=True, frozen=True)
class SetSchedule:
    """Create or change a schedule; an unchanged one keeps its next firing. Answers nothing."""

    name: str
    tenant: str
    cron: str
    timezone: str
    next_due: float
    job: NewJob
    enabled: bool = True


@dataclass(slots=True, frozen=True)
class RemoveSchedule:
    """Answers whether there was one."""

    name: str
    tenant: str


@dataclass(slots=True, frozen=True)
class Fire:
    """Submit a schedule's job if `due` is still its next firing, and set the next. Answers whether it fired."""

    name: str
    tenant: str
    due: float
    next_due: float
    job: NewJob


@dataclass(slots=True, frozen=True)
class Beat:
    """A worker lives for `ttl` more seconds. Answers False when it was given up meanwhile and must start anew."""

    worker: str
    ttl: float
    info: str = "{}"
    first: bool = False


@dataclass(slots=True, frozen=True)
class Leave:
    """A worker ends: what it still holds goes back to the queue, `blamed` (or everything, if it died) as a crash.
    Answers how many jobs."""

    worker: str
    blamed: str | None = None
    died: bool = False


@dataclass(slots=True, frozen=True)
class HandBack:
    """Give back what the store thinks the worker holds and the worker does not know of. Answers how many jobs."""

    worker: str
    known: frozenset[tuple[str, int]]


@dataclass(slots=True, frozen=True)
class Tidy:
    """Give up dead workers and lapsed leases, wake what is due, and drop what is older than retention. Answers
    `Tidied`."""

    keep_completed: float | None = None
    keep_failed: float | None = None
    most: int = 500
    keep_audit: float | None = None


@dataclass(slots=True, frozen=True)
class Expect:
    """A statement of a pipeline's own that must change exactly `rows` rows: if it does not, nothing that was written
    with it is kept, and who asked is refused with `otherwise` (`Outdated`, a `Conflict`). A step is tried again."""

    statement: Any
    otherwise: str
    rows: int = 1


@dataclass(slots=True, frozen=True)
class Write:
    """Statements on tables of a pipeline's own (SQLAlchemy Core, text, or `Expect` of either), outside of a tick, and
    jobs that start with them. All of it, or none; answers what `Submit` would of the jobs. They have no key, so that
    none is there already."""

    statements: tuple[Any, ...]
    jobs: tuple[NewJob, ...] = ()


@dataclass(slots=True, frozen=True)
class Intend:
    """Record that a call is about to be made, with all it will hold. Answers `Intended`; `LostClaim`, `Halted`,
    `Blocked` or `OverBudget` where it must not be made."""

    job: str
    epoch: int
    call: NewCall


@dataclass(slots=True, frozen=True)
class Learn:
    """Something was learned about a call; accepted whatever became of its job. Answers the `CallRow`."""

    fact: Fact


@dataclass(slots=True, frozen=True)
class TakeCalls:
    """Take calls that somebody is to look at now; nobody else does for `lease` seconds. Answers a list of
    `CallRow`."""

    places: tuple[str, ...]
    room: int
    lease: float


@dataclass(slots=True, frozen=True)
class SetBudget:
    """Set (or, with None, remove) what a tenant, job or batch may spend, in millionths of a dollar. Answers the
    `Budget`, or None."""

    scope: str
    most: int | None


@dataclass(slots=True, frozen=True)
class Announce:
    """Add a line to a job's history that no tick made (`sla breached`), once for each kind. Answers whether it is
    new; `NotFound` where of the job only its key is left."""

    job: str
    kind: str
    note: str | None = None


@dataclass(slots=True, frozen=True)
class Record:
    """Write an entry of the audit log that belongs to no other operation (a login). Answers nothing."""

    entry: AuditEntry


@dataclass(slots=True, frozen=True)
class PutToken:
    """Keep a token, or refuse a name that a token has already. Answers the `TokenRow`."""

    token: TokenRow


@dataclass(slots=True, frozen=True)
class RevokeToken:
    """A token, by name, opens nothing from now on, and neither do its sessions. Answers the `TokenRow`."""

    name: str


@dataclass(slots=True, frozen=True)
class TouchToken:
    """A token was used. Answers nothing."""

    id: str


@dataclass(slots=True, frozen=True)
class PutSession:
    """A browser has logged in with a token. `session.created` is set by the store; `ttl` seconds later it is over.
    Answers the `SessionRow`."""

    session: SessionRow
    ttl: float


@dataclass(slots=True, frozen=True)
class DropSession:
    """Answers whether there was one."""

    hash: str


@dataclass(slots=True, frozen=True)
class AddMeters:
    """Add what a process has counted since it last did: (name, labels as JSON, amount). `series`: the same, for the
    minute it is now. Answers nothing."""

    totals: tuple[tuple[str, str, float], ...]
    series: tuple[tuple[str, str, float], ...] = ()


@dataclass(slots=True, frozen=True)
class SetCursor:
    """How far a reader of changes has come. Answers nothing."""

    name: str
    place: str


@dataclass(slots=True, frozen=True)
class Once:
    """A request that has the same answer however often it is asked: in `scope` (a tenant and a route) under `key`. The
    same key with another `digest` is refused."""

    scope: str
    key: str
    digest: str


Askable = (
    Submit
    | Control
    | OpenBatch
    | Seal
    | RetryBatch
    | SetLimits
    | SetSchedule
    | RemoveSchedule
    | Learn
    | SetBudget
    | PutToken
    | RevokeToken
    | PutSession
    | DropSession
    | Write
)


@dataclass(slots=True, frozen=True)
class Asked:
    """An operation that somebody answers for: its audit entry is written in the same transaction, if it was not
    refused; with `once`, what was answered the first time is answered again, and nothing is done (`Submit`,
    `OpenBatch`, `RetryBatch` and `Write` only). Answers what the operation answers."""

    op: Askable
    audit: AuditEntry | None = None
    once: Once | None = None


Op = (
    Submit
    | Claim
    | ClaimJob
    | Commit
    | TakeLock
    | Note
    | Control
    | OpenBatch
    | Seal
    | RetryBatch
    | SetLimits
    | SetSchedule
    | RemoveSchedule
    | Fire
    | Beat
    | Leave
    | HandBack
    | Tidy
    | Write
    | Intend
    | Learn
    | TakeCalls
    | SetBudget
    | Announce
    | Record
    | PutToken
    | RevokeToken
    | TouchToken
    | PutSession
    | DropSession
    | AddMeters
    | SetCursor
    | Asked
)


class Submitted(NamedTuple):
    """What became of a submit: `created` is False when the key existed already."""

    job_id: str
    created: bool
    run: int
    status: str


@dataclass(slots=True)
class Claimed:
    """The jobs a claim took. `wake`: seconds until there may be more (0: now), or None when nothing is foreseen."""

    rows: list[JobRow]
    wake: float | None


class Landed(NamedTuple):
    """Where a tick's commit left the job. `kept`: the worker holds it still and goes on with the next step."""

    row: JobRow
    kept: bool


class Intended(NamedTuple):
    """`sends`: the call is to be made now, by whoever asked. Otherwise the row is the last there is."""

    row: CallRow
    sends: bool


@dataclass(slots=True, frozen=True)
class Budget:
    """What a scope (`tenant:NAME`, `job:ID`, `batch:ID`) may spend, has spent, and has promised to calls that are
    unfinished; in millionths of a dollar."""

    scope: str
    most: int
    spent: int
    reserved: int = 0


@dataclass(slots=True, frozen=True)
class CallFilter:
    """Which calls to list, newest first; `before` is the (created, id) to go on from."""

    tenant: str | None = None
    job: str | None = None
    key: str | None = None
    remote: str | None = None
    state: tuple[str, ...] = ()
    before: tuple[float, str] | None = None
    limit: int = 50


COST_GROUPS = ("tenant", "workflow", "job", "remote", "model", "day")


@dataclass(slots=True, frozen=True)
class CostFilter:
    """Which calls' costs to add up, and by what: names of `COST_GROUPS`."""

    by: tuple[str, ...] = ()
    tenant: str | None = None
    workflow: str | None = None
    job: str | None = None
    batch: str | None = None
    since: float | None = None
    until: float | None = None


@dataclass(slots=True, frozen=True)
class Cost:
    """What a group of calls has used and cost, and what the unfinished among them may still cost."""

    group: tuple[str, ...]
    calls: int
    live: int
    input: int
    output: int
    cached: int
    cost: int
    reserved: int


@dataclass(slots=True, frozen=True)
class Tidied:
    given_up: int = 0
    woken: int = 0
    dropped: int = 0


@dataclass(slots=True)
class BatchRow:
    """A batch. `members` counts only up; it has ended when it is sealed and `completed + failed + canceled =
    members`."""

    id: str
    tenant: str
    key: str
    generation: int
    limit: int | None
    then: str | None
    created: float
    sealed: float | None = None
    finished: float | None = None
    members: int = 0
    completed: int = 0
    failed: int = 0
    canceled: int = 0
    follow_up: str | None = None

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.canceled


@dataclass(slots=True, frozen=True)
class Member:
    batch: str
    job: str
    ended: str | None


@dataclass(slots=True, frozen=True)
class LockRow:
    tenant: str
    name: str
    job: str
    taken: float


@dataclass(slots=True, frozen=True)
class WorkerRow:
    id: str
    started: float
    seen: float
    expires: float
    info: str
    holds: int = 0


@dataclass(slots=True, frozen=True)
class ScheduleRow:
    name: str
    tenant: str
    cron: str
    timezone: str
    next_due: float
    job: str
    enabled: bool
    last_fired: float | None = None


@dataclass(slots=True, frozen=True)
class TokenRow:
    """A token; of its secret only the hash is kept. `tenant` None: it opens all tenants."""

    id: str
    name: str
    hash: str
    scopes: str
    tenant: str | None
    created: float = 0.0
    expires: float | None = None
    used: float | None = None
    revoked: float | None = None


TOKEN_COLUMNS = ("id", "name", "hash", "scopes", "tenant", "created", "expires", "used", "revoked")


@dataclass(slots=True, frozen=True)
class SessionRow:
    """A browser's session: the hash of its cookie, the token it logged in with, and what its forms must bring."""

    hash: str
    token: str
    csrf: str
    created: float = 0.0
    expires: float = 0.0


SESSION_COLUMNS = ("hash", "token", "csrf", "created", "expires")


class Change(NamedTuple):
    """A line of some job's history, by its number among all of them, and whose job it is. The numbers grow; on
    PostgreSQL one may appear after a larger one."""

    id: int
    event: Event
    tenant: str
    workflow: str
    key: str
    run: int
    batch: str | None


KEPT_LINES = 2000
"""How many lines of a job are kept: the newest; those before them are dropped when more come."""


@dataclass(slots=True, frozen=True)
class LogLine:
    """What a step said with `ctx.log`."""

    at: float
    step: str
    attempt: int
    level: str
    text: str


@dataclass(slots=True, frozen=True)
class BatchFilter:
    """Which batches to list, newest first; `before` is the id to go on from."""

    tenant: str | None = None
    key: str | None = None
    open: bool | None = None
    before: str | None = None
    limit: int = 50
    ids: tuple[str, ...] | None = None


@dataclass(slots=True, frozen=True)
class LockFilter:
    """Which locks to list, by tenant and name; `after` is the (tenant, name) to go on from."""

    tenant: str | None = None
    job: str | None = None
    name: str | None = None
    after: tuple[str, str] | None = None
    limit: int = 1000


@dataclass(slots=True, frozen=True)
class AuditFilter:
    """Which entries of the audit log to list, newest first; `before` is the id to go on from."""

    tenant: str | None = None
    actor: str | None = None
    action: str | None = None
    target: str | None = None
    before: str | None = None
    limit: int = 50


@dataclass(slots=True, frozen=True)
class JobFilter:
    """Which jobs to list, newest first; `before` is the id to go on from. `dead`: only failed ones whose key has not
    been run again. `brief`: their payload is an empty text and their result None, whatever they are."""

    tenant: str | None = None
    workflow: str | None = None
    status: tuple[str, ...] = ()
    key: str | None = None
    batch: str | None = None
    before: str | None = None
    limit: int = 50
    after: str | None = None
    ids: tuple[str, ...] | None = None
    dead: bool = False
    parent: str | None = None
    brief: bool = False


@dataclass(slots=True)
class Applied:
    """One answer an operation (an exception where it was refused), the queues in which work may have become
    claimable, in how many seconds the first of the waits that began here is over, and the jobs that were taken away
    from workers that died: the workflow of each and the status it has now."""

    answers: list[Any]
    hints: set[str] = field(default_factory=set)
    due_in: float | None = None
    crashed: list[tuple[str, str]] = field(default_factory=list)


ANY_QUEUE = "*"


class Store(Protocol):
    """Where jobs live. Everything is async; `apply` is one transaction, everything else reads."""

    url: str

    async def open(self) -> None:
        """Connect, and bring the schema up to date (or say why that cannot be)."""
        ...

    async def close(self) -> None: ...

    async def apply(self, ops: Sequence[Op], *, replay: bool = False) -> Applied:
        """One transaction. With `replay`, the last try's COMMIT is unknown: what it did already is found, not done
        again."""
        ...

    async def now(self) -> float:
        """The store's clock: the only one that leases and due times know."""
        ...

    async def job(self, job_id: str) -> JobRow | None: ...

    async def jobs(self, where: JobFilter) -> list[JobRow]: ...

    async def count(self, *, tenant: str | None = None) -> dict[tuple[str, str], int]:
        """(workflow, status) → how many."""
        ...

    async def history(self, job_id: str) -> list[Event]: ...

    async def history_page(
        self, job_id: str, *, after: int = 0, before: int | None = None, limit: int = 500, newest: bool = False
    ) -> list[tuple[int, Event]]:
        """Lines of a job's history between these numbers, each with its own, oldest first: the first `limit` of them,
        or with `newest` the last."""
        ...

    async def batch(self, batch_id: str) -> BatchRow | None: ...

    async def members(self, batch_id: str, *, after: str = "", limit: int = 1000) -> list[Member]: ...

    async def batches(self, where: BatchFilter) -> list[BatchRow]: ...

    async def changes(self, after: int, *, also: Sequence[int] = (), limit: int = 1000) -> list[Change]:
        """Lines of history with a larger number than `after`, or one of the numbers `also`, in order."""
        ...

    async def last_change(self) -> int:
        """The largest number there is, 0 where there is none."""
        ...

    async def logs(self, job_id: str, *, limit: int = 1000) -> list[LogLine]:
        """What the job's steps said last, oldest first; no more than `KEPT_LINES` are kept."""
        ...

    async def own_rows(self, statement: Any) -> list[tuple[Any, ...]]:
        """What a statement of a pipeline's own gives; `InvalidRequest` from a store that keeps no such tables."""
        ...

    async def backlog(self, most: int) -> int:
        """How many jobs are claimable now; counts no further than `most`."""
        ...

    async def locks(self, where: LockFilter | None = None) -> list[LockRow]: ...

    async def audit(self, where: AuditFilter) -> list[AuditRow]: ...

    async def tokens(self, *, hash: str | None = None, id: str | None = None) -> list[TokenRow]:
        """All tokens, by name; or the one with this hash or id."""
        ...

    async def answered(self, scope: str, key: str) -> bool:
        """Whether a request was answered under this idempotency key."""
        ...

    async def session(self, hash: str) -> SessionRow | None:
        """A session that is not over."""
        ...

    async def meters(self) -> list[tuple[str, str, float]]:
        """What all processes have counted: (name, labels as JSON, total)."""
        ...

    async def series(self, names: Sequence[str], since: float) -> list[tuple[float, str, str, float]]:
        """By minute: (its start, name, labels as JSON, amount), oldest first."""
        ...

    async def cursor(self, name: str) -> str | None: ...

    async def workers(self) -> list[WorkerRow]: ...

    async def schedules(self) -> list[ScheduleRow]: ...

    async def limits(self) -> dict[str, int]: ...

    async def held_amounts(self, names: Sequence[str]) -> dict[str, int]:
        """What unfinished calls hold of these resources (`resource:NAME`) now; what nobody holds is left out."""
        ...

    async def call(self, call_id: str) -> CallRow | None: ...

    async def last_call(self, job_id: str, key: str) -> CallRow | None:
        """The newest attempt at a job's call."""
        ...

    async def calls(self, where: CallFilter) -> list[CallRow]: ...

    async def count_calls(self) -> dict[tuple[str, str], int]:
        """(remote, state) → how many; of calls that have not ended."""
        ...

    async def next_call_due(self, places: tuple[str, ...]) -> float | None:
        """When somebody is to look at a call of these places next."""
        ...

    async def costs(self, where: CostFilter) -> list[Cost]: ...

    async def budgets(self, *, scope: str | None = None) -> list[Budget]:
        """All budgets, by scope; or the one of this scope."""
        ...

    async def halting(self, worker: str) -> dict[str, str]:
        """The jobs this worker holds that somebody asked to pause or cancel."""
        ...

    async def ready_queues(self) -> list[str]:
        """Queues with claimable work: what a sweep sends hints for."""
        ...

    async def next_due(self) -> float | None:
        """When a waiting job or a schedule falls due next."""
        ...

    def on_change(self, listener: Callable[[set[str]], None]) -> Callable[[], None]:
        """Call `listener` when another process may have made work claimable. Returns how to stop."""
        ...

    def keeper(self) -> Keeper:
        """A heartbeat of its own, for use from another thread."""
        ...


class Keeper(Protocol):
    """Beats for a worker from a thread of its own, on a connection of its own; blocking on purpose."""

    def beat(self, worker: str, ttl: float) -> bool: ...

    def leave(self, worker: str, blamed: str | None) -> None: ...

    def close(self) -> None: ...


def unwrapped(op: Op) -> Op:
    """What is to be done, whoever answers for it."""
    return op.op if type(op) is Asked else op


def in_order(ops: Sequence[Op]) -> list[tuple[int, Op]]:
    """The order in which a group is carried out, with each operation's place in it: what frees something goes before
    what takes it."""
    return sorted(enumerate(ops), key=lambda placed: _rank(placed[1]))


def _rank(op: Op) -> int:
    if type(op) is Asked:
        return _rank(op.op)
    if type(op) is Commit:
        return 1 if brings_along(op.move) else 0
    return _RANKS.get(type(op), 3)


_RANKS: dict[type, int] = {
    Submit: 2,
    TakeCalls: 4,
    Intend: 5,
    ClaimJob: 6,
    Claim: 7,
    **dict.fromkeys((Record, TouchToken, AddMeters, SetCursor), 8),
}


def brings_along(move: Move) -> bool:
    """Whether a commit does more than move its own job."""
    return bool(move.writes or move.spawn or move.seal or move.until)
