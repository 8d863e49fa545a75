"""A town: the pages pipeline, its store and the local Gemini, whole, in virtual time. Its processes can be killed at
any commit, request or file operation, and thirty hours pass in a moment."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import logging
import os
import random
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import httpx2

from penstock.app import Penstock
from penstock.delivery.embedded import Embedded
from penstock.engine.engine import Engine
from penstock.engine.errors import PenstockError
from penstock.engine.model import Job
from penstock.gemini_local.app import create_app, inline_call
from penstock.gemini_local.backends.script import ScriptBackend
from penstock.gemini_local.batches import in_blob
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.settings import Pace, Settings
from penstock.outputs.ledger import Outputs
from penstock.pipelines.pages import asking
from penstock.pipelines.pages.model import Run
from penstock.pipelines.pages.workflow import pages
from penstock.remote.desk import CallDesk
from penstock.remote.gemini.batch import GeminiBatch
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.settings import GeminiSettings
from penstock.remote.prices import load_prices
from penstock.remote.tending import Pace as CallPace
from penstock.simulation.clock import SimClock
from penstock.simulation.loop import OWNER, VirtualLoop
from penstock.store.protocol import Applied, Commit, Intend, Learn, Op, TakeLock
from penstock.store.sql.sqlite import SqliteStore
from tests.support.pages import SCRIPT, Library

T = TypeVar("T")

START = 1_800_000_000.0

GEMINI = GeminiSettings(
    base_url="http://127.0.0.1:9",
    connect_timeout=1.0,
    request_timeout=3.0,
    create_timeout=2.0,
    chunk_timeout=5.0,
    transfer_timeout=20.0,
    attempts=2,
    retry_base=0.1,
    upload_parallel=2,
    listing_margin=2.0,
    poll_every=0.5,
    poll_at_most=1.5,
)

COUNTED = (Commit, Intend, Learn, TakeLock)
"""A transaction of one of these decides something; the others ask, claim or say that a worker lives."""


class Killed(BaseException):
    """Ends what a process is doing when it dies in the midst of something that blocks."""


class Life:
    """One process, from its start to its end: what belongs to it is not run any more once it is dead."""

    def __init__(self, town: Town, name: str) -> None:
        self.town = town
        self.name = name
        self.dead = False
        self.frozen_until = 0.0
        self.points: Counter[str] = Counter()
        self.ends: tuple[str, int] | None = None
        """The point at which it is killed: a kind of point, and which of them."""
        self.freezes: tuple[str, int] | None = None
        """The point at which it stands still for a while, and others take it for dead."""
        self.context = town.context.copy()
        self.context.run(OWNER.set, self)
        self.engine: Engine
        self.delivery: Embedded

    def reached(self, kind: str) -> bool:
        """Whether it is to die here."""
        self.points[kind] += 1
        if not self.dead and self.ends == (kind, self.points[kind]):
            self.kill()
        return self.dead

    def kill(self) -> None:
        """As `kill -9` does."""
        self.dead = True
        self.town.buried(self)

    async def pass_by(self, kind: str) -> None:
        if self.reached(kind):
            await _for_ever()
        if self.freezes == (kind, self.points[kind]):
            self.frozen_until = self.town.loop.time() + self.town.tempo.frozen_for
            self.town.start_later()
            await asyncio.sleep(0)


async def _for_ever() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("a dead process went on")


class _LifesStore:
    """A process's connection to the town's store."""

    def __init__(self, inner: SqliteStore, life: Life) -> None:
        self._inner = inner
        self._life = life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def apply(self, ops: Sequence[Op], *, replay: bool = False) -> Applied:
        decides = any(isinstance(op, COUNTED) for op in ops)
        if decides:
            await self._life.pass_by("before commit")
        applied = await self._inner.apply(ops, replay=replay)
        if applied.hints:
            self._life.town.announce(self._life, set(applied.hints))
        if decides:
            await self._life.pass_by("after commit")
        return applied

    def on_change(self, listener: Callable[[set[str]], None]) -> Callable[[], None]:
        return self._life.town.listen(self._life, listener)


class _Wire(httpx2.AsyncBaseTransport):
    """A process's way to Gemini. What was sent is answered, also when the sender is dead by then."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._inner = httpx2.ASGITransport(life.town.gemini)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        await self._life.pass_by("before request")
        town = self._life.town
        serving = town.loop.create_task(self._serve(request), context=town.context.copy())
        serving.add_done_callback(lambda task: task.cancelled() or task.exception())
        response = await asyncio.shield(serving)
        await self._life.pass_by("after request")
        return response

    async def _serve(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._inner.handle_async_request(request)
        finally:
            self._life.town.notice_batches()


@dataclass(slots=True, kw_only=True)
class Tempo:
    """How often processes look at things, in seconds of the town's time."""

    lease: float = 3.0
    sweep_every: float = 2.0
    restart_after: float = 0.5
    frozen_for: float = 15.0
    pace: Pace = field(default_factory=lambda: Pace(pending_for=0.3, running_for=0.4, expires_after=3600.0))


class Town:
    """Processes, a store and a Gemini that share one virtual clock. `plan` says where the first, second, … process
    dies; another takes its place, as when the first one stands still (`freezes`). `gemini` are settings of their
    client. `app` asks and never works.

        with town_of({"Ohio/Oberlin/1850": [1, 2]}) as (town, library):
            job = town.play(town.whole_run(library.run()))
    """

    def __init__(
        self,
        root: Path,
        *,
        faults: Sequence[Mapping[str, Any]] = (),
        plan: Sequence[tuple[str, int]] = (),
        freezes: tuple[str, int] | None = None,
        processes: int = 1,
        tempo: Tempo | None = None,
        gemini: Mapping[str, Any] | None = None,
        seed: int = 1,
    ) -> None:
        self.root = root
        self.settings = GEMINI.model_copy(update=dict(gemini or {}))
        self.plan = list(plan)
        self.freezes = freezes
        self.tempo = tempo or Tempo()
        self.processes = processes
        self.rng = random.Random(seed)
        self.loop = VirtualLoop(START)  # type: ignore[abstract]  # sockets and subprocesses are what it lacks on purpose
        self.context = contextvars.copy_context()
        self.clock = SimClock(self.loop)
        self.lives: list[Life] = []
        self.keys: dict[str, list[str]] = {}
        """The keys of every batch that was ever made at Gemini, by its id."""
        self.written: dict[tuple[str, int], set[bytes]] = defaultdict(set)
        """Every content that was ever seen for (page, batch)."""
        self.watched: Path | None = None
        """Operations on files below it are points where a process can die."""
        self._listeners: list[tuple[Life, Callable[[set[str]], None]]] = []
        self._faults = [Fault.parse(dict(fault)) for fault in faults]
        self._ending = False
        self.app: Penstock
        self.store: SqliteStore

    @contextmanager
    def opened(self) -> Iterator[Town]:
        quiet = logging.getLogger("penstock")
        level, was = quiet.level, gc.isenabled()
        quiet.setLevel(logging.CRITICAL)
        # The collector would finish dead processes' coroutines at a moment of its own.
        gc.disable()
        _watch_files(self)
        (self.root / "town.db").write_bytes(_empty_store())
        try:
            self.play(self._open())
            yield self
            self.play(self._close())
        finally:
            _watch_files(None)
            with warnings.catch_warnings():
                # What dead processes were about to do is thrown away unfinished.
                warnings.simplefilter("ignore", RuntimeWarning)
                self.loop.close()
            quiet.setLevel(level)
            if was:
                gc.enable()

    def play(self, scenario: Awaitable[T]) -> T:
        async def played() -> T:
            return await scenario

        result: T = self.loop.run_until_complete(played())
        return result

    async def _open(self) -> None:
        self.gemini = create_app(
            self.root / "gemini",
            ScriptBackend(sleep=self.clock.sleep),
            clock=self.clock,
            rng=random.Random(self.rng.getrandbits(64)),
            settings=Settings(pace=self.tempo.pace),
            in_thread=inline_call,
        )
        self.script(SCRIPT)
        self.faults(*self._faults)
        await self.gemini.start()
        self.store = SqliteStore(self.root / "town.db", clock=self.clock, inline=True)
        await self.store.open()
        self.client = Life(self, "client")
        self.app = Penstock(workflows=[pages], store=self.store)
        self.app._engine = self._engine(self.client, lease=1e6)
        for _ in range(self.processes):
            self.start()

    async def _close(self) -> None:
        self._ending = True
        for life in self.lives:
            if not life.dead:
                await life.delivery.stop(grace=0.0)
                await life.engine.close()
        await self.app.close()
        await self.gemini.stop()

    def _engine(self, life: Life, *, lease: float) -> Engine:
        client = GeminiClient(
            self.settings,
            clock=self.clock,
            transport=_Wire(life),
            rng=random.Random(self.rng.getrandbits(64)),
            in_thread=inline_call,
        )
        remotes = [GeminiBatch(client, prices=load_prices(None))]
        return Engine(
            _LifesStore(self.store, life),  # type: ignore[arg-type]  # all else is asked of the store itself
            [pages],
            clock=self.clock,
            rng=random.Random(self.rng.getrandbits(64)),
            lease=lease,
            name=life.name,
            threads=False,
            outputs=Outputs(self.root / "home" / "outputs"),
            calls=CallDesk(self.root / "home" / "calls", remotes, pace=CallPace(window=5.0, lease=8.0)),
        )

    def start(self) -> Life:
        """Another process that works."""
        life = Life(self, f"w{len(self.lives) + 1}")
        life.ends = self.plan[len(self.lives)] if len(self.lives) < len(self.plan) else None
        life.freezes = None if self.lives else self.freezes
        self.lives.append(life)
        self.loop.create_task(self._live(life), context=life.context)
        return life

    async def _live(self, life: Life) -> None:
        life.engine = self._engine(life, lease=self.tempo.lease)
        life.delivery = Embedded(life.engine, sweep_every=self.tempo.sweep_every, grace=0.0)
        await life.delivery.start()
        while not self._ending:
            await asyncio.sleep(self.tempo.lease / 3)
            await life.engine.beat()

    def buried(self, life: Life) -> None:
        self._listeners = [place for place in self._listeners if place[0] is not life]
        if self.watched is not None:
            self.remember_outputs(self.watched)
        self.start_later()

    def start_later(self) -> None:
        if not self._ending:
            self.loop.call_later(self.tempo.restart_after, self.start, context=self.context.copy())

    def listen(self, life: Life, listener: Callable[[set[str]], None]) -> Callable[[], None]:
        place = (life, listener)
        self._listeners.append(place)
        return lambda: self._listeners.remove(place) if place in self._listeners else None

    def announce(self, sender: Life, hints: set[str]) -> None:
        for life, listener in self._listeners:
            if life is not sender and not life.dead:
                self.loop.call_soon(listener, hints, context=life.context)

    def script(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """What Gemini answers from now on; rules in front of `SCRIPT` leave the other pages as they are."""
        backend = self.gemini.services.backend
        assert isinstance(backend, ScriptBackend)
        backend.follow([dict(rule) for rule in rules])

    def faults(self, *faults: Fault | Mapping[str, Any]) -> None:
        told = [fault if isinstance(fault, Fault) else Fault.parse(dict(fault)) for fault in faults]
        self.gemini.services.faults.replace(told)

    def batches(self) -> list[dict[str, Any]]:
        """Every batch at Gemini, as Gemini knows it."""
        rows = self.gemini.services.state.db.execute("SELECT * FROM batches ORDER BY number")
        return [dict(row) for row in rows]

    def notice_batches(self) -> None:
        state = self.gemini.services.state
        for row in state.db.execute("SELECT id FROM batches ORDER BY number DESC LIMIT 3").fetchall():
            if row["id"] not in self.keys:
                lines = state.blob(in_blob(row["id"])).read_bytes().splitlines()
                self.keys[row["id"]] = [json.loads(line)["key"] for line in lines]

    def remember_outputs(self, folder: Path) -> None:
        for path in folder.rglob("*.json*"):
            with suppress(ValueError):
                told = json.loads(content := path.read_bytes())["_penstock"]
                self.written[told["key"], told["batch"]].add(content)

    async def begun(self, run: Run) -> str:
        """Start it; the id of its job."""
        self.watched = run.paths.output_dir
        return (await asking.start(self.app, run)).job_id

    async def whole_run(self, run: Run, *, starts: int = 5, within: float = 6 * 3600.0) -> Job:
        """Start it, and do what the schedule and a patient person would do, until it is over. What will not end by
        itself is mended at last."""
        for last in range(starts):
            if last == starts - 1:
                self.faults()
            job = await self.settled(await self.begun(run), within=within)
            if job.status != "failed":
                break
        return job

    async def first_death(self) -> None:
        """Wait until the first process is dead."""
        async with asyncio.timeout(60.0):
            while not self.lives[0].dead:
                await asyncio.sleep(0.1)

    async def until(self, holds: Callable[[], Awaitable[bool]], within: float = 600.0) -> None:
        async with asyncio.timeout(within):
            while not await holds():
                await asyncio.sleep(0.1)

    async def settled(self, job_id: str, *, within: float = 6 * 3600.0) -> Job:
        """The job once it is final. Of a call in quarantine a person looks up what Gemini says: one whose batch is over
        there is given up, any other is waited for."""
        decided = False
        pause = 0.2
        async with asyncio.timeout(within):
            while not (job := await self.app.job(job_id)).final:
                for call in await self.app.calls(state=("quarantined",)):
                    live = [f"batches/{batch['id']}" for batch in self.batches() if batch["ended"] is None]
                    decided = True
                    with suppress(PenstockError):
                        await self.app.decide_call(call.id, "adopt" if call.provider_id in live else "discard")
                if job.status == "paused":
                    if not decided:
                        return job
                    with suppress(PenstockError):
                        await self.app.resume(job_id)
                await asyncio.sleep(pause := min(1.3 * pause, 20.0))
        return job

    def paid_twice(self) -> list[str]:
        """What Gemini's own books say against us: a label made twice, or a page in two batches that lived at once."""
        found, lived = [], defaultdict(list)
        batches = self.batches()
        titles = Counter(batch["title"] for batch in batches)
        found += [f"{title} was made {count} times" for title, count in titles.items() if count > 1]
        for batch in batches:
            for key in self.keys[batch["id"]]:
                lived[key].append((batch["created"], batch["ended"] or float("inf"), batch["id"]))
        for key, spans in lived.items():
            spans.sort()
            for (_, ended, one), (began, _, other) in pairwise(spans):
                if began < ended:
                    found.append(f"{key} was in {one} and {other} at once")
        return found

    def differing_outputs(self) -> list[str]:
        """Pages of which one batch was written in two ways."""
        if self.watched is not None:
            self.remember_outputs(self.watched)
        return [f"{key} of batch {batch}" for (key, batch), contents in self.written.items() if len(contents) > 1]

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return await self.app.engine.read(sql)


@contextmanager
def town_of(books: Mapping[str, Sequence[int]], **options: Any) -> Iterator[tuple[Town, Library]]:
    """A town with one library, in memory where there is some: nothing of it outlives the test."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        library = Library(Path(folder) / "library", books)
        with Town(Path(folder), **options).opened() as town:
            yield town, library


_town: Town | None = None
_hooked = False


def _watch_files(town: Town | None) -> None:
    global _town, _hooked
    _town = town
    if not _hooked:
        # Python has no way to take a hook back; without a town it does nothing.
        sys.addaudithook(_audited)
        _hooked = True


def _audited(event: str, args: tuple[Any, ...]) -> None:
    """Told by the interpreter before it opens, moves or removes a file: a process of the town may die of it."""
    if _town is None or event not in ("open", "os.rename", "os.mkdir", "os.remove"):
        return
    life, watched = OWNER.get(), _town.watched
    if not isinstance(life, Life) or watched is None or life.dead or not isinstance(args[0], str | os.PathLike):
        return
    path = os.fspath(args[0])
    writes = event != "open" or (isinstance(args[1], str) and "w" in args[1])
    if not writes or not str(path).startswith(str(watched)):
        return
    if life.reached("before file"):
        raise Killed
    if event == "open" and life.reached("torn file"):
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(b'{"text": "hal')
        raise Killed


@cache
def _empty_store() -> bytes:
    """Made once: each town begins with a copy."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"

        async def make() -> None:
            store = SqliteStore(path)
            await store.open()
            await store.close()

        asyncio.run(make())
        return path.read_bytes()
