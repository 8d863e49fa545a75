"""What is kept beside jobs: who did what, what was answered to whom, tokens and sessions, meters and cursors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from penstock.engine.audit import AuditEntry
from penstock.engine.errors import NotFound
from penstock.engine.model import Event
from penstock.store.protocol import (
    SESSION_COLUMNS,
    TOKEN_COLUMNS,
    AddMeters,
    Announce,
    BatchRow,
    DropSession,
    Once,
    Op,
    PutSession,
    PutToken,
    Record,
    RevokeToken,
    SessionRow,
    SetCursor,
    Submit,
    Submitted,
    TokenRow,
    TouchToken,
    Write,
    in_order,
)
from penstock.store.records import (
    ANSWERS_KEPT,
    SERIES_KEPT,
    answer_text,
    as_done,
    key_reused,
    minute_of,
    no_token,
    token_exists,
)
from penstock.store.sql.calls import Calls
from penstock.store.sql.requests import Ask, Contended, Steps, Tell

_token = attrgetter(*TOKEN_COLUMNS)
_session = attrgetter(*SESSION_COLUMNS)


class Records(Calls):
    """The part of a transaction that concerns no job."""

    def _recall(self, answers: list[Any]) -> Steps[dict[int, int]]:
        """Answer what was answered before. Returns which requests are not to be carried out, each with the place of the
        one in this very group whose answer it gets (its own, where it has it already).

        The keys are taken before any job is locked, in order, so that groups never wait for each other in a circle.
        """
        done: dict[int, int] = {}
        first: dict[tuple[str, str], int] = {}
        places = list(self.asked)
        turns = [(self.asked[places[n]].once, places[n]) for n, _ in in_order(list(self.asked.values()))]
        wanted = [(once, turn, place) for turn, (once, place) in enumerate(turns) if once is not None]
        for once, _, place in sorted(wanted, key=lambda w: (w[0].scope, w[0].key, w[1])):
            key = (once.scope, once.key)
            if key in first:
                same = self.asked[first[key]].once
                alike = same is not None and same.digest == once.digest
                answers[place] = None if alike else key_reused(once)
                done[place] = first[key] if alike else place
            elif (yield Tell("reserve_answer", [(*key, once.digest, self.now)])):
                first[key] = place
            else:
                answers[place] = yield from self._answered(once, self.ops[place])
                done[place] = place
        return done

    def _answered(self, once: Once, op: Op) -> Steps[Any]:
        found = yield Ask("find_answer", (once.scope, once.key))
        if not found or found[0][1] is None:
            raise Contended
        digest, answer = found[0]
        if digest != once.digest:
            return key_reused(once)
        told = json.loads(answer)
        if isinstance(op, Submit | Write):
            return [Submitted(*each) for each in told]
        # Not locked: batches are locked after jobs.
        batch = yield Ask("find_batch", (told,))
        return BatchRow(*batch[0]) if batch else NotFound(f"there is no batch {told}")

    def _remember(self, answers: list[Any], recalled: dict[int, int]) -> Steps[None]:
        """Keep the answers that are to be given again, and write down who had this done."""
        entries, kept, dropped = [], [], []
        for place, asked in self.asked.items():
            if place in recalled:
                answers[place] = answers[recalled[place]]
                continue
            answer = answers[place]
            refused = isinstance(answer, BaseException)
            if asked.once is not None:
                key = (asked.once.scope, asked.once.key)
                if refused:
                    dropped.append(key)
                else:
                    kept.append((answer_text(answer), *key))
            if not refused and (entry := as_done(asked, answer)) is not None:
                entries.append(self._audit_values(entry))
        for name, rows in (("put_answer", kept), ("drop_answer", dropped), ("insert_audit", entries)):
            if rows:
                yield Tell(name, rows)

    def _audit_values(self, entry: AuditEntry) -> tuple[Any, ...]:
        e = entry
        return (e.id, self.now, e.actor, e.action, e.target, e.tenant, e.via, e.address, e.detail)

    def _announce_line(self, op: Announce) -> Steps[bool]:
        rows = yield from self._lock_jobs([op.job])
        row = rows.get(op.job)
        if row is None or row.lane == "":
            # Of a key that only keeps its place nobody would drop the line.
            raise NotFound(f"there is no job {op.job}")
        if (yield Ask("announced", (op.job, op.kind))):
            return False
        self.events.append(Event(row.id, self.now, op.kind, row.step, row.status, note=op.note))
        yield from self._settle([])
        return True

    def _put_token(self, op: PutToken) -> Steps[TokenRow]:
        token = replace(op.token, created=self.now)
        if not (yield Tell("insert_token", [_token(token)])):
            found = yield Ask("token_named", (token.name,))
            if found and self.replay and found[0][2] == token.hash:
                return TokenRow(*found[0])
            raise token_exists(token.name)
        return token

    def _revoke_token(self, op: RevokeToken) -> Steps[TokenRow]:
        found = yield Ask("token_named", (op.name,))
        if not found:
            raise no_token(op.name)
        token = TokenRow(*found[0])
        yield Tell("end_sessions", [(token.id,)])
        if token.revoked is not None:
            return token
        yield Tell("revoke_token", [(self.now, token.id)])
        return replace(token, revoked=self.now)

    def _put_session(self, op: PutSession) -> Steps[SessionRow]:
        session = replace(op.session, created=self.now, expires=self.now + op.ttl)
        if not (yield Tell("insert_session", [_session(session)])):
            found = yield Ask("find_session", (session.hash,))
            if not found:
                raise Contended
            return SessionRow(*found[0])
        return session

    def _drop_session(self, op: DropSession) -> Steps[bool]:
        return bool((yield Tell("drop_session", [(op.hash,)])))

    def _write_last(self, ops: Sequence[Op]) -> Steps[None]:
        """Rows that every process writes: when nothing else is waited for any more, and in one order, so that groups
        never wait for each other in a circle. After an unknown COMMIT nothing is added to a meter: it may have been."""
        entries = [self._audit_values(op.entry) for op in ops if type(op) is Record]
        if entries:
            yield Tell("insert_audit", entries)
        for token in sorted({op.id for op in ops if type(op) is TouchToken}):
            yield Tell("touch_token", [(self.now, token)])
        adding = [op for op in ops if type(op) is AddMeters] if not self.replay else []
        if totals := _sums(each for op in adding for each in op.totals):
            yield Tell("add_meters", totals)
        if series := _sums(each for op in adding for each in op.series):
            minute = minute_of(self.now)
            yield Tell("add_series", [(minute, *each) for each in series])
        if cursors := {op.name: op.place for op in ops if type(op) is SetCursor}:
            yield Tell("put_cursor", sorted(cursors.items()))

    def _tidy_records(self, keep_audit: float | None) -> Steps[None]:
        yield Tell("drop_old_answers", [(self.now - ANSWERS_KEPT,)])
        yield Tell("drop_old_sessions", [(self.now,)])
        yield Tell("drop_old_series", [(self.now - SERIES_KEPT,)])
        if keep_audit is not None:
            yield Tell("drop_old_audit", [(self.now - keep_audit,)])


def _sums(amounts: Iterable[tuple[str, str, float]]) -> list[tuple[str, str, float]]:
    """Each meter once, in order: PostgreSQL does not add to a row twice in one statement."""
    sums: dict[tuple[str, str], float] = {}
    for name, labels, amount in amounts:
        sums[name, labels] = sums.get((name, labels), 0.0) + amount
    return [(*meter, amount) for meter, amount in sorted(sums.items())]
