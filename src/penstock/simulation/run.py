"""One run: a seed, a store, workers, a scenario; trouble for a while, then peace, and every job must end."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.app import Penstock
from penstock.engine.engine import Engine
from penstock.engine.errors import PenstockError, StoreError
from penstock.engine.workflow import Workflow
from penstock.remote.protocol import Remote
from penstock.simulation.broker import Broker
from penstock.simulation.call_client import decide
from penstock.simulation.checker import Checker
from penstock.simulation.faults import drawn
from penstock.simulation.handle import FaultyStore
from penstock.simulation.loop import Stuck, VirtualLoop
from penstock.simulation.process import KINDS, Plan, Process, Remotes, planned
from penstock.simulation.providers import Provider
from penstock.simulation.remotes import SimulatedRemote
from penstock.simulation.steps import troubled
from penstock.simulation.view import view_of
from penstock.simulation.world import Machine, Violation, World
from penstock.store.memory import MemoryStore
from penstock.store.protocol import Store
from penstock.store.sql.sqlite import SqliteStore

START = 1_800_000_000.0
Scenario = Callable[[Penstock, World], Awaitable[None]]
"""What the simulated client does: it gets the real `Penstock`, and the world for its dice (`world.rng`)."""


@dataclass(slots=True)
class Report:
    """What a run was like."""

    seed: int
    store: str
    jobs: int = 0
    transactions: int = 0
    seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    digest: str = ""
    trace: list[str] = field(default_factory=list)


def simulate(
    workflows: Sequence[Workflow],
    scenario: Scenario,
    *,
    seed: int,
    store: str = "memory",
    faults: dict[str, float] | None = None,
    workers: int | None = None,
    trouble: float = 40.0,
    patience: float = 900.0,
    trace: bool = False,
    make_store: Callable[[World], Store] | None = None,
    providers: Callable[[World], Sequence[Provider]] | None = None,
    remotes: Remotes | None = None,
    folder: Path | None = None,
) -> Report:
    """Run `scenario` against `workflows` in a world made from `seed`, or raise `Violation`.

    `faults` gives each fault of `faults.RANGES` its probability; None draws them from the seed. After about `trouble`
    seconds of virtual time nothing goes wrong any more, paused jobs are let go, and every job must be final within
    `patience` seconds. `providers` (such as `providers.three`) is where steps may make remote calls, by name; `remotes`
    gives each process remotes of your own instead, and `folder` is where calls bring files home.
    """
    rng = random.Random(seed)
    loop = VirtualLoop(START)  # type: ignore[abstract]  # sockets and subprocesses are what it lacks on purpose
    world = World(seed, store, loop, drawn(rng, remote=providers is not None) if faults is None else faults, rng)
    if providers is not None:
        world.providers = {provider.name: provider for provider in providers(world)}
        remotes = remotes or _simulated
    report = Report(seed, store)
    if folder is not None:
        world.folder = folder
    world.note("world", "seed", seed, store)
    with (
        _deaf(world),
        _no_collector(),
        tempfile.TemporaryDirectory(dir=_quick_folder()) if store == "sqlite" else _nowhere() as place,
    ):
        shared: Store
        if make_store is not None:
            shared = make_store(world)
        elif store == "sqlite":
            shared = SqliteStore(Path(place or ".") / "simulated.db", clock=world.store_clock, inline=True)
        else:
            shared = MemoryStore(world.store_clock)
        run = _Run(world, shared, [troubled(workflow) for workflow in workflows], workers, trouble, patience, remotes)
        try:
            loop.run_until_complete(run.all(scenario))
        except Stuck as error:
            raise world.violation("liveness", str(error)) from error
        finally:
            loop.close()
        report.jobs, report.transactions = world.checker.jobs, world.checker.transactions
        report.statuses = Counter(row.status for row in world.checker.view.rows.values())
    report.seconds = loop.time() - START
    report.faults, report.effects = world.faults.counts, world.effects
    if trace:
        report.digest, report.trace = world.digest(), world.told()
    return report


class _Run:
    def __init__(
        self,
        world: World,
        store: Store,
        workflows: Sequence[Workflow],
        workers: int | None,
        trouble: float,
        patience: float,
        remotes: Remotes | None,
    ) -> None:
        self._remotes = remotes
        self._world = world
        self._store = store
        self._workflows = workflows
        self._queues = tuple(sorted({workflow.queue for workflow in workflows}))
        self._trouble = trouble * (0.3 + world.rng.random())
        self._patience = patience
        self._broker = Broker(world, self._queues)
        self._processes: dict[str, Process] = {}
        self._plans = self._draw_plans(workers)
        self._ending = False

    def _draw_plans(self, workers: int | None) -> list[Plan]:
        rng = self._world.rng
        count = workers or rng.choice([1, 2, 2, 3, 3, 4])
        mixed = rng.random() < 0.4
        kind = rng.choice(KINDS)
        return [planned(rng, f"w{n}", rng.choice(KINDS) if mixed else kind) for n in range(1, count + 1)]

    async def all(self, scenario: Scenario) -> None:
        world = self._world
        await self._store.open()
        world.checker = Checker(world, view_of(self._store))
        world.on_death = self._buried
        for plan in self._plans:
            self._start(plan, 1)
        client = Machine(world, "client", mortal=False)
        app = self._client(client)
        work = world.loop.create_task(self._play(scenario, app), name="scenario", context=client.context)
        chaos = world.loop.create_task(self._chaos(), name="chaos")
        end = world.loop.time() + self._trouble
        while world.loop.time() < end and not (work.done() and not world.checker.unfinished):
            await world.store_clock.sleep(0.5)
        world.faults.stop()
        world.peace = world.loop.time()
        world.note("world", "trouble is over")
        await asyncio.wait([work], timeout=self._patience)
        if not work.done():
            world.fail("liveness", f"the scenario goes on {self._patience:g} s after the last fault")
        work.result()
        chaos.cancel()
        await self._until_quiet(app)
        await self._go_home()
        world.checker.at_the_end()
        await self._store.close()

    def _client(self, machine: Machine) -> Penstock:
        store = FaultyStore(self._store, machine, self._broker)
        rng = random.Random(self._world.rng.getrandbits(64))
        app = Penstock(workflows=self._workflows, store=store)
        app._engine = Engine(store, self._workflows, clock=machine.clock, rng=rng, name="client", threads=False)
        app._engine.on_hint(self._broker.publish)
        return app

    async def _play(self, scenario: Scenario, app: Penstock) -> None:
        await scenario(app, self._world)

    def _start(self, plan: Plan, life: int) -> None:
        self._processes[plan.name] = Process(
            self._world, plan, life, self._store, self._broker, self._workflows, self._queues, self._remotes
        )

    def _buried(self, machine: Machine) -> None:
        self._broker.forget(machine)
        for process in self._processes.values():
            if process.machine is machine:
                self._restart_later(process)

    def _restart_later(self, process: Process) -> None:
        delay = self._world.rng.random() ** 2 * 15
        self._world.loop.call_later(delay, self._restart, process, context=self._world.context)

    def _restart(self, process: Process) -> None:
        if not self._ending:
            self._start(process.plan, process.life + 1)

    async def _chaos(self) -> None:
        """What happens to processes and clocks from outside."""
        world = self._world
        while True:
            await asyncio.sleep(0.2 + world.rng.expovariate(1.0))
            process = world.rng.choice(list(self._processes.values()))
            if (wrong := process.alive and process.ailing()) is not None and wrong:
                world.fail("liveness", str(wrong))
            if process.alive:
                self._trouble_for(process)
            if world.faults.hits("store clock jumps"):
                seconds = world.rng.choice([0.5, 4.0, 20.0, -0.2, -1.0])
                world.note("store", "clock jumps", seconds)
                world.store_clock.jump(seconds)
                if seconds > 0:
                    world.checker.calls.clock_jumped()
            if world.faults.hits("outage"):
                seconds = world.rng.choice([5.0, 30.0, 240.0])
                world.note("store", "is away for", seconds)
                world.outage_until = world.loop.time() + seconds

    def _trouble_for(self, process: Process) -> None:
        world, machine = self._world, process.machine
        hits, rng, now = world.faults.hits, world.rng, world.loop.time()
        if hits("crash"):
            machine.crash("killed")
            return
        if hits("drain"):
            world.note(machine.name, "is asked to stop")
            process.stop()
            process.task.add_done_callback(lambda task: self._restart_later(process), context=world.context)
        if hits("freeze"):
            machine.frozen_until = now + rng.choice([0.5, 4.0, 20.0])
            world.note(machine.name, "freezes until", machine.frozen_until)
        if hits("heartbeat lost"):
            machine.muted_until = now + rng.choice([2.0, 10.0, 30.0])
            world.note(machine.name, "loses its heartbeat until", machine.muted_until)
        if hits("worker clock jumps"):
            seconds = rng.choice([-30.0, -2.0, 2.0, 60.0, 3600.0])
            machine.clock.jump(seconds)
            world.note(machine.name, "clock jumps", seconds)

    async def _until_quiet(self, app: Penstock) -> None:
        """Peace: paused jobs are let go, and all must end in time."""
        world = self._world
        end = world.loop.time() + self._patience
        while (unfinished := world.checker.unfinished) or world.checker.calls.unsettled():
            for process in self._processes.values():
                if (wrong := process.alive and process.ailing()) is not None and wrong:
                    world.fail("liveness", str(wrong))
            for job, seen in list(unfinished.items()):
                if seen.status == "paused" and not world.checker.calls.unsettled(job):
                    await _asked(app.resume(job))
            if world.providers:
                await decide(app, world)
            if world.loop.time() > end:
                hanging = [
                    f"{job} ({seen.status}, step {seen.step}, held by {seen.worker})"
                    for job, seen in unfinished.items()
                ] + [f"call {row.id} ({row.state})" for row in world.checker.calls.unsettled()]
                world.fail("liveness", f"{self._patience:g} s after the last fault these hang: {', '.join(hanging)}")
            await asyncio.sleep(1.0)

    async def _go_home(self) -> None:
        """Everybody stops in good order; who was frozen or dead is not waited for."""
        self._ending = True
        alive = [process for process in self._processes.values() if process.alive]
        for process in alive:
            process.stop()
        await asyncio.wait([process.task for process in alive], timeout=600) if alive else None
        for process in alive:
            if not process.task.done():
                self._world.fail("liveness", f"{process.machine.name} does not stop")
            process.task.result()


def _simulated(machine: Machine) -> list[Remote]:
    return [SimulatedRemote(provider, machine) for provider in machine.world.providers.values()]


async def _asked(request: Awaitable[object]) -> None:
    try:
        await request
    except PenstockError:
        return


@contextmanager
def _deaf(world: World) -> Iterator[None]:
    """The engine's log is of no use in a run, but for errors of its own, which nothing may cause."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if error is not None and not isinstance(error, Violation | StoreError):
                world.loop.abort(world.violation("an error of the engine's own", f"{record.getMessage()}: {error!r}"))

    log = logging.getLogger("penstock")
    before = (log.level, log.propagate)
    listener = Listener()
    log.addHandler(listener)
    log.setLevel(logging.ERROR)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(listener)
        log.setLevel(before[0])
        log.propagate = before[1]


@contextmanager
def _no_collector() -> Iterator[None]:
    """The collector would finish dead processes' coroutines at a moment of its own."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def _nowhere() -> Iterator[str | None]:
    yield None


def _quick_folder() -> str | None:
    """Memory where there is some: nothing of a simulation must outlive it."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
