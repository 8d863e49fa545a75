"""The process pool as a remote: the answer comes with the same breath, and after a crash the call is made again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.engine.call import Hold
from penstock.engine.errors import InvalidRequest, Permanent, Transient
from penstock.outputs.files import atomic_write
from penstock.remote.pool.limits import PoolLimits
from penstock.remote.pool.pool import ProcessPool, checked_function
from penstock.remote.protocol import Collected, Found, Guarantee, Order, Plan, Polled

OVERHEAD = 120.0
"""Seconds beyond a call's own limit for starting a process and carrying bytes."""


class PoolRequest(BaseModel):
    """A call in the pool: `function(args, blobs)`, where the blobs are what is in `files`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: str
    args: Any = None
    files: tuple[Path, ...] = ()
    limits: PoolLimits = Field(default_factory=PoolLimits)
    resource: str = Field(default="cpu", min_length=1)


class PoolRemote:
    """The result is the value that the function returned. Blobs it returned are files in the order's folder, and then
    the result is `{"value": ..., "files": ["blob-0", ...]}`. Closing it closes the pool."""

    guarantee: Guarantee = "repeatable"
    identity = ""
    keeps_files = True
    listing_margin = 1.0
    poll_every = 1.0
    poll_at_most = 1.0

    def __init__(self, pool: ProcessPool, name: str = "pool", *, submit_timeout: float = 3600.0) -> None:
        self.name = name
        self.submit_timeout = submit_timeout
        self.overdue_after = submit_timeout
        self._pool = pool

    @property
    def pool(self) -> ProcessPool:
        return self._pool

    async def prepare(self, order: Order) -> Plan:
        request = _checked(order.request)
        if request.limits.seconds + OVERHEAD > self.submit_timeout:
            raise InvalidRequest(
                f"{request.function}: {request.limits.seconds:g} s are more than a call in {self.name!r} may take: "
                f"at most {self.submit_timeout - OVERHEAD:g} s"
            )
        missing = await asyncio.to_thread(_missing, request.files)
        if missing is not None:
            raise InvalidRequest(f"{request.function}: there is no file {missing}")
        return Plan(holds=(Hold(f"resource:{request.resource}"),))

    async def submit(self, order: Order) -> Collected:
        request = _checked(order.request)
        try:
            async with asyncio.timeout(self.submit_timeout):
                value, blobs = await self._pool.run(
                    request.function,
                    request.args,
                    files=request.files,
                    limits=request.limits,
                    resource=request.resource,
                )
                names = [f"blob-{number}" for number in range(len(blobs))]
                for name, blob in zip(names, blobs, strict=True):
                    await asyncio.to_thread(_written, order.folder / name, blob)
        except InvalidRequest as error:
            raise Permanent(str(error)) from error
        except TimeoutError:
            raise Transient(f"{request.function} had no turn in the pool within {self.submit_timeout:g} s") from None
        return Collected(result={"value": value, "files": names} if names else value)

    async def find(self, order: Order) -> Found:
        """Nothing outlives the process that asked."""
        return Found((), complete=True)

    async def poll(self, order: Order, provider_id: str) -> Polled:
        return Polled(state="gone")

    async def collect(self, order: Order, provider_id: str) -> Collected:
        raise Permanent(f"the pool keeps no results: {provider_id[:80]!r} cannot be collected")

    async def cancel(self, order: Order, provider_id: str) -> None:
        """Nothing to ask: cancelling `submit` kills what runs."""

    async def tidy(self, order: Order, provider_id: str | None) -> None:
        """Nothing was uploaded."""

    async def close(self) -> None:
        await self._pool.close()


def _checked(request: Any) -> PoolRequest:
    try:
        checked = PoolRequest.model_validate(request)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(f"not a request for the pool: {where}: {first['msg']}") from None
    checked_function(checked.function)
    return checked


def _missing(files: tuple[Path, ...]) -> Path | None:
    return next((file for file in files if not file.is_file()), None)


def _written(target: Path, blob: bytes) -> None:
    try:
        atomic_write(target, blob)
    except OSError as error:
        raise Transient(f"could not write {target.name}: {error}") from error
