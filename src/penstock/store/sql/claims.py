"""The part of a transaction that takes work: who is best now, within the limits, and whose worker died."""

from __future__ import annotations

import heapq
from typing import Any

from penstock.engine import lifecycle
from penstock.engine.errors import LostClaim
from penstock.engine.lane import AFTER_SLASH, limit_keys, parse, room_for, room_left
from penstock.engine.model import Event, JobRow
from penstock.engine.priority import Head
from penstock.store.protocol import Claim, Claimed, ClaimJob
from penstock.store.sql.commits import Commits
from penstock.store.sql.requests import Ask, Steps, Tell


class Claims(Commits):
    """Mixed into the script; kept apart because it is the one place that chooses between jobs."""

    def claim(self, op: Claim) -> Steps[Claimed]:
        yield from self._wake_and_give_up()
        if not (yield Ask("worker_alive", (op.worker,))):
            raise LostClaim(f"worker {op.worker} was given up; it must start anew")
        lanes = yield from self._lanes(op)
        if len(lanes) == 1 and not op.oldest and not limit_keys(lanes[0].lane, self.limits):
            rows, more = yield from self._from_one_lane(lanes[0].lane, op.room)
        else:
            rows, more = yield from self._from_many_lanes(lanes, op)
        for row in rows:
            lifecycle.claim(row, worker=op.worker, now=self.now, lease=None)
        if rows:
            yield Tell("claim_jobs", [_claimed_values(row) for row in rows])
        if not more and lanes and not self.exact:
            more = yield from self._anything_open(op)
        return Claimed(rows, 0.0 if more else (yield from self._until_due()))

    def claim_job(self, op: ClaimJob) -> Steps[Claimed]:
        rows = yield from self._lock_jobs([op.job])
        row = rows.get(op.job)
        if row is None or row.workflow not in op.workflows:
            return Claimed([], None)
        if row.phase == "timed" and row.due is not None and row.due <= self.now:
            lifecycle.fall_due(row)
            yield from self._settle([row])
        elif row.phase == "held":
            dead = {worker for (worker,) in (yield Ask("dead_workers", (self.now,)))}
            if row.worker in dead or (row.due is not None and row.due <= self.now):
                yield from self._give_up([row])
        if row.phase in ("timed", "held"):
            return Claimed([], None if row.due is None else max(0.0, row.due - self.now))
        if row.phase != "ready":
            return Claimed([], None)
        if op.lease is None and not (yield Ask("worker_alive", (op.worker,))):
            raise LostClaim(f"worker {op.worker} was given up; it must start anew")
        room = yield from self._room([row.lane])
        if any(room_for(key, room, self.limits) < 1 for key in limit_keys(row.lane, self.limits)):
            return Claimed([], None)
        lifecycle.claim(row, worker=op.worker, now=self.now, lease=op.lease)
        yield Tell("claim_jobs", [_claimed_values(row)])
        return Claimed([row], None)

    def _lanes(self, op: Claim) -> Steps[list[Head]]:
        """The head of every lane of the queue that has ready work for this worker."""
        found = yield Ask("lane_heads", (f"{op.queue}/", op.queue + AFTER_SLASH))
        known = set(op.workflows)
        return [_head(lane, aged_from, job) for lane, aged_from, job in found if parse(lane).workflow in known]

    def _from_one_lane(self, lane: str, room: int) -> Steps[tuple[list[JobRow], bool]]:
        """The usual case: the lane's order is the order of priority."""
        found = yield Ask("take_lane", (lane, room + 1))
        return [JobRow(*values) for values in found[:room]], len(found) > room

    def _from_many_lanes(self, lanes: list[Head], op: Claim) -> Steps[tuple[list[JobRow], bool]]:
        """Merge the lanes by priority now, leaving out what a limit forbids."""
        keys = {head.lane: limit_keys(head.lane, self.limits) for head in lanes}
        room = yield from self._room([lane for lane, needed in keys.items() if needed])
        open_lanes = [h for h in lanes if all(room_for(key, room, self.limits) > 0 for key in keys[h.lane])]
        chosen: list[str] = []
        for favour_oldest in (True, False):
            wanted = min(op.oldest, op.room) if favour_oldest else op.room - len(chosen)
            if wanted <= 0 or not open_lanes:
                continue
            limited = any(keys[head.lane] for head in open_lanes)
            queues = yield from self._fill(open_lanes, wanted, favour_oldest, set(chosen), limited=limited)
            heap = [(self._rank(queue[0], favour_oldest), lane) for lane, queue in queues.items() if queue]
            heapq.heapify(heap)
            while heap and wanted > 0:
                _, lane = heap[0]
                if any(room_for(key, room, self.limits) < 1 for key in keys[lane]):
                    heapq.heappop(heap)
                    continue
                queue = queues[lane]
                head = queue.pop(0)
                chosen.append(head.id)
                wanted -= 1
                for key in keys[lane]:
                    room[key] -= 1
                if not queue and wanted > 0:
                    found = yield Ask("lane_after", (lane, head.aged_from, head.id, wanted))
                    queue.extend(_head(lane, aged_from, job) for aged_from, job in found if job not in chosen)
                if queue:
                    heapq.heapreplace(heap, (self._rank(queue[0], favour_oldest), lane))
                else:
                    heapq.heappop(heap)
        if not chosen:
            return [], bool(open_lanes)
        rows = yield from self._lock_jobs(chosen)
        more = yield from self._beyond(open_lanes, set(chosen), keys, room) if self.exact else _nothing()
        return [rows[job] for job in chosen if job in rows], more

    def _fill(
        self, lanes: list[Head], wanted: int, favour_oldest: bool, taken: set[str], *, limited: bool
    ) -> Steps[dict[str, list[Head]]]:
        """A first helping from the lanes whose heads are among the best: no other lane can come into the choice,
        unless a limit closes some of the best ones on the way."""
        best = sorted(lanes, key=lambda head: self._rank(head, favour_oldest))
        if not limited:
            best = best[: wanted + len(taken)]
        helping = max(1, 2 * wanted // len(best)) + len(taken)
        found = yield Ask("take_heads", ([head.lane for head in best], helping))
        queues: dict[str, list[Head]] = {head.lane: [] for head in best}
        for lane, aged_from, job in found:
            if job not in taken:
                queues[lane].append(_head(lane, aged_from, job))
        for queue in queues.values():
            queue.sort(key=lambda head: (head.aged_from, head.id))
        return queues

    def _rank(self, head: Head, favour_oldest: bool) -> tuple[Any, ...]:
        return (head.aged_from, head.id) if favour_oldest else head.rank(self.now)

    def _beyond(
        self, lanes: list[Head], chosen: set[str], keys: dict[str, tuple[str, ...]], room: dict[str, int]
    ) -> Steps[bool]:
        """Whether any open lane has ready work left."""
        still = [h.lane for h in lanes if all(room_for(key, room, self.limits) > 0 for key in keys[h.lane])]
        if not still:
            return False
        found = yield Ask("take_heads", (still, len(chosen) + 1))
        return any(job not in chosen for _, _, job in found)

    def _anything_open(self, op: Claim) -> Steps[bool]:
        """Asked where other workers' rows may have been passed over: is there ready work, locked or not?"""
        lanes = yield from self._lanes(op)
        room = yield from self._room([head.lane for head in lanes], locked=False)
        return any(all(room_for(key, room, self.limits) > 0 for key in limit_keys(h.lane, self.limits)) for h in lanes)

    def _room(self, lanes: list[str], *, locked: bool = True) -> Steps[dict[str, int]]:
        """What the limits of these lanes allow now. The limits are locked before the count, in an order all workers
        share."""
        keys = sorted({key for lane in lanes for key in limit_keys(lane, self.limits)})
        if not keys:
            return {}
        if locked:
            yield Ask("lock_limits", (keys,))
        held = (yield Ask("held_by_lane")) if any(not key.startswith("batch:") for key in keys) else []
        ids = [key.removeprefix("batch:") for key in keys if key.startswith("batch:")]
        batches = (yield Ask("batch_room", (ids,))) if ids else []
        resources = [key for key in keys if key.startswith("resource:")]
        calls = (yield Ask("held_amounts", (resources,))) if resources else []
        return room_left(self.limits, held, batches, calls)

    def _wake_and_give_up(self) -> Steps[tuple[int, int]]:
        """Timers that fell due, leases that ran out, and the jobs of workers that died."""
        woken = given_up = 0
        (first,) = (yield Ask("first_due"))[0]
        if first is not None and first <= self.now:
            queues = yield Ask("fall_due", (self.now,))
            woken = len(queues)
            self.hints.update(queue for (queue,) in queues)
            lapsed = yield Ask("lapsed", (self.now,))
            given_up += len(lapsed)
            yield from self._give_up([JobRow(*values) for values in lapsed])
        dead = [worker for (worker,) in (yield Ask("dead_workers", (self.now,)))]
        if dead:
            orphans = yield Ask("orphans", (dead,))
            given_up += len(orphans)
            yield from self._give_up([JobRow(*values) for values in orphans])
            yield Tell("bury_worker", [(worker, self.now, worker) for worker in dead])
        return given_up, woken

    def _give_up(self, rows: list[JobRow]) -> Steps[None]:
        for row in rows:
            step, attempt, worker = row.step, row.attempt, row.worker
            lifecycle.crash(row, now=self.now, by_tenant=self.by_tenant)
            self.crashed.append((row.workflow, row.status))
            self.events.append(
                Event(row.id, self.now, "crash", step, row.status, row.epoch, 0, attempt, None, worker, row.error)
            )
        yield from self._settle(rows)

    def _until_due(self) -> Steps[float | None]:
        (first,) = (yield Ask("first_due"))[0]
        return None if first is None else max(0.0, first - self.now)


def _nothing() -> Steps[bool]:
    yield from ()
    return False


def _head(lane: str, aged_from: float, job: str) -> Head:
    where = parse(lane)
    return Head(lane, aged_from, job, where.base, where.period, where.cap)


def _claimed_values(row: JobRow) -> tuple[Any, ...]:
    return (row.status, row.phase, row.epoch, row.attempt, row.worker, row.due, row.started, row.entered, row.id)
