"""What is kept beside jobs, in memory: the plain way to do what `sql/records.py` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.engine.audit import AuditEntry, AuditRow
from penstock.engine.errors import InvalidRequest, NotFound, PenstockError
from penstock.engine.model import Event, JobRow
from penstock.store.protocol import (
    AddMeters,
    Announce,
    Asked,
    AuditFilter,
    BatchFilter,
    BatchRow,
    Change,
    DropSession,
    LogLine,
    Op,
    PutSession,
    PutToken,
    Record,
    RevokeToken,
    SessionRow,
    SetCursor,
    Submit,
    TokenRow,
    TouchToken,
    Write,
)
from penstock.store.records import (
    ANSWERS_KEPT,
    SERIES_KEPT,
    as_done,
    key_reused,
    minute_of,
    no_token,
    token_exists,
)


class MemoryRecords:
    """The part of the store in memory that concerns no job."""

    rows: dict[str, JobRow]
    batch_rows: dict[str, BatchRow]
    events: dict[str, list[Event]]
    _replay: bool

    def __init__(self) -> None:
        self.numbered: list[tuple[int, str, Event]] = []
        self.last_number = 0
        self.log_lines: dict[str, list[LogLine]] = {}
        self.audit_rows: dict[str, AuditRow] = {}
        self.answer_rows: dict[tuple[str, str], tuple[str, Any, float]] = {}
        self.token_rows: dict[str, TokenRow] = {}
        self.session_rows: dict[str, SessionRow] = {}
        self.meter_rows: dict[tuple[str, str], float] = {}
        self.series_rows: dict[tuple[float, str, str], float] = {}
        self.cursor_rows: dict[str, str] = {}
        self._here: dict[tuple[str, str], tuple[str, Any]] = {}
        self._entries: list[AuditEntry] = []

    def _now(self) -> float:
        raise NotImplementedError

    def _do(self, op: Op) -> Any:
        raise NotImplementedError

    def _tell(self, job: str, event: Event) -> None:
        """Add a line to a job's history."""
        self.events[job].append(event)
        self.last_number += 1
        self.numbered.append((self.last_number, job, event))

    def _forget(self, job: str) -> None:
        """A job's history goes."""
        self.events[job] = []
        self.numbered = [line for line in self.numbered if line[1] != job]
        self.log_lines.pop(job, None)

    def _recall(self, ops: Sequence[Op]) -> dict[int, Any]:
        """What was answered before is found before anything is done: place in the group → answer."""
        found: dict[int, Any] = {}
        self._here = {}
        for place, op in enumerate(ops):
            once = op.once if type(op) is Asked else None
            known = None if once is None else self.answer_rows.get((once.scope, once.key))
            if type(op) is Asked and once is not None and known is not None:
                digest, answer, _ = known
                if digest != once.digest:
                    found[place] = key_reused(once)
                elif isinstance(op.op, Submit | Write):
                    found[place] = list(answer)
                elif answer in self.batch_rows:
                    found[place] = replace(self.batch_rows[answer])
                else:
                    found[place] = NotFound(f"there is no batch {answer}")
        return found

    def _asked(self, op: Asked) -> Any:
        """What comes twice in one group is answered alike, a refusal too."""
        once = op.once
        if once is not None and (earlier := self._here.get((once.scope, once.key))) is not None:
            digest, answer = earlier
            if digest != once.digest:
                raise key_reused(once)
        else:
            try:
                answer = self._do(op.op)
            except PenstockError as refused:
                answer = refused
            if once is not None:
                self._here[once.scope, once.key] = (once.digest, answer)
                if not isinstance(answer, PenstockError):
                    kept = answer.id if isinstance(answer, BatchRow) else list(answer)
                    self.answer_rows[once.scope, once.key] = (once.digest, kept, self._now())
            if not isinstance(answer, PenstockError) and (entry := as_done(op, answer)) is not None:
                self._entries.append(entry)
        if isinstance(answer, PenstockError):
            raise answer
        return answer

    def _write_audit(self) -> None:
        """At the end of a group: what it drops is older."""
        for entry in self._entries:
            self._write_down(entry)
        self._entries = []

    def _write_down(self, e: AuditEntry) -> None:
        row = AuditRow(e.id, self._now(), e.actor, e.action, e.target, e.tenant, e.via, e.address, e.detail)
        self.audit_rows.setdefault(e.id, row)

    def _record(self, op: Record) -> None:
        self._write_down(op.entry)

    def _announce_line(self, op: Announce) -> bool:
        row = self.rows.get(op.job)
        if row is None or row.lane == "":
            # Of a key that only keeps its place nobody would drop the line.
            raise NotFound(f"there is no job {op.job}")
        if any(event.kind == op.kind for event in self.events[op.job]):
            return False
        self._tell(row.id, Event(row.id, self._now(), op.kind, row.step, row.status, note=op.note))
        return True

    def _put_token(self, op: PutToken) -> TokenRow:
        token = replace(op.token, created=self._now())
        known = next((t for t in self.token_rows.values() if t.name == token.name), None)
        if known is not None:
            if self._replay and known.hash == token.hash:
                return known
            raise token_exists(token.name)
        self.token_rows[token.id] = token
        return token

    def _revoke_token(self, op: RevokeToken) -> TokenRow:
        token = next((t for t in self.token_rows.values() if t.name == op.name), None)
        if token is None:
            raise no_token(op.name)
        self.session_rows = {h: s for h, s in self.session_rows.items() if s.token != token.id}
        if token.revoked is None:
            token = self.token_rows[token.id] = replace(token, revoked=self._now())
        return token

    def _touch_token(self, op: TouchToken) -> None:
        if op.id in self.token_rows:
            self.token_rows[op.id] = replace(self.token_rows[op.id], used=self._now())

    def _put_session(self, op: PutSession) -> SessionRow:
        session = replace(op.session, created=self._now(), expires=self._now() + op.ttl)
        return self.session_rows.setdefault(session.hash, session)

    def _drop_session(self, op: DropSession) -> bool:
        return self.session_rows.pop(op.hash, None) is not None

    def _add_meters(self, op: AddMeters) -> None:
        if self._replay:
            return
        for name, labels, amount in op.totals:
            self.meter_rows[name, labels] = self.meter_rows.get((name, labels), 0.0) + amount
        minute = minute_of(self._now())
        for name, labels, amount in op.series:
            key = (minute, name, labels)
            self.series_rows[key] = self.series_rows.get(key, 0.0) + amount

    def _set_cursor(self, op: SetCursor) -> None:
        self.cursor_rows[op.name] = op.place

    def _tidy_records(self, keep_audit: float | None) -> None:
        now = self._now()
        self.answer_rows = {k: a for k, a in self.answer_rows.items() if a[2] > now - ANSWERS_KEPT}
        self.session_rows = {h: s for h, s in self.session_rows.items() if s.expires > now}
        self.series_rows = {k: v for k, v in self.series_rows.items() if k[0] > now - SERIES_KEPT}
        if keep_audit is not None:
            self.audit_rows = {i: row for i, row in self.audit_rows.items() if row.at > now - keep_audit}

    async def batches(self, where: BatchFilter) -> list[BatchRow]:
        found = [
            batch
            for batch in self.batch_rows.values()
            if where.tenant in (None, batch.tenant)
            and where.key in (None, batch.key)
            and (where.open is None or where.open == (batch.finished is None))
            and (where.before is None or batch.id < where.before)
            and (where.ids is None or batch.id in where.ids)
        ]
        return [replace(batch) for batch in sorted(found, key=lambda b: b.id, reverse=True)[: where.limit]]

    async def changes(self, after: int, *, also: Sequence[int] = (), limit: int = 1000) -> list[Change]:
        newer = [line for line in self.numbered if line[0] > after][:limit]
        upto = newer[-1][0] if newer else after
        found = [line for line in self.numbered if after < line[0] <= upto or line[0] in also]
        return [
            Change(number, event, row.tenant, row.workflow, row.key, row.run, row.batch)
            for number, job, event in found
            for row in [self.rows[job]]
        ]

    async def history_page(
        self, job_id: str, *, after: int = 0, before: int | None = None, limit: int = 500, newest: bool = False
    ) -> list[tuple[int, Event]]:
        found = [
            (number, event)
            for number, job, event in self.numbered
            if job == job_id and after < number and (before is None or number < before)
        ]
        return found[-limit:] if newest else found[:limit]

    async def last_change(self) -> int:
        return self.numbered[-1][0] if self.numbered else 0

    async def logs(self, job_id: str, *, limit: int = 1000) -> list[LogLine]:
        return self.log_lines.get(job_id, [])[-limit:]

    async def own_rows(self, statement: Any) -> list[tuple[Any, ...]]:
        raise InvalidRequest("the memory store keeps no tables: use sqlite:///FILE or postgresql://…")

    async def backlog(self, most: int) -> int:
        return min(most, sum(row.phase == "ready" for row in self.rows.values()))

    async def audit(self, where: AuditFilter) -> list[AuditRow]:
        found = [
            row
            for row in self.audit_rows.values()
            if where.tenant in (None, row.tenant)
            and where.actor in (None, row.actor)
            and where.action in (None, row.action)
            and where.target in (None, row.target)
            and (where.before is None or row.id < where.before)
        ]
        return sorted(found, key=lambda row: row.id, reverse=True)[: where.limit]

    async def tokens(self, *, hash: str | None = None, id: str | None = None) -> list[TokenRow]:
        found = [t for t in self.token_rows.values() if hash in (None, t.hash) and id in (None, t.id)]
        return sorted(found, key=lambda token: token.name)

    async def answered(self, scope: str, key: str) -> bool:
        return (scope, key) in self.answer_rows

    async def session(self, hash: str) -> SessionRow | None:
        found = self.session_rows.get(hash)
        return None if found is None or found.expires <= self._now() else found

    async def meters(self) -> list[tuple[str, str, float]]:
        return sorted((name, labels, value) for (name, labels), value in self.meter_rows.items())

    async def series(self, names: Sequence[str], since: float) -> list[tuple[float, str, str, float]]:
        return sorted((*key, value) for key, value in self.series_rows.items() if key[0] >= since and key[1] in names)

    async def cursor(self, name: str) -> str | None:
        return self.cursor_rows.get(name)
