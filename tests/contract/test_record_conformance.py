"""The conformance suite finds a store that is wrong about what is kept beside jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from penstock.engine.errors import PenstockError
from penstock.engine.model import Event
from penstock.store.conformance import ManualClock, compare
from penstock.store.memory import MemoryStore
from penstock.store.protocol import (
    AddMeters,
    Announce,
    Asked,
    Commit,
    Landed,
    LogLine,
    Op,
    PutSession,
    RevokeToken,
    SessionRow,
    TokenRow,
)

LENGTH = 60


class DoesItAgain(MemoryStore):
    def _recall(self, ops: Sequence[Op]) -> dict[int, Any]:
        super()._recall(ops)
        return {}


class DoesItTwiceInAGroup(MemoryStore):
    def _asked(self, op: Asked) -> Any:
        self._here = {}
        return super()._asked(op)

    _DO: ClassVar[Any] = {**MemoryStore._DO, Asked: _asked}


class RemembersRefusals(MemoryStore):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.refused: dict[tuple[str, str], PenstockError] = {}

    def _asked(self, op: Asked) -> Any:
        key = None if op.once is None else (op.once.scope, op.once.key)
        if key is not None and key in self.refused:
            raise self.refused[key]
        try:
            return super()._asked(op)
        except PenstockError as refused:
            if key is not None:
                self.refused[key] = refused
            raise

    _DO: ClassVar[Any] = {**MemoryStore._DO, Asked: _asked}


class TakesAnyDigest(MemoryStore):
    def _recall(self, ops: Sequence[Op]) -> dict[int, Any]:
        return super()._recall([self._alike(op) for op in ops])

    def _alike(self, op: Op) -> Op:
        once = op.once if isinstance(op, Asked) else None
        known = None if once is None else self.answer_rows.get((once.scope, once.key))
        if not isinstance(op, Asked) or once is None or known is None:
            return op
        return replace(op, once=replace(once, digest=known[0]))


class NeverForgetsAnAnswer(MemoryStore):
    def _tidy_records(self, keep_audit: float | None) -> None:
        kept = self.answer_rows
        super()._tidy_records(keep_audit)
        self.answer_rows = kept


class AuditsRefusals(MemoryStore):
    def _asked(self, op: Asked) -> Any:
        try:
            return super()._asked(op)
        except PenstockError:
            if op.audit is not None:
                self._entries.append(op.audit)
            raise

    _DO: ClassVar[Any] = {**MemoryStore._DO, Asked: _asked}


class AuditsWhatItRecalls(MemoryStore):
    def _recall(self, ops: Sequence[Op]) -> dict[int, Any]:
        found = super()._recall(ops)
        for place in found:
            op = ops[place]
            if isinstance(op, Asked) and op.audit is not None:
                self._entries.append(op.audit)
        return found


class KeepsSessionsOfTheRevoked(MemoryStore):
    def _revoke_token(self, op: RevokeToken) -> TokenRow:
        kept = self.session_rows
        try:
            return super()._revoke_token(op)
        finally:
            self.session_rows = kept

    _DO: ClassVar[Any] = {**MemoryStore._DO, RevokeToken: _revoke_token}


class SessionsNeverEnd(MemoryStore):
    async def session(self, hash: str) -> SessionRow | None:
        return self.session_rows.get(hash)


class SessionsBeginAnew(MemoryStore):
    """A replay answers with the time of the replay."""

    def _put_session(self, op: PutSession) -> SessionRow:
        super()._put_session(op)
        return replace(op.session, created=self._now(), expires=self._now() + op.ttl)

    _DO: ClassVar[Any] = {**MemoryStore._DO, PutSession: _put_session}


class AnnouncesTwice(MemoryStore):
    def _announce_line(self, op: Announce) -> bool:
        kept = self.events.get(op.job)
        if kept is not None:
            self.events[op.job] = []
        try:
            return super()._announce_line(op)
        finally:
            if kept is not None:
                self.events[op.job] = kept + self.events[op.job]

    _DO: ClassVar[Any] = {**MemoryStore._DO, Announce: _announce_line}


class LogsOfLostClaims(MemoryStore):
    def _commit(self, op: Commit) -> Landed:
        try:
            return super()._commit(op)
        except PenstockError:
            lines = [LogLine(at, op.move.step, 1, level, text) for at, level, text in op.move.logs]
            self.log_lines.setdefault(op.move.job, []).extend(lines)
            raise

    _DO: ClassVar[Any] = {**MemoryStore._DO, Commit: _commit}


class KeepsLogs(MemoryStore):
    def _forget(self, job: str) -> None:
        kept = self.log_lines.get(job)
        super()._forget(job)
        if kept:
            self.log_lines[job] = kept


class NumbersAgain(MemoryStore):
    """As a database does that counts on from the largest number there is."""

    def _tell(self, job: str, event: Event) -> None:
        self.last_number = self.numbered[-1][0] if self.numbered else 0
        super()._tell(job, event)


class PagesFromTheWrongEnd(MemoryStore):
    async def history_page(
        self, job_id: str, *, after: int = 0, before: int | None = None, limit: int = 500, newest: bool = False
    ) -> list[tuple[int, Event]]:
        return await super().history_page(job_id, after=after, before=before, limit=limit)


class AddsTwice(MemoryStore):
    def _add_meters(self, op: AddMeters) -> None:
        kept, self._replay = self._replay, False
        super()._add_meters(op)
        self._replay = kept

    _DO: ClassVar[Any] = {**MemoryStore._DO, AddMeters: _add_meters}


class KeepsOldSeries(MemoryStore):
    def _tidy_records(self, keep_audit: float | None) -> None:
        kept = self.series_rows
        super()._tidy_records(keep_audit)
        self.series_rows = kept


class KeepsOldAudit(MemoryStore):
    def _tidy_records(self, keep_audit: float | None) -> None:
        super()._tidy_records(None)


@pytest.mark.parametrize(
    "wrong",
    [
        DoesItAgain, DoesItTwiceInAGroup, RemembersRefusals, TakesAnyDigest, NeverForgetsAnAnswer, AuditsRefusals,
        AuditsWhatItRecalls, KeepsSessionsOfTheRevoked, SessionsNeverEnd, SessionsBeginAnew, AnnouncesTwice,
        LogsOfLostClaims, KeepsLogs, NumbersAgain, PagesFromTheWrongEnd, AddsTwice, KeepsOldSeries, KeepsOldAudit,
    ],
)  # fmt: skip
def test_a_store_that_is_wrong_about_records_is_found_out(wrong: type[MemoryStore]) -> None:
    async def differ() -> None:
        for seed in range(400):
            clock = ManualClock()
            await compare(MemoryStore(clock), wrong(clock), clock=clock, seed=seed, length=LENGTH)

    with pytest.raises(AssertionError, match=r"seed|changes|history_page"):
        asyncio.run(differ())
