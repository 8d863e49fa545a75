"""The simulated world: its dice, its trace of what happened, and what steps may do in it.

`effect`, `tally`, `enter` and `expect` are for steps. Outside a simulation they do nothing (`tally` counts), so
production code may keep them.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.engine.context import Context
from penstock.simulation.clock import SimClock
from penstock.simulation.faults import Faults
from penstock.simulation.loop import OWNER, VirtualLoop

if TYPE_CHECKING:
    from penstock.simulation.checker import Checker
    from penstock.simulation.providers import Provider

SHOWN = 120
"""Lines of the trace that a violation prints."""


class Violation(AssertionError):
    """A rule was broken. `rule` names it, `whole_trace` is everything that happened."""

    def __init__(
        self, rule: str, message: str, *, seed: int, store: str = "memory", whole_trace: tuple[str, ...] = ()
    ) -> None:
        super().__init__(rule, message)
        self.rule = rule
        self.message = message
        self.seed = seed
        self.store = store
        self.whole_trace = whole_trace

    @property
    def trace(self) -> tuple[str, ...]:
        """The last events before."""
        return self.whole_trace[-SHOWN:]

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.rule}: {self.message}\n  replay: {self.replay}"

    @property
    def replay(self) -> str:
        """The command that runs this very seed again (of the built-in scenario)."""
        return f"python -m penstock.simulation --seed {self.seed} --store {self.store} --trace"


class Machine:
    """One simulated operating-system process: it can die, freeze, and have a wrong clock."""

    def __init__(self, world: World, name: str, *, mortal: bool = True) -> None:
        self.world = world
        self.name = name
        self.mortal = mortal
        self.clock = SimClock(world.loop)
        self.dead = False
        self.frozen_until = 0.0
        self.muted_until = 0.0
        self.context = world.context.copy()
        self.context.run(OWNER.set, self)

    def crash(self, why: str) -> None:
        """Like `kill -9`: nothing of this process is run any more."""
        if not self.dead:
            self.world.note(self.name, "dies", why)
            self.dead = True
            self.world.on_death(self)

    async def die(self, why: str) -> NoReturn:
        self.crash(why)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("a dead process went on")


class World:
    """What all simulated processes share."""

    checker: Checker

    def __init__(self, seed: int, store: str, loop: VirtualLoop, chances: dict[str, float], rng: random.Random) -> None:
        self.seed = seed
        self.store = store
        self.loop = loop
        self.rng = rng
        self.faults = Faults(rng, chances)
        self.store_clock = SimClock(loop)
        self.context = contextvars.copy_context()
        self.trace: list[tuple[Any, ...]] = []
        self.effects: Counter[str] = Counter()
        self.tallies = 0
        self.on_death: Callable[[Machine], None] = lambda machine: None
        self.outage_until = 0.0
        self.providers: dict[str, Provider] = {}
        self.broken: set[str] = set()
        """Labels of calls for which a promise about time was broken: by a provider, or by the store's clock."""
        self.folder = Path("simulated")
        self.peace = math.inf
        """When the trouble ended."""

    def note(self, who: str, *what: Any) -> None:
        self.trace.append((self.loop.time(), who, *what))

    def fail(self, rule: str, message: str) -> NoReturn:
        """A rule is broken: the run ends here, whatever the code under test catches."""
        self.note("rules", "broken:", rule, message)
        error = self.violation(rule, message)
        self.loop.abort(error)
        raise error

    def violation(self, rule: str, message: str) -> Violation:
        return Violation(rule, message, seed=self.seed, store=self.store, whole_trace=tuple(self.told()))

    def told(self) -> list[str]:
        """The trace as lines to read, times counted from the beginning."""
        start = self.trace[0][0] if self.trace else 0.0
        return [f"{at - start:10.3f}  {who:<9} {' '.join(str(part) for part in what)}" for at, who, *what in self.trace]

    def digest(self) -> str:
        """Two runs of a seed have the same."""
        return hashlib.blake2b("\n".join(map(repr, self.trace)).encode(), digest_size=16).hexdigest()

    async def jitter(self) -> None:
        """A moment, or none at all: what makes one seed's order of events differ from another's."""
        if self.rng.random() < 0.6:
            await asyncio.sleep(self.rng.random() * 0.05)

    async def do_effect(self, machine: Machine, name: str, key: str) -> None:
        if self.faults.hits("crash before effect"):
            await machine.die(f"before effect {name} {key}")
        await self.jitter()
        self.effects[name] += 1
        self.note(machine.name, "effect", name, key)
        if self.faults.hits("crash after effect"):
            await machine.die(f"after effect {name} {key}")
        await self.jitter()


def here() -> Machine | None:
    """The simulated process whose code is running, if any."""
    owner = OWNER.get()
    return owner if isinstance(owner, Machine) else None


async def effect(name: str, key: str = "") -> None:
    """Say that a step acts on the outside world: now and then the simulator kills the process just before or after."""
    machine = here()
    if machine is not None:
        await machine.world.do_effect(machine, name, key)


def tally(ctx: Context, **amounts: int) -> None:
    """`ctx.count`, and a row that says so in the same commit: the simulator compares the two."""
    machine = here()
    ctx.count(**amounts)
    if machine is not None:
        world = machine.world
        world.tallies += 1
        for name, amount in amounts.items():
            ctx.write(world.checker.view.tally_row(ctx.job.id, world.tallies, name, amount))


def enter(ctx: Context, lock: str) -> None:
    """Say that the job is now inside what the lock protects, until it frees the lock or ends: no other job may be."""
    machine = here()
    if machine is not None:
        row = ctx._row
        machine.world.checker.entered(row.id, row.epoch, lock)


def expect(holds: bool, message: str) -> None:
    """A rule of the pipeline's own: ends a simulation with a `Violation` where it does not hold."""
    machine = here()
    if not holds and machine is not None:
        machine.world.fail("the pipeline's own", message)
