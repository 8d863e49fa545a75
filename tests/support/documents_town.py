"""The town of `pages_town`, with documents in it: its processes read them and put them before reviewers, and die at any
commit, request or file operation on the way."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import httpx2

from penstock.app import Penstock
from penstock.config import Settings
from penstock.engine.engine import Engine
from penstock.engine.errors import Conflict
from penstock.gemini_local.app import inline_call
from penstock.outputs.ledger import Outputs
from penstock.pipelines.documents import asking, contents, queue, rules
from penstock.pipelines.documents.samples import sample
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.remote.desk import CallDesk
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.single import GeminiGenerate
from penstock.remote.pool import PoolRemote
from penstock.remote.pool.child import named
from penstock.remote.prices import load_prices
from penstock.remote.tending import Pace as CallPace
from penstock.simulation.loop import OWNER
from tests.support.pages_town import Killed, Life, Town, _LifesStore, _Wire

REPLY: dict[str, Any] = {
    "vendor": "Larkspur Paper Ltd", "invoice_number": "INV-7", "date": "2026-03-01", "due_date": None,
    "subtotal": "1000.00", "tax_rate": "20", "tax_amount": "200.00", "total": "1.200,00", "currency": "GBP",
    "line_items": [{"item": "Paper", "quantity": "10", "unit_price": "100", "total": "1000.00"}],
}  # fmt: skip

WORKFLOWS = (documents, export, many)


class DocumentsTown(Town):
    """`paid` counts what was asked of Gemini, by what was asked."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self.config = Settings.model_validate(
            {"home": root / "home", "gemini": {"base_url": self.settings.base_url, "api_key": "key"}}
        )
        self.paid: Counter[str] = Counter()
        self.files_below = root / "home" / "outputs"

    async def _open(self) -> None:
        await super()._open()
        self.script([{"match": "", "json": REPLY}])
        self.app = Penstock(workflows=WORKFLOWS, store=self.store)
        self.app._engine = self._engine(self.client, lease=1e6)

    def _engine(self, life: Life, *, lease: float) -> Engine:
        client = GeminiClient(
            self.settings,
            clock=self.clock,
            transport=_Till(life),
            rng=random.Random(self.rng.getrandbits(64)),
            in_thread=inline_call,
        )
        pool: Any = _NoPool()
        remotes = [GeminiGenerate(client, prices=load_prices(None)), PoolRemote(pool)]
        return Engine(
            _LifesStore(self.store, life),  # type: ignore[arg-type]  # all else is asked of the store itself
            WORKFLOWS,
            clock=self.clock,
            rng=random.Random(self.rng.getrandbits(64)),
            lease=lease,
            name=life.name,
            threads=False,
            outputs=_LifesOutputs(self.root / "home" / "outputs", life),
            calls=CallDesk(self.root / "home" / "calls", remotes, pace=CallPace(window=5.0, lease=8.0)),
        )

    def buried(self, life: Life) -> None:
        super().buried(life)
        outputs = getattr(getattr(life, "engine", None), "_outputs", None)
        if isinstance(outputs, _LifesOutputs):
            outputs.die()

    async def add(self, *contents_: bytes) -> asking.AddedMany:
        kept = []
        for number, content in enumerate(contents_):
            with contents.receive(self.app.engine, "default", f"{number}.pdf", largest=1 << 24) as incoming:
                incoming.write(content)
                kept.append(incoming.keep())
        return await asking.add(self.app, self.config, kept, actor="ann")

    async def over(self, *, within: float = 3600.0) -> None:
        """Until nobody has anything to do."""
        async with asyncio.timeout(within):
            while await self.app.jobs(status=("queued", "running", "waiting"), limit=1):
                await asyncio.sleep(0.2)

    async def correct(self, document: str, **changes: Any) -> None:
        """As a person does who looks again when told that somebody else was quicker."""
        for _ in range(20):
            ((item,),) = await self.rows(f"SELECT review_item FROM documents WHERE id = '{document}'")
            with suppress(Conflict):
                found = await queue.item(self.app.engine, item)
                await queue.claim(self.app.engine, item, actor="ann", reopen=found.status not in rules.OPEN)
                await queue.submit(self.app.engine, item, "correct", actor="ann", corrections=changes)
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"nobody could correct {document}")


class _LifesOutputs(Outputs):
    """The lock on publishing goes with its process."""

    def __init__(self, root: Path, life: Life) -> None:
        super().__init__(root)
        self._life = life
        self._gate: TextIO | None = None

    def _enter(self) -> TextIO:
        self._gate = super()._enter()
        return self._gate

    def die(self) -> None:
        if self._gate is not None:
            self._gate.close()


class _Till(_Wire):
    """Counts what is to be paid: what came to Gemini."""

    async def _serve(self, request: httpx2.Request) -> httpx2.Response:
        town = self._life.town
        assert isinstance(town, DocumentsTown)
        if request.url.path.endswith(":generateContent"):
            town.paid[hashlib.sha256(request.content).hexdigest()] += 1
        return await super()._serve(request)


class _NoPool:
    """There are no other processes in a town: what a child would do is done here, once for each file."""

    async def run(
        self,
        function: str,
        args: Any = None,
        *,
        blobs: Sequence[bytes] = (),
        files: Sequence[Path] = (),
        limits: object = None,
        resource: str = "cpu",
    ) -> tuple[Any, list[bytes]]:
        return _done(function, json.dumps(args), *map(bytes, blobs), *[file.read_bytes() for file in files])

    async def close(self) -> None:
        pass


@cache
def _done(function: str, args: str, *blobs: bytes) -> tuple[Any, list[bytes]]:
    back = named(function)(json.loads(args), list(blobs))
    return back if isinstance(back, tuple) else (back, [])


@cache
def invoice(seed: int, kind: str = "pdf", **told: str) -> bytes:
    return sample(seed, kind=kind, **told)[0]  # type: ignore[arg-type]


@contextmanager
def documents_town(**options: Any) -> Iterator[DocumentsTown]:
    """In memory where there is some: nothing of it outlives the test."""
    global _town, _hooked
    if not _hooked:
        # Python has no way to take a hook back; without a town it does nothing.
        sys.addaudithook(_audited)
        _hooked = True
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        town = DocumentsTown(Path(folder), **options)
        with town.opened():
            _town = town
            try:
                yield town
            finally:
                _town = None


_town: DocumentsTown | None = None
_hooked = False


def _audited(event: str, args: tuple[Any, ...]) -> None:
    """Told by the interpreter before it opens, links, moves or removes a file: a process of the town may die of it. One
    that is dead does not even clean up."""
    if _town is None or event not in ("open", "os.rename", "os.link", "os.remove"):
        return
    life, path = OWNER.get(), args[0]
    if not isinstance(life, Life) or not isinstance(path, str | os.PathLike):
        return
    writes = event != "open" or (isinstance(args[1], str) and "x" in args[1])
    if not writes or not str(path).startswith(str(_town.files_below)):
        return
    if life.dead or life.reached("before file"):
        raise Killed
    if event == "open" and life.reached("torn file"):
        # Another way to make it, of which the interpreter tells no less, but with a mode that is not looked at here.
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(b'{"document_id": "hal')
        raise Killed
