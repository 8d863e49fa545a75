"""The part of the conformance suite about what is kept beside jobs: requests that somebody answers for, the audit log,
tokens and sessions, meters, cursors, and the numbers of changes.

A request with an idempotency key is asked again as a client does it that got no answer: with new ids, in a later group
or in the same one; and now and then somebody takes its key for something else.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from penstock.engine.audit import AuditEntry, AuditRow
from penstock.engine.model import Event, JobRow
from penstock.store.conformance_calls import EVERYTHING
from penstock.store.protocol import (
    AddMeters,
    Announce,
    Askable,
    Asked,
    AuditFilter,
    BatchFilter,
    Change,
    DropSession,
    LockFilter,
    Once,
    Op,
    OpenBatch,
    PutSession,
    PutToken,
    Record,
    RetryBatch,
    RevokeToken,
    SessionRow,
    SetCursor,
    Store,
    Submit,
    TokenRow,
    TouchToken,
)
from penstock.store.records import ANSWERS_KEPT, SERIES_KEPT

_NAMES = ("ci", "Ops", "ops")
_METERS = ("ticks", "Ticks")
_LABELS = ("{}", '{"workflow":"draw"}')
_CURSORS = ("hooks", "Feed")
_KINDS = ("sla breached", "sla missed")
_SCOPES = ("acme submit", "Zen batch")
_ACTORS = ("ann", "Bob")
_ACTIONS = ("job.submit", "login")


class RecordOperations:
    """Makes up what is asked beside jobs. `met` counts the situations that an answer alone does not show."""

    def __init__(self, reference: Store, rng: random.Random, tenants: Sequence[str], new_id: Callable[[], str]) -> None:
        self._reference = reference
        self._rng = rng
        self._tenants = tenants
        self._id = new_id
        self._jobs: Sequence[JobRow] = ()
        self._tokens: list[TokenRow] = []
        self._audit: list[AuditRow] = []
        self._sessions: list[str] = []
        self._requests: list[Asked] = []
        self._seldom: list[float] = []
        self._answered: dict[tuple[str, str], tuple[str, str]] = {}
        self.met: Counter[tuple[str, str]] = Counter()

    async def look(self, jobs: Sequence[JobRow]) -> None:
        self._jobs = jobs
        self._tokens = await self._reference.tokens()
        self._audit = await self._reference.audit(AuditFilter(limit=EVERYTHING))
        now = await self._reference.now()
        self._seldom = [moment for moment in self._seldom if moment > now]

    async def moments(self) -> list[float]:
        """When sessions are over."""
        found = [await self._reference.session(known) for known in self._sessions[-3:]]
        return [session.expires for session in found if session is not None]

    def far_moments(self) -> list[float]:
        """When answers and series have been kept for long enough: days away."""
        return self._seldom

    def asked(self, op: Op, now: float) -> Op:
        """Some of what people can ask for, somebody answers for; some of that has a key."""
        if not isinstance(op, Askable) or not self._maybe(0.9 if isinstance(op, RetryBatch) else 0.4):
            return op
        if isinstance(op, Submit | OpenBatch | RetryBatch) and self._maybe(0.6):
            return self.once(op, now)
        return Asked(op, self._entry() if self._maybe(0.9) else None)

    def once(self, op: Askable, now: float) -> Asked:
        """A request with a key."""
        once = Once(self._rng.choice(_SCOPES), self._key(), f"digest {self._id()}")
        asked = Asked(op, self._entry() if self._maybe(0.9) else None, once)
        self._requests.append(asked)
        self._seldom.append(now + ANSWERS_KEPT)
        return asked

    def _key(self) -> str:
        """A key of its own; or one that others have, for something else."""
        return self._rng.choice(("k1", "K2")) if self._maybe(0.1) else self._id()

    def again(self) -> Asked | None:
        """A request whose client got no answer, or has changed its mind. None where there was none."""
        if not self._requests:
            return None
        refused = [request for request in self._requests if self._was_refused(request)]
        of_batches = [r for r in self._requests if isinstance(r.op, RetryBatch)]
        recent = self._requests[-6:]
        first = self._rng.choice(self._rng.choice((recent, recent, self._requests, refused, of_batches)) or recent)
        return self.anew(first, digest="another" if self._maybe(0.15) else None)

    def anew(self, first: Asked, *, digest: str | None = None) -> Asked:
        """The same request with the ids of another try; with a digest, another one under its key."""
        assert first.once is not None
        once = first.once if digest is None else replace(first.once, digest=digest)
        return Asked(self._with_new_ids(first.op), None if first.audit is None else self._entry(), once)

    def _was_refused(self, asked: Asked) -> bool:
        return asked.once is not None and self._answered.get((asked.once.scope, asked.once.key), ("",))[0] == "refused"

    def _with_new_ids(self, op: Askable) -> Askable:
        if isinstance(op, Submit):
            return Submit(tuple(replace(new, id=self._id()) for new in op.jobs))
        if isinstance(op, OpenBatch):
            batch_id = self._id()
            then = None if op.then is None else replace(op.then, id=self._id())
            return replace(op, id=batch_id, key=batch_id if op.key == op.id else op.key, then=then)
        assert isinstance(op, RetryBatch)
        return replace(op, new_id=self._id())

    def heard(self, ops: Sequence[Op], answers: Sequence[Any], *, replay: bool) -> None:
        """What the oracle answered to requests with a key."""
        for op, answer in zip(ops, answers, strict=True):
            if not isinstance(op, Asked) or op.once is None:
                continue
            key = (op.once.scope, op.once.key)
            before = self._answered.get(key)
            now = "refused" if isinstance(answer, BaseException) else "done"
            if before is not None and before[0] == "done" and not replay and _done_anew(op.op, answer):
                self.met["once", "forgotten, and done anew"] += 1
            elif before is not None:
                what = "replayed" if replay else "again" if before[1] == op.once.digest else "with another digest"
                self.met[f"{type(op.op).__name__} once, {before[0]}, and {what}", now] += 1
            if before is None or before[0] == "refused":
                self._answered[key] = (now, op.once.digest)

    def _entry(self) -> AuditEntry:
        rng = self._rng
        tenant = rng.choice(("", "", *self._tenants))
        target = rng.choice(("job:x", "token:ci"))
        return AuditEntry(
            self._id(), rng.choice(_ACTORS), rng.choice(_ACTIONS), target, tenant, "api",
            self._one_or_none(("127.0.0.1",)), self._one_or_none(("in full",)),
        )  # fmt: skip

    def record(self) -> Record:
        return Record(self._entry())

    def announce(self) -> Announce:
        job = self._rng.choice(self._jobs).id if self._jobs and self._maybe(0.95) else "nobody"
        return Announce(job, self._rng.choice(_KINDS), self._one_or_none(("late by an hour",)))

    def put_token(self, now: float) -> PutToken:
        token_id, rng = self._id(), self._rng
        scopes = rng.choice(("read", "read operate"))
        tenant = self._one_or_none(self._tenants)
        name = token_id if self._maybe(0.3) else rng.choice(_NAMES)
        return PutToken(TokenRow(token_id, name, f"hash of {token_id}", scopes, tenant, 1.0, now + 50.0))

    def revoke_token(self) -> RevokeToken:
        names = [token.name for token in self._tokens]
        return RevokeToken(self._rng.choice(names) if names and self._maybe(0.9) else "nobody")

    def touch_token(self) -> TouchToken:
        return TouchToken(self._rng.choice([*(token.id for token in self._tokens), "nothing"]))

    def put_session(self) -> PutSession:
        session, rng = self._id(), self._rng
        self._sessions.append(session)
        token = rng.choice([*(token.id for token in self._tokens), "nothing"])
        return PutSession(SessionRow(session, token, "csrf"), rng.choice((2.0, 20 * rng.random(), 5000.0)))

    def drop_session(self) -> DropSession:
        return DropSession(self._rng.choice([*self._sessions[-4:], "nothing"]))

    def add_meters(self, now: float) -> AddMeters:
        totals, series = self._amounts(), self._amounts() if self._maybe(0.6) else ()
        if series:
            self._seldom.append(now // 60 * 60 + SERIES_KEPT)
        return AddMeters(totals, series)

    def _amounts(self) -> tuple[tuple[str, str, float], ...]:
        """In parts of a power of two, whose sum is the same in any order; a meter may come twice."""
        rng = self._rng
        return tuple(
            (rng.choice(_METERS), rng.choice(_LABELS), rng.randint(0, 40) / 8) for _ in range(rng.choice((0, 1, 2, 5)))
        )

    def set_cursor(self) -> SetCursor:
        return SetCursor(self._rng.choice(_CURSORS), str(self._rng.randint(1, 99)))

    def logs(self) -> tuple[tuple[float, str, str], ...]:
        """What a step said."""
        if not self._maybe(0.25):
            return ()
        return tuple(
            (self._rng.randint(0, 9) / 4, "info", f"line {self._id()}") for _ in range(self._rng.choice((1, 3)))
        )

    def questions(self, jobs: Sequence[str], batches: Sequence[str]) -> dict[str, Callable[[Store], Any]]:
        """What is asked of both stores after a group, by name."""
        rng = self._rng
        some_batches = BatchFilter(
            tenant=self._one_or_none(self._tenants), key=self._one_or_none(("b1", "b2")),
            open=self._one_or_none((True, False)), before=self._one_or_none(batches), limit=rng.randint(1, 4),
        )  # fmt: skip
        these_batches = replace(some_batches, ids=(*batches[::2], "nothing"), limit=EVERYTHING)
        some_locks = LockFilter(
            tenant=self._one_or_none(self._tenants), job=self._one_or_none([row.id for row in self._jobs]),
            name=self._one_or_none(("x", "y")), after=self._one_or_none((("acme", "x"), ("Zen", "y"))),
            limit=rng.randint(1, 3),
        )  # fmt: skip
        some_audit = AuditFilter(
            tenant=self._one_or_none(("", *self._tenants)), actor=self._one_or_none(_ACTORS),
            action=self._one_or_none(_ACTIONS), target=self._one_or_none(("job:x", "token:ci")),
            before=self._one_or_none([row.id for row in self._audit]), limit=rng.randint(1, 5),
        )  # fmt: skip
        token = rng.choice([*self._tokens, TokenRow("nothing", "", "nothing", "", None)])
        names, since, most = rng.choice(((), _METERS, _METERS[:1])), rng.choice((0.0, 1e6)), rng.randint(0, 5)
        asked: dict[str, Callable[[Store], Any]] = {
            "batches()": lambda s: s.batches(BatchFilter(limit=EVERYTHING)),
            f"batches({some_batches})": lambda s: s.batches(some_batches),
            f"batches({these_batches})": lambda s: s.batches(these_batches),
            "batches(ids=())": lambda s: s.batches(BatchFilter(ids=())),
            f"locks({some_locks})": lambda s: s.locks(some_locks),
            "audit()": lambda s: s.audit(AuditFilter(limit=EVERYTHING)),
            f"audit({some_audit})": lambda s: s.audit(some_audit),
            "tokens()": lambda s: s.tokens(),
            f"tokens(hash={token.hash!r})": lambda s: s.tokens(hash=token.hash),
            f"tokens(id={token.id!r})": lambda s: s.tokens(id=token.id),
            "meters()": lambda s: s.meters(),
            "series()": lambda s: s.series(_METERS, 0.0),
            f"series({names!r}, {since})": lambda s: s.series(names, since),
            f"backlog({most})": lambda s: s.backlog(most),
        }
        sessions = self._sessions[-5:]
        for session in rng.sample(sessions, min(2, len(sessions))):
            asked[f"session({session!r})"] = lambda s, session=session: s.session(session)  # type: ignore[misc]
        for scope, key in [*list(self._answered)[-3:], ("nobody", "never")]:
            asked[f"answered({scope!r}, {key!r})"] = lambda s, scope=scope, key=key: s.answered(scope, key)  # type: ignore[misc]
        cursor = rng.choice((*_CURSORS, "nobody"))
        asked[f"cursor({cursor!r})"] = lambda s: s.cursor(cursor)
        for job in jobs:
            limit = rng.choice((2, 1000))
            asked[f"logs({job!r}, limit={limit})"] = lambda s, job=job, limit=limit: s.logs(job, limit=limit)  # type: ignore[misc]
        return asked

    def _maybe(self, chance: float) -> bool:
        return self._rng.random() < chance

    def _one_or_none(self, options: Sequence[Any]) -> Any:
        return self._rng.choice(options) if options and self._maybe(0.3) else None


def _done_anew(op: Askable, answer: Any) -> bool:
    """Whether a request that was asked again has its own ids for an answer."""
    return (
        isinstance(op, Submit)
        and isinstance(answer, list)
        and {new.id for new in op.jobs} >= {a.job_id for a in answer}
    )


class Feed:
    """Follows a store's changes as a reader does that keeps how far it has come. Stores may number the lines of one
    group differently: what is compared is what was new, not the numbers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last = 0

    async def new(self) -> list[str]:
        """Lines since the last time, in an order of no meaning. A number that came a second time is not among them."""
        lines = await self._store.changes(self._last, limit=EVERYTHING)
        numbers = [self._last, *(line.id for line in lines)]
        assert sorted(set(numbers)) == numbers, f"numbers of changes do not grow: {numbers}"
        self._last = numbers[-1]
        return sorted(map(_told, lines))

    async def check(self, rng: random.Random, jobs: Sequence[str]) -> None:
        """What must be so in any store, whatever the numbers are."""
        lines = await self._store.changes(0, limit=EVERYTHING)
        for job in jobs:
            own = [line.event for line in lines if line.event.job == job]
            assert own == await self._store.history(job), f"changes of job {job} are not its history, in order"
            await self._check_pages(rng, job, [(line.id, line.event) for line in lines if line.event.job == job])
        last = await self._store.last_change()
        assert last == max((line.id for line in lines), default=0), f"last_change() is {last}"
        after, limit = rng.randint(0, last + 1), rng.randint(1, 8)
        also = [line.id for line in lines if rng.random() < 0.1] + [last + 7]
        newer = [line for line in lines if line.id > after][:limit]
        wanted = [line for line in lines if line.id in also or line in newer]
        found = await self._store.changes(after, also=also, limit=limit)
        assert found == wanted, f"changes({after}, also={also}, limit={limit}) should be\n  {wanted}\nand is\n  {found}"

    async def _check_pages(self, rng: random.Random, job: str, own: Sequence[tuple[int, Event]]) -> None:
        """A page of a job's history is a part of it, from either end."""
        numbers = [0, *(number for number, _ in own)]
        after, limit = rng.choice(numbers), rng.randint(1, 4)
        before = rng.choice([None, *numbers])
        between = [(n, event) for n, event in own if after < n and (before is None or n < before)]
        for newest, wanted in ((False, between[:limit]), (True, between[-limit:])):
            found = await self._store.history_page(job, after=after, before=before, limit=limit, newest=newest)
            asked = f"history_page({job!r}, after={after}, before={before}, limit={limit}, newest={newest})"
            assert found == wanted, f"{asked} should be\n  {wanted}\nand is\n  {found}"


def _told(line: Change) -> str:
    return repr(line._replace(id=0))
