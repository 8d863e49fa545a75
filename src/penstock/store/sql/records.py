"""What is kept beside jobs: who did what, what was answered to whom, tokens and sessions, meters and cursors."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import attrgetter
from typing import Any

from penstock.engine.audit import AuditEntry
from penstock.engine.errors import NotFound, PenstockError
from penstock.engine.model import Event
from penstock.store.protocol import (
    SESSION_COLUMNS,
    TOKEN_COLUMNS,
    AddMeters,
    Announce,
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
)
from penstock.store.records import (
    ANSWERS_KEPT,
    SERIES_KEPT,
    answer_text,
    key_reused,
    minute_of,
    no_token,
    token_exists,
    with_tenant,
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
        wanted = [(asked.once, place) for place, asked in self.asked.items() if asked.once is not None]
        for once, place in sorted(wanted, key=lambda w: (w[0].scope, w[0].key, w[1])):
            before = first.setdefault((once.scope, once.key), place)
            if before != place:
                same = self.asked[before].once
                answers[place] = None if same is not None and same.digest == once.digest else key_reused(once)
                done[place] = before if answers[place] is None else place
            elif not (yield Tell("reserve_answer", [(once.scope, once.key, once.digest, self.now)])):
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
        if isinstance(op, Submit):
            return [Submitted(*each) for each in told]
        try:
            return (yield from self._batch(told))
        except PenstockError as refused:
            return refused

    def _remember(self, answers: list[Any], recalled: dict[int, int]) -> Steps[None]:
        """Keep the answers that are to be given again, and write down who had this done."""
        entries = []
        for place, asked in self.asked.items():
            if place in recalled:
                if recalled[place] != place:
                    answers[place] = answers[recalled[place]]
                continue
            answer = answers[place]
            refused = isinstance(answer, BaseException)
            if asked.once is not None:
                key = (asked.once.scope, asked.once.key)
                yield Tell("drop_answer", [key]) if refused else Tell("put_answer", [(answer_text(answer), *key)])
            if asked.audit is not None and not refused:
                entries.append(with_tenant(asked, answer))
        if entries:
            yield Tell("insert_audit", [self._audit_values(entry) for entry in entries])

    def _audit_values(self, entry: AuditEntry) -> tuple[Any, ...]:
        e = entry
        return (e.id, self.now, e.actor, e.action, e.target, e.tenant, e.via, e.address, e.detail)

    def _record(self, op: Record) -> Steps[None]:
        yield Tell("insert_audit", [self._audit_values(op.entry)])

    def _announce_line(self, op: Announce) -> Steps[bool]:
        rows = yield from self._lock_jobs([op.job])
        row = rows.get(op.job)
        if row is None:
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

    def _touch_token(self, op: TouchToken) -> Steps[None]:
        yield Tell("touch_token", [(self.now, op.id)])

    def _put_session(self, op: PutSession) -> Steps[SessionRow]:
        session = replace(op.session, created=self.now, expires=self.now + op.ttl)
        yield Tell("insert_session", [_session(session)])
        return session

    def _drop_session(self, op: DropSession) -> Steps[bool]:
        return bool((yield Tell("drop_session", [(op.hash,)])))

    def _add_meters(self, op: AddMeters) -> Steps[None]:
        """In order, so that two processes that add at the same time do not wait for each other in a circle. After an
        unknown COMMIT nothing is added: it may have been."""
        if self.replay:
            return
        if op.totals:
            yield Tell("add_meters", sorted(op.totals))
        if op.series:
            minute = minute_of(self.now)
            yield Tell("add_series", [(minute, *each) for each in sorted(op.series)])

    def _set_cursor(self, op: SetCursor) -> Steps[None]:
        yield Tell("put_cursor", [(op.name, op.place)])

    def _tidy_records(self, keep_audit: float | None) -> Steps[None]:
        yield Tell("drop_old_answers", [(self.now - ANSWERS_KEPT,)])
        yield Tell("drop_old_sessions", [(self.now,)])
        yield Tell("drop_old_series", [(self.now - SERIES_KEPT,)])
        if keep_audit is not None:
            yield Tell("drop_old_audit", [(self.now - keep_audit,)])
