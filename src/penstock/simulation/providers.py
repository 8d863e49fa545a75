"""The other side, simulated: places where work is done for money. They belong to the world, not to a process: what they
accepted goes on when the process that sent it is dead.

One for each guarantee: `batch` is findable, `function` dedups by label, `single` is repeatable and answers at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from penstock.engine.call import CallRow, Hold, label_of
from penstock.remote.protocol import Guarantee, Order

if TYPE_CHECKING:
    from penstock.simulation.world import World

SLOTS = "resource:slots"
"""What calls hold one of; a limit under this name is set and changed by the client."""

TOKENS = Hold("tokens:simulated", 3, most=12)


@dataclass(slots=True)
class Work:
    """One piece of work at the other side. Its fate is drawn when it is accepted; time alone brings it about, unless
    somebody cancels it first."""

    id: str
    label: str
    request: Any
    made: float
    shows: float
    known: float
    ends: float
    outcome: str
    charge: int
    result_lost: bool = False
    cancelled: float | None = None
    cancels: int = 0

    def state(self, now: float) -> str:
        if self.cancelled is not None and self.cancelled <= now and self.cancelled < self.ends:
            return "cancelled"
        return self.outcome if now >= self.ends else "running"

    def over(self) -> float:
        """When it ended, or will."""
        return self.ends if self.cancelled is None else min(self.ends, self.cancelled)

    def paid(self, now: float) -> int:
        return self.charge if self.state(now) == "succeeded" else 0


@dataclass(slots=True)
class Provider:
    """What it promises is in `submit_timeout` and `listing_margin`; labels for which it broke that are in the world's
    `broken`."""

    world: World
    name: str
    guarantee: Guarantee
    submit_timeout: float = 3.0
    listing_margin: float = 2.0
    poll_every: float = 0.5
    poll_at_most: float = 1.5
    overdue_after: float = 12.0
    works: dict[str, Work] = field(default_factory=dict)
    labels: dict[str, list[Work]] = field(default_factory=dict)
    wire: Counter[str] = field(default_factory=Counter)
    hidden: dict[str, float] = field(default_factory=dict)

    @property
    def now(self) -> float:
        return self.world.loop.time()

    def accept(self, order: Order) -> Work:
        """The moment from which money is spent."""
        if self.guarantee == "callee_dedup" and order.label in self.labels:
            return self.labels[order.label][0]
        rng, now = self.world.rng, self.now
        work = Work(
            id=f"{self.name}-{len(self.works) + 1}",
            label=order.label,
            request=order.request,
            made=now,
            shows=now,
            known=now,
            ends=now + rng.random() ** 2 * 8,
            outcome="succeeded",
            charge=rng.randint(1, 60),
        )
        if self.guarantee == "repeatable":
            work.ends = now
        else:
            self._draw_fate(work)
        self.works[work.id] = work
        self.labels.setdefault(order.label, []).append(work)
        self.world.note(self.name, "accepts", work.id, order.label[-6:], work.outcome, f"until={work.ends - now:.1f}")
        self.world.checker.calls.accepted(self, work)
        return work

    def _draw_fate(self, work: Work) -> None:
        hits, rng, now = self.world.faults.hits, self.world.rng, work.made
        if hits("listing lags"):
            work.shows = now + rng.random() * self.listing_margin
        if hits("not known yet"):
            work.known = now + rng.random() * 3
        elif hits("not known for long"):
            work.known = now + 10 + rng.random() * 20
        if hits("work is stuck"):
            work.ends = now + 15 + rng.random() * 120
        if hits("work fails"):
            work.outcome = "failed"
        elif hits("work expires"):
            work.outcome = "expired"
        work.result_lost = hits("result lost")
        if hits("listing incomplete for long"):
            self.hidden[work.label] = now + 20 + rng.random() * 60

    def cancel(self, work: Work) -> None:
        hits, now = self.world.faults.hits, self.now
        work.cancels += 1
        if work.cancelled is not None or now >= work.ends or hits("cancel ignored"):
            return
        late = self.world.rng.random() * 10 if hits("cancel late") else 0.0
        work.cancelled = now + late
        self.world.note(self.name, "will stop", work.id, f"in={late:.1f}")

    def of(self, label: str) -> Sequence[Work]:
        return self.labels.get(label, ())

    def everything(self) -> Sequence[Work]:
        return list(self.works.values())

    def wrong_at_home(self, row: CallRow) -> str | None:
        """What does not fit in what was brought home."""
        paid = [work.charge for work in self.of(label_of(row.id))]
        if row.cost not in paid:
            return f"it cost {paid}, and is booked as {row.cost}"
        result = from_json(row.result) if row.result else {}
        return None if result.get("label") == label_of(row.id) else f"it brought home {result}"

    def alive(self, label: str) -> list[Work]:
        """What runs under this label now."""
        now = self.now
        return [work for work in self.of(label) if work.state(now) == "running"]


def three(world: World) -> list[Provider]:
    """One of each guarantee, as the built-in scenario uses them."""
    return [
        Provider(world, "batch", "findable"),
        Provider(world, "function", "callee_dedup"),
        Provider(world, "single", "repeatable", listing_margin=0.1),
    ]
