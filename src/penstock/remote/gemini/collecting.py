"""A batch's result brought home: first its raw bytes, whole and kept as they are, then the rows made of them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from penstock.engine.call import Usage
from penstock.engine.errors import Transient
from penstock.outputs.files import atomic_write
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.download import Downloaded, download
from penstock.remote.gemini.lines import encoded, in_slices, opened, whole
from penstock.remote.gemini.operation import Operation
from penstock.remote.gemini.planning import KEYS, SCHEMA
from penstock.remote.gemini.results import Sorting
from penstock.remote.prices import Prices, rounded_up
from penstock.remote.protocol import Collected, Order, ResultGone

RESULT, ROWS, BROUGHT = "result.jsonl", "rows.jsonl", "brought.json"


@dataclasses.dataclass(slots=True, frozen=True)
class Brought:
    """What is known of a result that is on our disk. `file` is its name at Gemini, where it is a file."""

    provider_id: str
    file: str | None
    ended: float
    sha256: str
    size: int
    proved: bool


class Collecting:
    def __init__(self, client: GeminiClient, prices: Prices) -> None:
        self._client = client
        self._prices = prices

    async def bring(self, folder: Path, operation: Operation) -> Brought:
        """The result as it is, on the disk, before anything is made of it."""
        if operation.file is not None:
            got = await download(self._client, operation.file, folder / RESULT)
        elif operation.inlined is not None:
            got = await self._written(operation.inlined, folder / RESULT)
        elif operation.state in ("failed", "cancelled", "expired"):
            raise ResultGone(f"{operation.name} has no result: {operation.error or operation.state}")
        else:
            raise Transient(f"{operation.name} has no result yet")
        ended = operation.ended or self._client.clock.now()
        brought = Brought(operation.name, operation.file, ended, **dataclasses.asdict(got))
        await self._client.in_thread(atomic_write, folder / BROUGHT, to_json(brought))
        return brought

    async def collected(self, order: Order, brought: Brought) -> Collected:
        """The rows, counted and paid for by what Gemini says they used."""
        model = order.prepared["model"]
        price = self._prices.price_of(model, "batch", brought.ended)
        sorting = await self._sorted(order, brought)
        result: dict[str, Any] = {
            "file": ROWS,
            "raw": RESULT,
            "sha256": brought.sha256,
            "size": brought.size,
            "rows": sorting.tally(),
            "conflicts": sorting.conflicts,
        }
        usage, charge = sorting.usage, sorting.charge
        if usage == Usage() and sorting.counts["ok"]:
            # Some answers come without a count: then what was counted before is the best there is.
            usage, result["estimated"] = Usage(input=order.prepared["tokens"]), True
            charge = price.charge(usage) if price else 0
        if price is None:
            result["unpriced"] = True
        return Collected(result=result, usage=usage, cost=rounded_up(charge))

    async def _written(self, rows: list[dict[str, Any]], target: Path) -> Downloaded:
        """Inlined responses in the form of a result's lines."""
        content = b"".join(encoded({"key": (row.get("metadata") or {}).get("key"), **row}) for row in rows)
        await self._client.in_thread(atomic_write, target, content)
        return Downloaded(hashlib.sha256(content).hexdigest(), len(content), proved=True)

    async def _sorted(self, order: Order, brought: Brought) -> Sorting:
        folder, in_thread = order.folder, self._client.in_thread
        try:
            keys = await opened(lambda: (folder / KEYS).open("rb"), in_thread)
        except OSError as error:
            raise Transient(f"the keys of the batch are in another home, not in {folder}") from error
        with keys:
            result = await opened(lambda: (folder / RESULT).open("rb"), in_thread)
            with result:
                async with whole(folder / ROWS, self._client.token(), in_thread) as rows:
                    sorting = Sorting(
                        keys=keys,
                        result=result,
                        rows=rows,
                        kind=order.prepared["kind"],
                        schema=await in_thread(_schema, folder),
                        price=self._prices.price_of(order.prepared["model"], "batch", brought.ended),
                    )
                    await in_slices(sorting.read_keys, in_thread)
                    await in_slices(sorting.step, in_thread)
        if sorting.lines and sorting.rubbish == sorting.lines:
            # An error page, say: something that is no line of a result cannot end a batch that was paid for.
            await in_thread((folder / BROUGHT).unlink, True)
            raise Transient("what was fetched is no result: none of its lines is JSON; it is fetched again")
        if sorting.ends_broken and not brought.proved:
            await in_thread((folder / BROUGHT).unlink, True)
            raise Transient("the result breaks off, and Gemini did not say how long it is: it is fetched again")
        return sorting


def has_keys(folder: Path) -> bool:
    return (folder / KEYS).exists()


def brought_already(folder: Path, provider_id: str | None) -> Brought | None:
    """A result of this batch that is on the disk whole."""
    try:
        brought = Brought(**json.loads((folder / BROUGHT).read_bytes()))
        size = (folder / RESULT).stat().st_size
    except (OSError, ValueError, TypeError):
        return None
    return brought if brought.provider_id == provider_id and brought.size == size else None


def _schema(folder: Path) -> dict[str, Any] | None:
    try:
        schema: dict[str, Any] = json.loads((folder / SCHEMA).read_bytes())
    except FileNotFoundError:
        return None
    return schema
