"""What must hold of requests that somebody answers for: each is done at most once however often it is asked, is
answered alike, and stands in the audit log exactly once if it was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from penstock.simulation.view import View
from penstock.simulation.world import World
from penstock.store.protocol import Asked, BatchRow, Op, OpenBatch, RetryBatch, Submit


class RecordChecker:
    """Requests are told apart by their actor, who asks for nothing else. Other actors are left alone: what they ask
    for may be anything."""

    def __init__(self, world: World, view: View) -> None:
        self._world = world
        self._view = view
        self._entries: Counter[str] = Counter()
        self._made: dict[str, set[str]] = {}
        self._answers: dict[str, list[str]] = {}

    def new_actor(self) -> str:
        """For one request of a client, and for every time that it is asked again."""
        name = f"client {len(self._made) + 1}"
        self._made[name] = set()
        return name

    def after(self, ops: Sequence[Op], answers: Sequence[Any], *, replay: bool) -> None:
        """Called when a transaction was made in which somebody asked for something."""
        entries = self._view.audited()
        for op, answer in zip(ops, answers, strict=True):
            if type(op) is not Asked or op.audit is None or op.audit.actor not in self._made:
                continue
            name, refused = op.audit.actor, isinstance(answer, BaseException)
            self._check_made(name, op)
            if not refused and entries[name] != 1:
                self._world.fail("audit", f"the request of {name} was done and has {entries[name]} entries")
            if refused and not replay and entries[name] != self._entries[name]:
                self._world.fail("audit", f"the request of {name} was refused ({answer!r}) and has an entry")
            if not refused:
                self._check_answer(name, answer)
        self._entries = entries

    def _check_made(self, name: str, op: Asked) -> None:
        made, asked = self._made[name], op.op
        if isinstance(asked, Submit):
            made.update(new.id for new in asked.jobs if new.id in self._view.rows)
        elif isinstance(asked, OpenBatch | RetryBatch):
            batch = asked.id if isinstance(asked, OpenBatch) else asked.new_id
            made.update([batch] if batch in self._view.batches else [])
        most = len(asked.jobs) if isinstance(asked, Submit) else 1
        if len(made) > most:
            self._world.fail("once", f"the request of {name} was for {most}, and made {sorted(made)}")

    def _check_answer(self, name: str, answer: Any) -> None:
        if isinstance(answer, BatchRow):
            told = [answer.id]
        elif isinstance(answer, list):
            told = [submitted.job_id for submitted in answer]
        else:
            return
        if self._answers.setdefault(name, told) != told:
            self._world.fail("once", f"the request of {name} was answered {self._answers[name]}, and then {told}")

    def at_the_end(self) -> None:
        entries = self._view.audited()
        for name in self._made:
            if entries[name] != self._entries[name] or entries[name] > 1:
                self._world.fail(
                    "audit", f"the request of {name} had {self._entries[name]} entries, has {entries[name]}"
                )
