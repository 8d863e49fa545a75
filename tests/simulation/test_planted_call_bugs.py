"""The proof that the simulator finds bugs in how remote calls are made and looked after."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pytest

from penstock.engine.call import LIVE, CallRow, Fact, held_by
from penstock.engine.clock import to_the_tick
from penstock.engine.engine import Engine
from penstock.engine.errors import Transient
from penstock.remote import tending
from penstock.remote.desk import CallDesk
from penstock.remote.protocol import Order, Remote
from penstock.remote.tending import Tending
from penstock.simulation import Violation, simulate
from penstock.simulation.call_client import spending
from penstock.simulation.call_sample import CALL_WORKFLOWS
from penstock.simulation.many import run_seed, seeds_with_calls
from penstock.simulation.providers import three
from penstock.store import memory_calls
from penstock.store.memory import MemoryStore
from penstock.store.protocol import Commit, Learn

Patch = pytest.MonkeyPatch


def take_an_early_listing_for_proof(patch: Patch) -> None:
    """A search that finds nothing is believed, though what was sent may still arrive."""
    patch.setattr(tending, "proof_delay", lambda remote: -1000.0)


def make_again_what_is_ambiguous(patch: Patch) -> None:
    """A reply that was lost is taken for a refusal."""

    async def _nobody_knows(self: CallDesk, row: CallRow, remote: Remote, error: Exception) -> CallRow:
        await self.learn(Fact(call=row.id, kind="refused", error=str(error)))
        raise Transient(str(error))

    patch.setattr(CallDesk, "_nobody_knows", _nobody_knows)


def send_too_late(patch: Patch) -> None:
    """A call whose intent took long to be stored is sent all the same."""
    patch.setattr(CallDesk, "_too_late", lambda self, row, began: False)


def sleep_through_the_end(patch: Patch) -> None:
    """A job that is about to wait for a call is not told that it has ended meanwhile."""
    commit = MemoryStore._DO[Commit]

    def _commit(self: MemoryStore, op: Commit) -> Any:
        return commit(self, replace(op, move=replace(op.move, until=())))

    patch.setitem(MemoryStore._DO, Commit, _commit)


def free_holds_early(patch: Patch) -> None:
    """What runs at the other side holds nothing here any more."""

    def _held_amounts(self: MemoryStore) -> dict[str, int]:
        amounts: dict[str, int] = {}
        for row in self.call_rows.values():
            if row.state in LIVE - {"running"}:
                for name, amount in held_by(row):
                    amounts[name] = amounts.get(name, 0) + amount
        return amounts

    patch.setattr(MemoryStore, "_held_amounts", _held_amounts)


def believe_only_the_holder(patch: Patch) -> None:
    """What is learned about a call counts only while its job is held by the claim that sent it."""
    learn = MemoryStore._DO[Learn]

    def _learn(self: MemoryStore, op: Learn) -> Any:
        row = self.call_rows[op.fact.call]
        job = self.rows.get(row.job)
        if op.fact.kind in ("sent", "collected") and (job is None or job.epoch != row.epoch):
            return copy.copy(row)
        return learn(self, op)

    patch.setitem(MemoryStore._DO, Learn, _learn)


def take_a_failed_poll_for_a_failure(patch: Patch) -> None:
    """A poll that is not answered frees the work."""
    missed = Tending._missed

    async def _missed(self: Tending, row: CallRow, remote: Remote, why: str, *, most: int) -> None:
        if row.state in ("submitted", "running", "overdue"):
            await self._tell(Fact(call=row.id, kind="failed", error=why))
        else:
            await missed(self, row, remote, why, most=most)

    patch.setattr(Tending, "_missed", _missed)


def forget_to_cancel(patch: Patch) -> None:
    """What nobody wants any more is watched, but not stopped."""
    ask = Tending._ask

    async def _ask(self: Tending, row: CallRow, order: Order, remote: Remote) -> None:
        await ask(self, replace(row, unwanted=0), order, remote)

    patch.setattr(Tending, "_ask", _ask)


def believe_the_own_clock(patch: Patch) -> None:
    """How long ago something was sent is read from a clock that somebody may have set."""

    async def read_store_clock(self: Engine) -> float:
        return self.clock.now() + self.skew

    patch.setattr(Engine, "read_store_clock", read_store_clock)


def forget_a_live_call(patch: Patch) -> None:
    """Who looked for what had not arrived lets it rest, though it was found meanwhile."""
    learn = memory_calls.learn

    def forgetful(row: CallRow, fact: Fact, *, now: float, superseded: bool) -> bool:
        if fact.kind == "checked":
            row.due = None if fact.look_in is None else to_the_tick(now + fact.look_in)
            return True
        return learn(row, fact, now=now, superseded=superseded)

    patch.setattr(memory_calls, "learn", forgetful)


def send_under_another_label(patch: Patch) -> None:
    """What the other side would have known by its label is sent as something new."""

    async def _unheard(self: CallDesk, row: CallRow, remote: Remote) -> CallRow:
        return await self.learn(Fact(call=row.id, kind="lost", error="unheard"))

    patch.setattr(CallDesk, "_unheard", _unheard)


def do_not_book_what_was_lost(patch: Patch) -> None:
    """A result that cannot be had any more is taken for one that cost nothing."""
    learn = memory_calls.learn

    def free(row: CallRow, fact: Fact, *, now: float, superseded: bool) -> bool:
        return learn(row, replace(fact, cost=None) if fact.kind == "failed" else fact, now=now, superseded=superseded)

    patch.setattr(memory_calls, "learn", free)


def pay_while_it_rests(patch: Patch) -> None:
    """A job that somebody asked to pause goes on sending."""
    intend = MemoryStore._DO[memory_calls.Intend]

    def _intend(self: MemoryStore, op: memory_calls.Intend) -> Any:
        job = self.rows.get(op.job)
        if job is None or not job.gate:
            return intend(self, op)
        gate, job.gate = job.gate, ""
        try:
            return intend(self, op)
        finally:
            job.gate = gate

    patch.setitem(MemoryStore._DO, memory_calls.Intend, _intend)


@dataclass(frozen=True)
class Planted:
    bug: Callable[[Patch], None]
    most: int
    """Seeds within which it must be found: several times what it takes today."""

    faults: dict[str, float] | None = None
    """A mix in which it shows; None: whatever the seed draws."""

    def run(self, seed: int) -> None:
        if self.faults is None:
            run_seed(seed, "memory")
        else:
            simulate(CALL_WORKFLOWS, spending, seed=seed, faults=self.faults, providers=three)


DOUBT = {"reply lost": 0.5, "slow submit": 0.5, "listing lags": 0.8}
CLOCKS = DOUBT | {"worker clock jumps": 0.8}
SLOW = {"slow store": 0.3, "freeze": 0.3}
STOPS = {"drain": 0.5, "collect fails": 0.3, "slow store": 0.2}
STUCK = {"work is stuck": 0.5}

PLANTED = [
    Planted(take_an_early_listing_for_proof, 200, DOUBT),
    Planted(make_again_what_is_ambiguous, 200),
    Planted(send_too_late, 200, SLOW),
    Planted(sleep_through_the_end, 300, SLOW),
    Planted(free_holds_early, 100),
    Planted(believe_only_the_holder, 100),
    Planted(take_a_failed_poll_for_a_failure, 100),
    Planted(forget_to_cancel, 100, STUCK),
    Planted(believe_the_own_clock, 200, CLOCKS),
    Planted(forget_a_live_call, 300, STOPS),
    Planted(send_under_another_label, 200),
    Planted(do_not_book_what_was_lost, 300),
    Planted(pay_while_it_rests, 800),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.bug.__name__)
def test_a_planted_bug_is_found(
    planted: Planted, monkeypatch: Patch, record_property: Callable[[str, object], None]
) -> None:
    found: Violation | None = None
    taken = 0
    with monkeypatch.context() as patch:
        planted.bug(patch)
        for taken, seed in enumerate(islice(seeds_with_calls(), planted.most), start=1):  # noqa: B007
            try:
                planted.run(seed)
            except Violation as broken:
                found = broken
                break

    name = planted.bug.__name__
    assert found is not None, f"{name} was not found within {planted.most} seeds"
    record_property("simulation", f"planted: {name} found after {taken} seeds, by the rule: {found.rule}")
    planted.run(found.seed)
