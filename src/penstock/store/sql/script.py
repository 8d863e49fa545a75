"""One transaction: a group of operations, carried out together on any SQL database.

The script yields requests (`requests.py`) and is sent the answers, so the same lines run on SQLite, where a statement
is a function call, and on PostgreSQL, where it is a message. Ticks' commits and submits are done set by set,
everything else one by one. Refusals are raised before the first row of an operation is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, replace
from operator import attrgetter
from typing import Any, NamedTuple

from penstock.engine import lifecycle
from penstock.engine.errors import Conflict, LostClaim, NotFound, PenstockError
from penstock.engine.lane import Limits, tenants_limited
from penstock.engine.model import CHANGING_COLUMNS, FINAL, JOB_COLUMNS, Event, JobRow, NewJob
from penstock.engine.outcome import Move
from penstock.store import encoding
from penstock.store.protocol import (
    ANY_QUEUE,
    Applied,
    BatchRow,
    Beat,
    Claim,
    ClaimJob,
    Commit,
    Control,
    Fire,
    HandBack,
    Landed,
    Leave,
    Note,
    Op,
    OpenBatch,
    RemoveSchedule,
    RetryBatch,
    Seal,
    SetLimits,
    SetSchedule,
    Submit,
    Submitted,
    TakeLock,
    Tidied,
    Tidy,
    Write,
    brings_along,
)
from penstock.store.sql.claims import Claims
from penstock.store.sql.requests import Ask, AskMany, Contended, Guarded, Opening, Steps, Tell
from penstock.store.sql.statements import BORN_COLUMNS, MOVED_COLUMNS

_all_of = attrgetter(*JOB_COLUMNS)
_born = attrgetter(*BORN_COLUMNS)
_changing = attrgetter(*CHANGING_COLUMNS, "id")
_moved = attrgetter(*MOVED_COLUMNS, "id")


class Script(Claims):
    """The state of one transaction while it runs."""

    def __init__(self, ops: Sequence[Op], *, replay: bool, exact: bool) -> None:
        self.ops = ops
        self.replay = replay
        self.exact = exact
        self.now = 0.0
        self.limits: Limits = {}
        self.by_tenant = False
        self.hints: set[str] = set()
        self.events: list[Event] = []
        self.first_due: float | None = None
        self.committing: dict[str, JobRow] = {}

    def run(self) -> Steps[Applied]:
        self.now, self.limits = yield Opening()
        self.by_tenant = tenants_limited(self.limits)
        answers: list[Any] = [None] * len(self.ops)
        commits: list[tuple[int, Commit]] = []
        submits: list[tuple[int, tuple[NewJob, ...]]] = []
        one_by_one: list[tuple[int, Op]] = []
        for place, op in enumerate(self.ops):
            if type(op) is Commit:
                commits.append((place, op))
            elif type(op) is Submit:
                submits.append((place, op.jobs))
            else:
                one_by_one.append((place, op))
        if commits:
            others = yield from self._plain_commits(commits, answers)
            if others:
                yield from self._commits(others, answers)
        if submits:
            yield from self._submits(submits, answers)
        for kinds in (_OTHERS, _BY_ID, _BY_PRIORITY):
            for place, op in one_by_one:
                handler = kinds.get(type(op))
                if handler is None:
                    continue
                try:
                    answers[place] = yield from handler(self, op)
                except PenstockError as refused:
                    answers[place] = refused
        return Applied(answers, self.hints, None if self.first_due is None else self.first_due - self.now)

    def _plain_commits(self, commits: list[tuple[int, Commit]], answers: list[Any]) -> Steps[list[tuple[int, Move]]]:
        """Ticks that bring nothing along, on jobs that are still what their workers know: one look at the fence is
        enough. Returns the others.

        The worker's own row is changed in place. Should this transaction fail, the row is a move ahead of what is
        stored, and the next try takes the other way.
        """
        plain: dict[str, tuple[int, Move, JobRow]] = {}
        others: list[tuple[int, Move]] = []
        seen: set[str] = set()
        for place, op in commits:
            move, row = op.move, op.row
            if row is None or row.moves + 1 != move.number or self.replay or brings_along(move) or move.job in seen:
                others.append((place, move))
            else:
                plain[move.job] = (place, move, row)
            seen.add(move.job)
        if plain:
            believed = [(move.job, move.epoch, row.moves, row.batch) for _, move, row in plain.values()]
            held = set((yield AskMany("still_held", believed)))
            moved = _Moved([], [], [])
            for job, (place, move, row) in plain.items():
                if job in held:
                    self._land(row, move, moved)
                    answers[place] = Landed(row, row.phase == "held")
                else:
                    others.append((place, move))
            yield from self._write_moved(moved)
        return sorted(others, key=_in_turn)

    def _commits(self, commits: list[tuple[int, Move]], answers: list[Any]) -> Steps[None]:
        rows = self.committing = yield from self._lock_jobs([move.job for _, move in commits])
        moved = _Moved([], [], [])
        for place, move in commits:
            row = rows.get(move.job)
            if row is None or row.epoch != move.epoch or row.phase != "held" or row.moves >= move.number:
                applied = yield from self._applied_before(row, move)
                answers[place] = (
                    _landed(JobRow(*_all_of(row)), move.epoch) if applied and row else _lost(move.job, move.epoch)
                )
                continue
            follows = bool(move.spawn or move.seal) and not _cancel_wins(row, move)
            if follows:
                # What went before in this group may decide whether the spawned jobs are refused.
                yield from self._write_moved(moved)
            if follows or move.writes:
                refused = yield from self._side_effects(row, move)
                if refused is not None:
                    answers[place] = refused
                    continue
            self._land(row, move, moved)
            if follows:
                yield from self._write_moved(moved)
                yield from self._follow(move)
            answers[place] = _landed(JobRow(*_all_of(row)), move.epoch)
        yield from self._write_moved(moved)
        self.committing = {}

    def _land(self, row: JobRow, move: Move, moved: _Moved) -> None:
        lane, resource, ran = row.lane, row.resource, (row.step, row.attempt)
        refused = _cancel_wins(row, move)
        lifecycle.land(row, move, now=self.now, by_tenant=self.by_tenant)
        self.events.append(lifecycle.told(row, move, now=self.now, ran=ran, refused=refused))
        if row.phase == "held" and row.lane == lane:
            moved.kept.append(row)
        else:
            moved.left.append(row)
        if resource and resource != row.resource and self.limits:
            self.hints.add(ANY_QUEUE)
        if move.release and not refused:
            moved.freed.extend((row.tenant, name, row.id) for name in move.release)

    def _write_moved(self, moved: _Moved) -> Steps[None]:
        if moved.freed:
            yield Tell("free_lock", moved.freed.copy())
        if moved.kept:
            yield Tell("move_jobs", [_moved(row) for row in moved.kept])
        yield from self._settle(moved.left.copy())
        for done in moved:
            done.clear()

    def _follow(self, move: Move) -> Steps[None]:
        told: list[Any] = [None]
        yield from self._submits([(0, move.spawn)], told)
        if isinstance(told[0], PenstockError):
            # It was allowed a moment ago: another transaction has got in between.
            raise Contended
        for batch in move.seal:
            yield from self._seal(Seal(batch))

    def _side_effects(self, row: JobRow, move: Move) -> Steps[BaseException | None]:
        """What can refuse a commit is tried before anything of it is written."""
        if _cancel_wins(row, move):
            return None
        landed = replace(row)
        lifecycle.land(landed, move, now=self.now, by_tenant=self.by_tenant)
        try:
            keys = [(new.tenant, new.workflow, new.key) for new in move.spawn if new.key is not None]
            last = yield from self._last_runs(keys)
            # The job itself counts as it lands: it may spawn its own next run.
            last.update({key: landed for key, run in last.items() if run.id == row.id})
            yield from self._plan(move.spawn, last)
            for batch_id in move.seal:
                yield from self._batch(batch_id)
        except PenstockError as refused:
            return refused
        if move.writes:
            error: BaseException | None = yield Guarded(move.writes)
            return error
        return None

    def _applied_before(self, row: JobRow | None, move: Move) -> Steps[bool]:
        """After an unknown COMMIT the history tells whether this very commit happened."""
        if row is None:
            return False
        if any((e.job, e.epoch, e.move) == (move.job, move.epoch, move.number) for e in self.events):
            return True
        found = yield Ask("find_move", (move.job, move.epoch, move.number))
        return bool(found)

    def _submits(self, submits: list[tuple[int, tuple[NewJob, ...]]], answers: list[Any]) -> Steps[None]:
        keyed = [new for _, jobs in submits for new in jobs if new.key is not None or self.replay]
        last = yield from self._last_runs([(new.tenant, new.workflow, new.key or new.id) for new in keyed])
        yield from self._hold_joining(keyed, last)
        born: list[JobRow] = []
        joining: list[tuple[str, JobRow]] = []
        for place, jobs in submits:
            try:
                plan = yield from self._plan(jobs, last)
            except PenstockError as refused:
                answers[place] = refused
                continue
            told = []
            for new, batch in plan:
                key = (new.tenant, new.workflow, new.key or new.id)
                row = last.get(key)
                created = row is None or (new.again and row.status in FINAL and row.id != new.id)
                if row is None or created:
                    limited = batch is not None and batch.limit is not None
                    run = 1 if row is None else row.run + 1
                    row = lifecycle.born(new, run=run, now=self.now, by_tenant=self.by_tenant, batch_limited=limited)
                    born.append(row)
                    if new.key is not None or self.replay:
                        last[key] = row
                    self._announce(row)
                if new.batch is not None:
                    joining.append((new.batch, row))
                told.append(Submitted(row.id, row.id == new.id, row.run, row.status))
            answers[place] = told
        if born:
            count = yield Tell("insert_jobs", [_born(row) for row in born])
            if count != len(born):
                raise Contended
        if joining:
            yield from self._join(joining)

    def _hold_joining(self, jobs: list[NewJob], last: dict[tuple[str, str, str], JobRow]) -> Steps[None]:
        """A job that joins a batch must not end while it does: its end would count nowhere."""
        keys = {(new.tenant, new.workflow, new.key or new.id) for new in jobs if new.batch is not None} & last.keys()
        if not keys:
            return
        rows = yield from self._lock_jobs([last[key].id for key in keys])
        for key in keys:
            if last[key].id not in rows:
                raise Contended
            last[key] = rows[last[key].id]

    def _plan(
        self, jobs: Iterable[NewJob], last: dict[tuple[str, str, str], JobRow]
    ) -> Steps[list[tuple[NewJob, BatchRow | None]]]:
        """Refuses the whole submit before anything of it is written."""
        plan = []
        first: dict[tuple[str, str, str], NewJob] = {}
        for new in jobs:
            batch = yield from self._batch_of(new)
            key = (new.tenant, new.workflow, new.key or new.id)
            row = last.get(key)
            found = row is not None and not (new.again and row.status in FINAL and row.id != new.id)
            same_key = row if found and row is not None else first.setdefault(key, new)
            if same_key.id != new.id and same_key.digest != new.digest:
                raise Conflict(
                    f"key {key[2]!r} of workflow {new.workflow!r} is job {same_key.id},"
                    " which was submitted with another payload"
                )
            if batch is not None and batch.sealed:
                member = (yield Ask("member", (batch.id, row.id))) if found and row is not None else []
                if not member:
                    raise _sealed(batch)
            plan.append((new, batch))
        return plan

    def _batch_of(self, new: NewJob) -> Steps[BatchRow | None]:
        if new.batch is None:
            return None
        batch = yield from self._batch(new.batch)
        if batch.tenant != new.tenant:
            raise NotFound(f"there is no batch {new.batch}")
        return batch

    def _last_runs(self, keys: Sequence[tuple[str, str, str]]) -> Steps[dict[tuple[str, str, str], JobRow]]:
        if not keys:
            return {}
        found = yield Ask("last_runs", ([k[0] for k in keys], [k[1] for k in keys], [k[2] for k in keys]))
        rows = (JobRow(*values) for values in found)
        return {(row.tenant, row.workflow, row.key): row for row in sorted(rows, key=lambda r: r.run)}

    def _join(self, joining: list[tuple[str, JobRow]]) -> Steps[None]:
        """Members are rows, so joining twice counts once; a job that is final already counts at once."""
        batches = yield from self._lock_batches({batch for batch, _ in joining})
        known = yield Ask("memberships", ([row.id for _, row in joining],))
        seen = {(batch, job) for batch, job, _ in known}
        added, first = [], []
        for batch_id, row in joining:
            if (batch_id, row.id) in seen:
                continue
            seen.add((batch_id, row.id))
            batch = batches[batch_id]
            batch.members += 1
            ended = row.status if row.status in FINAL else None
            if ended:
                _count(batch, ended)
            added.append((batch_id, row.id, ended))
            if row.batch is None:
                row.batch = batch_id
                first.append((batch_id, row.id))
                if row.id in self.committing:
                    self.committing[row.id].batch = batch_id
        if added:
            yield Tell("insert_members", added)
        if first:
            yield Tell("name_batch", first)
        yield from self._put_batches(list(batches.values()))

    def _settle(self, rows: list[JobRow]) -> Steps[None]:
        """Write changed rows and their history; what became final lets go of its locks and counts in its batches."""
        if rows:
            yield Tell("put_jobs", [_changing(row) for row in rows])
        if self.events:
            yield Tell("insert_events", self.events)
            self.events = []
        final = []
        for row in rows:
            self._announce(row)
            if row.phase != "held" and (self.limits or row.batch):
                self.hints.add(ANY_QUEUE)
            if row.status in FINAL:
                final.append(row)
        if not final:
            return
        yield Tell("free_locks", [(row.id,) for row in final])
        grouped = {row.id: row for row in final if row.batch is not None}
        if grouped:
            yield from self._end_members(grouped)

    def _announce(self, row: JobRow) -> None:
        """Whoever delivers learns of work that is claimable now, and of when the next will be. A new job's wait is
        everybody's business: who submitted it may run nothing."""
        if row.phase == "ready" or (row.phase == "timed" and row.epoch == 0):
            self.hints.add(row.queue)
        if row.phase == "timed" and row.due is not None and (self.first_due is None or row.due < self.first_due):
            self.first_due = row.due

    def _end_members(self, final: dict[str, JobRow]) -> Steps[None]:
        memberships = yield Ask("memberships", (list(final),))
        open_ones = [(batch, job) for batch, job, ended in memberships if ended is None]
        batches = yield from self._lock_batches({batch for batch, _ in open_ones})
        yield Tell("end_members", [(final[job].status, batch, job) for batch, job in open_ones])
        for batch_id, job in open_ones:
            _count(batches[batch_id], final[job].status)
        yield from self._put_batches(list(batches.values()))

    def _put_batches(self, batches: list[BatchRow]) -> Steps[None]:
        """Write changed batches; one that is sealed and whose members have all ended starts its follow-up job, once."""
        follow_ups = []
        for batch in sorted(batches, key=lambda b: b.id):
            if batch.sealed is not None and batch.finished is None and batch.ended >= batch.members:
                batch.finished = self.now
                if batch.then is not None:
                    new = encoding.load(batch.then)
                    row = lifecycle.born(new, run=1, now=self.now, by_tenant=self.by_tenant, batch_limited=False)
                    batch.follow_up = row.id
                    follow_ups.append(row)
                    self._announce(row)
        if batches:
            yield Tell("put_batches", [_batch_values(batch) for batch in batches])
        if follow_ups and (yield Tell("insert_jobs", [_born(row) for row in follow_ups])) != len(follow_ups):
            raise Contended

    def _lock_jobs(self, ids: Sequence[str]) -> Steps[dict[str, JobRow]]:
        found = yield Ask("lock_jobs", (sorted(ids),))
        return {values[0]: JobRow(*values) for values in found}

    def _lock_batches(self, ids: Iterable[str]) -> Steps[dict[str, BatchRow]]:
        found = yield Ask("lock_batches", (sorted(ids),))
        return {values[0]: BatchRow(*values) for values in found}

    def _batch(self, batch_id: str) -> Steps[BatchRow]:
        batches = yield from self._lock_batches([batch_id])
        if batch_id not in batches:
            raise NotFound(f"there is no batch {batch_id}")
        return batches[batch_id]

    def _take_lock(self, op: TakeLock) -> Steps[bool]:
        row = yield from self._held(op.job, op.epoch)
        yield Tell("take_lock", [(row.tenant, op.name, row.id, self.now)])
        holder = yield Ask("lock_holder", (row.tenant, op.name))
        if not holder:
            raise Contended
        return bool(holder[0][0] == row.id)

    def _note(self, op: Note) -> Steps[str]:
        row = yield from self._held(op.job, op.epoch)
        yield Tell("note_progress", [(op.progress, row.id)])
        return row.gate

    def _held(self, job_id: str, epoch: int) -> Steps[JobRow]:
        rows = yield from self._lock_jobs([job_id])
        row = rows.get(job_id)
        if row is None or row.phase != "held" or row.epoch != epoch:
            raise _lost(job_id, epoch)
        return row

    def _control(self, op: Control) -> Steps[JobRow]:
        rows = yield from self._lock_jobs([op.job])
        row = rows.get(op.job)
        if row is None or (op.tenant is not None and row.tenant != op.tenant):
            raise NotFound(f"there is no job {op.job}")
        if op.action == "retry" and row.status != "paused":
            return (yield from self._retry(op, row))
        lifecycle.control(row, op.action, reason=op.reason, now=self.now, by_tenant=self.by_tenant)
        self.events.append(Event(row.id, self.now, op.action, row.step, row.status, worker=op.actor, note=op.reason))
        yield from self._settle([row])
        if row.phase == "timed":
            self.hints.add(row.queue)
        return row

    def _retry(self, op: Control, row: JobRow) -> Steps[JobRow]:
        new = lifecycle.second_run(row, new_id=op.new_id or "")
        last = (yield from self._last_runs([(row.tenant, row.workflow, row.key)]))[row.tenant, row.workflow, row.key]
        if self.replay and last.id == op.new_id:
            return last
        if last.id != row.id:
            raise Conflict(f"job {row.id} has been run again already")
        fresh = yield from self._create([new], [row.run + 1])
        self.events.append(Event(fresh[0].id, self.now, "retry", fresh[0].step, fresh[0].status, worker=op.actor))
        yield from self._settle([])
        return fresh[0]

    def _create(self, jobs: list[NewJob], runs: list[int], *, limited: bool = False) -> Steps[list[JobRow]]:
        rows = [
            lifecycle.born(new, run=run, now=self.now, by_tenant=self.by_tenant, batch_limited=limited)
            for new, run in zip(jobs, runs, strict=True)
        ]
        count = yield Tell("insert_jobs", [_born(row) for row in rows])
        if count != len(rows):
            raise Contended
        for row in rows:
            self._announce(row)
        return rows

    def _open_batch(self, op: OpenBatch) -> Steps[BatchRow]:
        then = None if op.then is None else encoding.dump(lifecycle.follow_up(op.then, batch=op.id))
        known = yield Ask("last_batch", (op.tenant, op.key))
        if known:
            return BatchRow(*known[0])
        batch = BatchRow(op.id, op.tenant, op.key, 1, op.limit, then, self.now)
        if (yield Tell("insert_batches", [astuple(batch)])) != 1:
            raise Contended
        return batch

    def _seal(self, op: Seal) -> Steps[BatchRow]:
        batch = yield from self._batch(op.batch)
        if batch.sealed is None:
            batch.sealed = self.now
            yield from self._put_batches([batch])
        return batch

    def _retry_batch(self, op: RetryBatch) -> Steps[BatchRow]:
        old = yield from self._batch(op.batch)
        newest = BatchRow(*(yield Ask("last_batch", (old.tenant, old.key)))[0])
        if self.replay and newest.id == op.new_id:
            return newest
        if old.finished is None:
            raise Conflict(f"batch {old.id} has not ended: {old.ended} of {old.members} members have")
        if newest.generation > old.generation:
            raise Conflict(f"batch {old.id} has been retried already")
        if not old.failed:
            raise Conflict(f"batch {old.id} has no failed members to retry")
        then = None
        if old.then is not None:
            then = encoding.dump(replace(encoding.load(old.then), id=op.new_job(), fan_in=op.new_id))
        batch = BatchRow(op.new_id, old.tenant, old.key, old.generation + 1, old.limit, then, self.now)
        again, runs, joining = [], [], []
        for row in (yield from self._newest_runs(old.id)):
            if row.status == "failed":
                again.append(replace(lifecycle.second_run(row, new_id=op.new_job()), batch=batch.id))
                runs.append(row.run + 1)
            else:
                joining.append((batch.id, row))
        if (yield Tell("insert_batches", [astuple(batch)])) != 1:
            raise Contended
        fresh = yield from self._create(again, runs, limited=batch.limit is not None)
        yield from self._join(joining + [(batch.id, row) for row in fresh])
        return (yield from self._seal(Seal(batch.id)))

    def _newest_runs(self, batch_id: str) -> Steps[list[JobRow]]:
        """The last run of every key among a batch's members, locked: they may be about to join another batch."""
        members = [JobRow(*values) for values in (yield Ask("jobs_of_batch", (batch_id,)))]
        keys = list(dict.fromkeys((row.tenant, row.workflow, row.key) for row in members))
        last = yield from self._last_runs(keys)
        rows = yield from self._lock_jobs([row.id for row in last.values()])
        if len(rows) != len(keys):
            raise Contended
        return [rows[last[key].id] for key in keys]

    def _set_limits(self, op: SetLimits) -> Steps[None]:
        """Jobs that wait already are put into the lanes that the new limits ask for."""
        yield Tell("drop_limits", [()])
        if op.limits:
            yield Tell("insert_limits", sorted(op.limits.items()))
        self.limits = dict(op.limits)
        if tenants_limited(op.limits) != self.by_tenant:
            self.by_tenant = not self.by_tenant
            yield Tell("relane", [(self.by_tenant,)])
        self.hints.add(ANY_QUEUE)

    def _set_schedule(self, op: SetSchedule) -> Steps[None]:
        yield Tell(
            "put_schedule", [(op.name, op.tenant, op.cron, op.timezone, op.next_due, encoding.dump(op.job), op.enabled)]
        )

    def _remove_schedule(self, op: RemoveSchedule) -> Steps[bool]:
        return bool((yield Tell("drop_schedule", [(op.tenant, op.name)])))

    def _fire(self, op: Fire) -> Steps[bool]:
        if not (yield Ask("schedule_due", (op.tenant, op.name, op.due))):
            return False
        told: list[Any] = [None]
        yield from self._submits([(0, (op.job,))], told)
        if isinstance(told[0], PenstockError):
            raise told[0]
        yield Tell("fire_schedule", [(op.next_due, op.tenant, op.name, op.due)])
        return True

    def _beat(self, op: Beat) -> Steps[bool]:
        if op.first:
            yield Tell("enter_worker", [(op.worker, self.now, self.now, self.now + op.ttl, op.info)])
            return True
        return bool((yield Tell("beat", [(self.now, self.now + op.ttl, op.worker)])))

    def _leave(self, op: Leave) -> Steps[int]:
        yield Ask("lock_worker", (op.worker,))
        count = yield from self._give_back(op.worker, frozenset(), op.blamed, died=op.died)
        yield Tell("drop_worker", [(op.worker,)])
        return count

    def _hand_back(self, op: HandBack) -> Steps[int]:
        return (yield from self._give_back(op.worker, op.known, None))

    def _give_back(
        self, worker: str, known: frozenset[tuple[str, int]], blamed: str | None, *, died: bool = False
    ) -> Steps[int]:
        held = [JobRow(*values) for values in (yield Ask("held_by", ([worker],)))]
        rows = [row for row in held if (row.id, row.epoch) not in known]
        for row in rows:
            crashed = died or row.id == blamed
            kind, step, attempt = "crash" if crashed else "hand back", row.step, row.attempt
            if crashed:
                lifecycle.crash(row, now=self.now, by_tenant=self.by_tenant)
            else:
                lifecycle.hand_back(row, now=self.now, by_tenant=self.by_tenant)
            self.events.append(
                Event(row.id, self.now, kind, step, row.status, row.epoch, 0, attempt, None, worker, row.error)
            )
        yield from self._settle(rows)
        return len(rows)

    def _write(self, op: Write) -> Steps[None]:
        error: BaseException | None = yield Guarded(op.statements)
        if error is not None:
            raise error

    def _tidy(self, op: Tidy) -> Steps[Tidied]:
        given_up, woken = yield from self._wake_and_give_up()
        dropped = 0
        for keep, statuses in ((op.keep_completed, ["completed", "canceled"]), (op.keep_failed, ["failed"])):
            if keep is None:
                continue
            old = yield Ask("outlived", (statuses, self.now - keep, op.most - dropped))
            if not old:
                continue
            dropped += len(old)
            yield Tell("drop_history", [(job,) for job, _ in old])
            yield Tell("drop_members", [(job,) for job, _ in old])
            stripped = [(job,) for job, tombstone in old if tombstone]
            gone = [(job,) for job, tombstone in old if not tombstone]
            if stripped:
                yield Tell("strip_jobs", stripped)
            if gone:
                yield Tell("drop_jobs", gone)
        if op.keep_completed is not None:
            yield Tell("drop_batches", [(self.now - op.keep_completed,)])
        return Tidied(given_up, woken, dropped)


class _Moved(NamedTuple):
    """Rows that commits have changed and that are still to be written: in their lane, out of it, and the locks they
    gave up."""

    kept: list[JobRow]
    left: list[JobRow]
    freed: list[tuple[str, str, str]]


Handler = Callable[[Script, Any], Steps[Any]]

_OTHERS: dict[type, Handler] = {
    TakeLock: Script._take_lock,
    Note: Script._note,
    Control: Script._control,
    OpenBatch: Script._open_batch,
    Seal: Script._seal,
    RetryBatch: Script._retry_batch,
    SetLimits: Script._set_limits,
    SetSchedule: Script._set_schedule,
    RemoveSchedule: Script._remove_schedule,
    Fire: Script._fire,
    Beat: Script._beat,
    Leave: Script._leave,
    HandBack: Script._hand_back,
    Tidy: Script._tidy,
    Write: Script._write,
}
_BY_ID: dict[type, Handler] = {ClaimJob: Script.claim_job}
_BY_PRIORITY: dict[type, Handler] = {Claim: Script.claim}


def _cancel_wins(row: JobRow, move: Move) -> bool:
    return row.gate == "cancel" and row.status != "canceling" and move.kind != "checkpoint"


def _in_turn(commit: tuple[int, Move]) -> tuple[bool, int]:
    """What `in_order` says of commits."""
    place, move = commit
    return brings_along(move), place


def _landed(row: JobRow, epoch: int) -> Landed:
    return Landed(row, row.phase == "held" and row.epoch == epoch)


def _lost(job_id: str, epoch: int) -> LostClaim:
    return LostClaim(f"job {job_id} is no longer held by claim {epoch}")


def _sealed(batch: BatchRow) -> Conflict:
    return Conflict(f"batch {batch.id} is sealed and takes no more members")


def _count(batch: BatchRow, status: str) -> None:
    setattr(batch, status, getattr(batch, status) + 1)


def _batch_values(batch: BatchRow) -> tuple[Any, ...]:
    return (
        batch.sealed,
        batch.finished,
        batch.members,
        batch.completed,
        batch.failed,
        batch.canceled,
        batch.follow_up,
        batch.id,
    )
