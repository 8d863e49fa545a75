"""Where remote calls are made: a step asks, the store records, the other side is told, and what it answers is kept.

The order is always the same, so that a crash between any two lines loses nothing: everything free first (`prepare`),
then the intent in the store, then the one request that may cost money, then its answer in the store. What happens to
a call after that is `tending.py`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from penstock.engine.call import (
    LIVE,
    REPEATED,
    Call,
    CallRow,
    Fact,
    NewCall,
    call_id,
    label_of,
    view,
)
from penstock.engine.engine import Engine
from penstock.engine.errors import (
    Ambiguous,
    Blocked,
    Conflict,
    InvalidRequest,
    NotFound,
    PenstockError,
    Permanent,
    StepError,
    Transient,
)
from penstock.engine.identity import checked_key
from penstock.engine.meters import KnownCall
from penstock.engine.model import JobRow
from penstock.remote.attic import Attic
from penstock.remote.protocol import Accepted, Order, Plan, Remote
from penstock.remote.tending import INTERRUPTED, Pace, Tending, collected_fact, first_look, proof_delay
from penstock.store.protocol import Intend, Intended, Learn

log = logging.getLogger("penstock.remote")

MOST_REPEATS = 5
"""How often a call is made again because nobody knows what became of the last one."""


class CallDesk:
    """One for each engine. Knows the remotes by name (some are made only when they are first asked for), and keeps
    each call's files in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        remotes: Iterable[Remote] = (),
        *,
        factories: Mapping[str, Factory] | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._folder = folder
        self._pace = pace or Pace()
        self._remotes: dict[str, Remote] = {}
        self._factories = dict(factories or {})
        self._home_name: str | None = None
        self._broken: set[str] = set()
        self._making: dict[tuple[str, str], asyncio.Future[Call]] = {}
        self._engine: Engine | None = None
        self._tending: Tending | None = None
        self._attic: Attic | None = None
        for remote in remotes:
            self.add(remote)

    def connect(self, engine: Engine) -> None:
        self._engine = engine
        self._tending = Tending(engine, self, self._pace)
        self._attic = Attic(self._folder, engine.clock, engine.store)

    def add(self, remote: Remote) -> None:
        """From now on calls of this remote are looked after here."""
        known = self._remotes.setdefault(remote.name, remote)
        if known is not remote:
            raise InvalidRequest(f"there is another remote named {remote.name!r} already")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self._remotes, *self._factories}))

    def remote(self, name: str) -> Remote:
        if name not in self._remotes and name in self._factories:
            self._remotes[name] = self._factories[name].make()
        if name not in self._remotes:
            known = ", ".join(self.names) or "none"
            raise NotFound(f"no remote {name!r} is known here (known: {known}): give it to Penstock(remotes=[...])")
        return self._remotes[name]

    async def ready(self, name: str) -> Remote:
        """The same for the event loop: making one may import a large library."""
        if name not in self._remotes and name in self._factories:
            made = await asyncio.to_thread(self._factories[name].make)
            self._remotes.setdefault(name, made)
        return self.remote(name)

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise InvalidRequest("these remotes belong to no engine yet")
        return self._engine

    @property
    def tending(self) -> Tending:
        if self._tending is None:
            raise InvalidRequest("these remotes belong to no engine yet")
        return self._tending

    @property
    def places(self) -> tuple[str, ...]:
        """Where the calls are made that are looked after here. A remote that cannot be made keeps no other from it."""
        found = []
        for name in self.names:
            try:
                found.append(self._place_of(name))
            except (PenstockError, OSError) as error:
                if name not in self._broken:
                    log.error("calls to %s are not looked after here: %s", name, error)
                self._broken.add(name)
        return tuple(found)

    def _place_of(self, name: str) -> str:
        known: Remote | Factory | None = self._remotes.get(name) or self._factories.get(name)
        if known is None or known.identity is None:
            known = self.remote(name)
        return " ".join(filter(None, (name, known.identity, self._home() if known.keeps_files else "")))

    def _home(self) -> str:
        """The name of this folder, the same for all who share it."""
        if self._home_name is None:
            self._home_name = home_name(self._folder)
        return self._home_name

    def order(self, row: CallRow, request: Any = None) -> Order:
        return Order(
            label=label_of(row.id),
            tenant=row.tenant,
            job=row.job,
            key=row.key,
            attempt=row.attempt,
            request=request,
            folder=self.folder_of(row.id),
            prepared=from_json(row.prepared),
        )

    def folder_of(self, call: str) -> Path:
        return self._folder / call[:2] / call

    async def close(self) -> None:
        for remote in self._remotes.values():
            await remote.close()

    async def tend(self, *, wait: bool = True) -> int:
        return await self.tending.tend(wait=wait)

    async def rest(self) -> None:
        await self.tending.rest()

    async def until_next(self, longest: float) -> None:
        await self.tending.until_next(longest)

    async def clean(self) -> None:
        """Remove the files that retention left behind."""
        if self._attic is not None:
            await self._attic.clean()

    async def make(self, job: JobRow, remote: Remote | str, key: str, request: Any, *, attempts: int) -> Call:
        """The job's call of that key: made if it was not, looked up if it was. One at a time for each key."""
        if not isinstance(remote, str):
            self.add(remote)
            remote = remote.name
        place = (job.id, checked_key(key))
        while (running := self._making.get(place)) is not None:
            await asyncio.wait([running])
        made: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        self._making[place] = made
        try:
            return await self._make(job, await self.ready(remote), key, request, attempts)
        finally:
            del self._making[place]
            made.cancel()

    async def _make(self, job: JobRow, remote: Remote, key: str, request: Any, attempts: int) -> Call:
        # A batch of a hundred thousand rows takes a while to read.
        large = isinstance(request, BaseModel)
        digest = await asyncio.to_thread(digest_of, request) if large else digest_of(request)
        last = await self.engine.store.last_call(job.id, key)
        if last is not None:
            self._check_place(last, remote)
        if last is not None and last.state == "intent":
            last = await self._unheard(last, remote)
        attempt = next_attempt(last, attempts=attempts, resend=remote.guarantee == "callee_dedup")
        if attempt is None:
            assert last is not None
            return self._answer(last, remote, digest)
        call = call_id(job.id, key, attempt) if last is None or last.attempt != attempt else last.id
        plan, new = await self._planned(job, remote, key, attempt, request, digest, call)
        began = self.engine.clock.monotonic()
        intended: Intended = await self.engine.commit(Intend(job.id, job.epoch, new))
        if not intended.sends:
            return self._answer(intended.row, remote, digest)
        self.engine.meters.call_intended(intended.row)
        order = replace(self.order(intended.row, request), prepared=plan.prepared)
        try:
            with self.traced(intended.row, "submit"):
                return self._answer(await self._send(intended.row, order, remote, began), remote, digest)
        finally:
            self.engine.meters.call_left(call)

    def traced(self, row: CallRow, what: str) -> contextlib.AbstractContextManager[None]:
        tracer = self.engine.tracer
        return contextlib.nullcontext() if tracer is None else tracer.call(row, what)

    def _check_place(self, last: CallRow, remote: Remote) -> None:
        """A call that was made at another place, and is not over, is that place's to go on with."""
        here = self._place_of(remote.name)
        needed = last.state in LIVE - {"quarantined"} or (last.state == "collected" and remote.keeps_files)
        if needed and last.place != here:
            raise Blocked(
                f"call {last.key!r} was made at {last.place!r} and this worker is at {here!r}: it waits for a worker of"
                " that place. Workers that share a store should share their home and their Gemini settings"
            )

    async def _unheard(self, row: CallRow, remote: Remote) -> CallRow:
        """A call that was about to be sent, by a tick that is gone. What can be looked up is, without waiting for
        proof; what the other side knows by our label is sent again; the rest is lost."""
        if remote.guarantee == "findable":
            row = await self.learn(Fact(call=row.id, kind="checked", look_in=0.0))
            self.tending.news()
            return row
        if remote.guarantee == "callee_dedup":
            return row
        self.engine.meters.call_begins(row)
        lost = Fact(call=row.id, kind="lost", error=INTERRUPTED, intent=row.submit_before)
        try:
            return await self.learn(lost)
        finally:
            self.engine.meters.call_left(row.id)

    async def _planned(
        self, job: JobRow, remote: Remote, key: str, attempt: int, request: Any, digest: str, call: str
    ) -> tuple[Plan, NewCall]:
        order = Order(
            label=label_of(call),
            tenant=job.tenant,
            job=job.id,
            key=key,
            attempt=attempt,
            request=request,
            folder=self.folder_of(call),
        )
        plan = await remote.prepare(order)
        new = NewCall(
            remote=remote.name,
            key=key,
            attempt=attempt,
            model=plan.model,
            digest=digest,
            place=self._place_of(remote.name),
            prepared=to_json(dict(plan.prepared)).decode(),
            holds=plan.holds,
            estimate=plan.estimate,
            priced=plan.priced,
            window=self._pace.window,
            proof_after=proof_delay(remote),
            resend=remote.guarantee == "callee_dedup",
        )
        return plan, new

    async def _send(self, row: CallRow, order: Order, remote: Remote, began: float) -> CallRow:
        if self._too_late(row, began):
            late = Fact(call=row.id, kind="refused", error="not sent in time", intent=row.submit_before)
            await self.learn(late)
            raise Transient(f"call {row.key!r} was not sent within {self._pace.window:g} s of its intent")
        try:
            async with asyncio.timeout(remote.submit_timeout):
                answer = await remote.submit(order)
        except asyncio.CancelledError:
            self.engine.in_background(self.learn(Fact(call=row.id, kind="missed", error=INTERRUPTED, look_in=0.0)))
            raise
        except Ambiguous as error:
            return await self._nobody_knows(row, remote, error)
        except (StepError, InvalidRequest) as error:
            await self.learn(Fact(call=row.id, kind="refused", error=str(error), intent=row.submit_before))
            if isinstance(error, Permanent | InvalidRequest):
                await self.tending.tidy(row, order, remote)
            raise
        except Exception as error:
            return await self._nobody_knows(row, remote, error)
        if isinstance(answer, Accepted):
            look_in = first_look(remote, order.prepared)
            fact = Fact(call=row.id, kind="sent", provider_id=answer.provider_id, look_in=look_in)
        else:
            fact = collected_fact(row.id, answer)
        told = await self.learn(fact)
        self.tending.news()
        return told

    def _too_late(self, row: CallRow, began: float) -> bool:
        """By the store's clock, as far as this machine knows it, and by its own, which nobody sets."""
        engine = self.engine
        waited = engine.clock.monotonic() - began
        return waited > self._pace.window or engine.clock.now() + engine.skew > (row.submit_before or 0.0)

    async def _nobody_knows(self, row: CallRow, remote: Remote, error: Exception) -> CallRow:
        """Sent, perhaps. What can be looked up is looked up at once; the rest is up to the step's own retries."""
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        log.warning(
            "call %s (%s %s): no answer, nobody knows whether it was taken: %s", row.id, row.remote, row.key, told
        )
        if remote.guarantee == "findable":
            found = await self.learn(Fact(call=row.id, kind="missed", error=told, look_in=remote.poll_every))
            self.tending.news()
            return found
        kind = "lost" if remote.guarantee == "repeatable" else "missed"
        await self.learn(Fact(call=row.id, kind=kind, error=told, intent=row.submit_before))
        raise Transient(f"{remote.name} gave no answer: {told}") from error

    async def stop(self, call: str) -> None:
        await self.learn(Fact(call=call, kind="unwanted", look_in=0.0))
        self.tending.news()

    async def learn(self, fact: Fact) -> CallRow:
        """Facts about money land even if the step that learned them is stopped meanwhile."""
        landing = self.engine.in_background(self._land(fact, self.engine.meters.known_call(fact.call)))
        row: CallRow = await asyncio.shield(landing)
        return row

    async def _land(self, fact: Fact, known: KnownCall | None) -> CallRow:
        row: CallRow = await self.engine.commit(Learn(fact))
        self.engine.meters.call_learned(row, known)
        return row

    def _answer(self, row: CallRow, remote: Remote, digest: str) -> Call:
        if row.state == "quarantined":
            raise Ambiguous(
                f"call {row.id} ({row.remote} {row.key}) is quarantined: {row.error};"
                f" look at {row.remote}, then decide: 'penstock calls adopt|resubmit|discard {row.id}'"
            )
        if row.digest and row.digest != digest and (row.state in LIVE or row.state == "collected"):
            raise Conflict(
                f"call {row.key!r} of job {row.job} was made with another request: give each request a key of its own"
            )
        if row.state in REPEATED:
            raise Permanent(
                f"call {row.key!r} was made {row.attempt} times and nobody knows what became of any: {row.error}"
            )
        return view(row)


def next_attempt(last: CallRow | None, *, attempts: int, resend: bool = False) -> int | None:
    """Which attempt is to be sent now; None: the last one stands. `resend`: one of which nobody heard is sent again."""
    if last is None:
        return 1
    if last.state == "unsent" or (last.state == "intent" and resend):
        return last.attempt
    if last.state in REPEATED:
        return last.attempt + 1 if last.attempt < attempts + MOST_REPEATS else None
    if last.state in ("failed", "expired", "cancelled"):
        return last.attempt + 1 if last.attempt < attempts else None
    return None


@dataclass(slots=True, frozen=True)
class Factory:
    """A remote that is made when it is first needed. What calls need to know of it is known before; where `identity` is
    None it is asked."""

    make: Callable[[], Remote]
    identity: str | None = ""
    keeps_files: bool = False


def home_name(folder: Path) -> str:
    """Kept in the folder, so that whoever shares it knows it by the same name."""
    path = folder / ".home"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x") as file:
            file.write(uuid.uuid4().hex[:12])
    return path.read_text().strip()


def digest_of(request: Any) -> str:
    """The same for the same request; a mapping's fields may come in any order, a model's come in its own."""
    if isinstance(request, BaseModel):
        return hashlib.sha256(request.model_dump_json().encode()).hexdigest()[:32]
    ordered = to_json(_sorted(from_json(to_json(request, fallback=str))))
    return hashlib.sha256(ordered).hexdigest()[:32]


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
