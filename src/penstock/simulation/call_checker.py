"""Compares what the store says of remote calls with what the simulated providers know, after every transaction and
whenever a provider is asked for something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from pydantic_core import from_json

from penstock.engine.call import CallRow
from penstock.simulation import call_rules as rules
from penstock.simulation.call_rules import CallSeen
from penstock.simulation.providers import TOKENS, Provider, Work
from penstock.simulation.rules import Seen
from penstock.simulation.view import View
from penstock.simulation.world import World
from penstock.store.protocol import Control, Intend, Learn, Op, RetryBatch, SetBudget, TakeCalls, Tidy

ABOUT_CALLS = frozenset({Intend, Learn, TakeCalls, SetBudget, Tidy, Control, RetryBatch})
MOST_ATTEMPTS = 3
MOST_REPEATS = 5
WINDOW = 6.0
"""Seconds from the intent within which a simulated worker may send."""

TIME_TO_STOP = 45.0
"""Seconds of peace after which unwanted work was surely asked to stop."""

_PREFIX = len("penstock-")
_columns = attrgetter(*CallSeen._fields)


class CallChecker:
    """One for each run."""

    def __init__(self, world: World, view: View) -> None:
        self._world = world
        self._view = view
        self._seen: dict[str, CallSeen] = {}
        self._intended: dict[str, float] = {}
        self._unwanted: dict[str, float] = {}
        self._overruled: set[str] = set()
        self._looks_after: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()

    def unsettled(self, job: str | None = None) -> list[CallRow]:
        """Calls that somebody must still look at."""
        soon = self._world.store_clock.now() + 60.0
        return [
            row
            for row in self._view.calls.values()
            if (row.state in rules.UNSETTLED or (row.state in rules.ENDS and row.due is not None and row.due < soon))
            and (job is None or row.job == job)
        ]

    def after(self, ops: Sequence[Op], answers: Sequence[Any], earlier: Callable[[str], Seen | None]) -> None:
        """Called when a transaction was made that may have changed calls. `earlier`: what a job was before it."""
        decisions = {op.fact.call: op.fact.kind for op in ops if type(op) is Learn and op.fact.kind in rules.DECIDED}
        begun: list[tuple[CallRow, bool]] = []
        changed = False
        for row in self._view.calls.values():
            before = self._seen.get(row.id)
            if before is not None and _columns(row) == before:
                continue
            changed = True
            for wrong in rules.shape(row):
                self._world.fail("a call's shape", f"call {row.id}: {wrong}")
            self._check_change(before, row, decisions.get(row.id))
            if row.submit_before is not None and (before is None or before.submit_before != row.submit_before):
                self._intended[row.id] = self._world.loop.time()
                begun.append((row, before is None or before.state not in rules.KEEPING))
            if row.unwanted and not (before and before.unwanted):
                self._unwanted[row.id] = self._world.loop.time()
            self._seen[row.id] = CallSeen._make(_columns(row))
        self._check_begun(begun, earlier)
        if changed or any(type(op) is SetBudget for op in ops):
            self._check_spent({op.scope for op in ops if type(op) is SetBudget})
        for op, answer in zip(ops, answers, strict=True):
            if type(op) is TakeCalls and isinstance(answer, list):
                self._looked(answer)

    def _check_change(self, before: CallSeen | None, row: CallRow, decision: str | None) -> None:
        where = f"{row.remote} {row.key}#{row.attempt}"
        self._world.note("store", "call", row.id[-6:], where, row.state, "unwanted" if row.unwanted else "")
        for wrong in rules.change(before, row, decision):
            self._world.fail("a call's legal changes", f"call {row.id} ({where}): {wrong}")
        if decision == "resubmit":
            self._overruled.add(row.id)
        if before is not None and before.state == row.state:
            return
        provider = self._world.providers[row.remote]
        label = _label(row)
        if row.state == "lost" and provider.guarantee != "repeatable" and not _given_up(provider, row):
            self._world.fail("a remote's guarantee", f"call {row.id} ({where}) can be looked up, and is {row.state}")
        if row.state in ("absent", "failed", "expired", "cancelled") and decision is None:
            if label in self._world.broken or row.id in self._overruled:
                return
            if (alive := provider.alive(label)) or (row.state == "absent" and provider.wire[label]):
                self._world.fail(
                    "absence is not death",
                    f"call {row.id} ({where}) is {row.state}, and {provider.name} has"
                    f" {[work.id for work in alive] or 'it on the wire'}",
                )
            if row.state == "absent" and provider.of(label):
                self._world.fail("absence is not death", f"call {row.id} ({where}) is absent, and was accepted")
        if row.state == "collected" and (misfit := provider.wrong_at_home(row)):
            self._world.fail("nothing is lost", f"call {row.id} ({where}): {misfit}")

    def _check_begun(self, begun: list[tuple[CallRow, bool]], earlier: Callable[[str], Seen | None]) -> None:
        if not begun:
            return
        held = rules.held(self._view.calls.values())
        for row, admitted in begun:
            for wrong in rules.begins(row, earlier(row.job), most=MOST_ATTEMPTS + MOST_REPEATS):
                self._world.fail("gates", f"call {row.id}: {wrong}")
            names = [name for name, _ in from_json(row.holds)] if admitted else []
            for wrong in rules.over_limit(held, names, self._view.limits, {TOKENS.name: TOKENS.most or 0}):
                self._world.fail("limits", wrong)
            for wrong in rules.over_budget(held, names, self._view.budgets):
                self._world.fail("budgets", wrong)

    def _check_spent(self, touched: set[str]) -> None:
        """What a budget has spent grows by what its calls cost."""
        cost: Counter[str] = Counter()
        for row in self._view.calls.values():
            if row.cost:
                for name, _ in from_json(row.holds):
                    if name.startswith("budget:"):
                        own = name.startswith("budget:job:")
                        cost[f"job:{row.job}" if own else name.removeprefix("budget:")] += row.cost
        for scope, budget in self._view.budgets.items():
            if scope in touched or scope not in self._spent:
                self._spent[scope] = budget.spent - cost[scope]
            elif budget.spent - cost[scope] != self._spent[scope]:
                self._world.fail(
                    "budgets", f"{scope} has spent {budget.spent}; its calls cost {cost[scope] + self._spent[scope]}"
                )
        for scope in [scope for scope in self._spent if scope not in self._view.budgets]:
            del self._spent[scope]

    def _looked(self, rows: Sequence[CallRow]) -> None:
        """A worker took these to look at them."""
        for row in rows:
            if row.state in rules.ENDS:
                self._looks_after[row.id] += 1
                if self._looks_after[row.id] > rules.MOST_LOOKS_AFTER_THE_END:
                    self._world.fail("every loop is bounded", f"call {row.id} is {row.state}, and still looked for")

    def sent(self, provider: Provider, label: str) -> None:
        """A request leaves a process: it was recorded before, and in time."""
        row = self._view.calls.get(label[_PREFIX:])
        if row is None or row.id not in self._intended:
            self._world.fail("intent before money", f"{label} is sent to {provider.name}, and no intent is stored")
        late = self._world.loop.time() - self._intended[row.id] - WINDOW
        if late > 1e-6:
            self._world.fail("intent before money", f"call {row.id} is sent {late:.1f} s after its window")

    def accepted(self, provider: Provider, work: Work) -> None:
        """Money begins to be spent: never twice for what is wanted once."""
        row = self._view.calls[work.label[_PREFIX:]]
        if provider.guarantee == "repeatable":
            if len(provider.of(work.label)) > 1:
                self._world.fail("a remote's guarantee", f"call {row.id} is one attempt and was made twice")
            return
        now = provider.now
        siblings = [other for other in self._view.calls.values() if (other.job, other.key) == (row.job, row.key)]
        if any(other.id in self._overruled or _label(other) in self._world.broken for other in siblings):
            return
        for other in siblings:
            for one in provider.of(_label(other)):
                state = one.state(now)
                if one.id != work.id and (state == "running" or (state == "succeeded" and not one.result_lost)):
                    self._world.fail(
                        "a remote's guarantee",
                        f"call {row.key!r} of job {row.job}: {provider.name} accepts {work.id} as #{row.attempt},"
                        f" and {one.id} (#{other.attempt}) is {state}",
                    )

    def clock_jumped(self) -> None:
        """The store's clock went forward: what it had promised about times does not hold for calls on their way."""
        for row in self._view.calls.values():
            if row.state in ("intent", "unsent"):
                self._world.broken.add(_label(row))

    def at_the_end(self) -> None:
        """Nothing is lost, nothing runs on, and what was paid is booked."""
        self._view.refresh()
        if left := [row for row in self._view.calls.values() if row.state in rules.UNSETTLED]:
            self._world.fail("liveness", f"calls are left: {[(row.id, row.state) for row in left]}")
        for provider in self._world.providers.values():
            for work in provider.everything():
                self._check_work(provider, work, self._view.calls[work.label[_PREFIX:]])

    def _check_work(self, provider: Provider, work: Work, row: CallRow) -> None:
        state = work.state(provider.now)
        decided = row.state in ("quarantined", "discarded") or row.id in self._overruled
        since = self._unwanted.get(row.id)
        if since is not None and not decided and not work.cancels and row.state != "lost":
            peace = max(since, self._world.peace)
            if work.over() - peace > TIME_TO_STOP:
                self._world.fail(
                    "cancel", f"{work.id} went on until {work.over() - peace:.0f} s after nobody wanted it"
                )
        if decided:
            return
        if state == "running" and row.state not in ("lost", "unsent"):
            self._world.fail("cancel", f"all is over, and {work.id} still runs for call {row.id}, which is {row.state}")
        if state != "succeeded" or _label(row) in self._world.broken or len(provider.of(work.label)) > 1:
            return
        if row.state == "collected" or (row.state == "failed" and work.result_lost):
            if row.cost < work.charge:
                self._world.fail("nothing is lost", f"{work.id} cost {work.charge}; call {row.id} says {row.cost}")
        elif row.state == "lost":
            if row.cost not in (row.estimate, work.charge):
                self._world.fail("nothing is lost", f"{work.id} cost {work.charge}; call {row.id} says {row.cost}")
        elif not (provider.guarantee == "callee_dedup" and row.state == "unsent"):
            self._world.fail("nothing is lost", f"{work.id} was paid for, and call {row.id} is {row.state}")


def _given_up(provider: Provider, row: CallRow) -> bool:
    """Nobody will send it again, and it cannot be looked for: it counts as paid."""
    return provider.guarantee == "callee_dedup" and bool(row.unwanted)


def _label(row: CallRow) -> str:
    return f"penstock-{row.id}"
