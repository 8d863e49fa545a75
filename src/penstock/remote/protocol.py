"""What Penstock asks of a place where slow or paid work is done. Small on purpose: an adapter is one file, and
`remote/contract.py` says whether it keeps its word.

How a failed `submit` is told decides whether money can be lost or spent twice:

    Transient, RateLimited, Permanent    the other side has *not* taken the work; it may be sent again
    Ambiguous                            nobody knows: it may have (a dropped connection, a timeout, a 5xx)

Anything else that is raised counts as `Ambiguous`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from penstock.engine.call import Hold, Usage
from penstock.engine.errors import Permanent

Guarantee = Literal["findable", "callee_dedup", "repeatable"]
"""What can be promised after a crash, by what the other side offers:

findable       our label can be looked up there: made at most once, or quarantined for a person
callee_dedup   the other side refuses a label it has seen: sending again is safe, it runs once
repeatable     nothing to look up: may be made (and paid) again after a crash, bounded and counted
"""


@dataclass(slots=True, frozen=True)
class Order:
    """One attempt at one call. `label` is ours, unique, and goes to the other side; `folder` is a folder of this call's
    own for files that are brought home."""

    label: str
    tenant: str
    job: str
    key: str
    attempt: int
    request: Any
    folder: Path
    prepared: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True, kw_only=True)
class Plan:
    """What a call will take: counted before anything is paid. `estimate` is millionths of a dollar, input and the most
    output there can be; `priced` is False where nobody knows the price. `prepared` is small, is kept with the call, and
    comes back with every later question. Two names in it are read by Penstock too: `poll_every`, the seconds between
    polls of this call, always the same; and `overdue_after`. Each stands in for the remote's own."""

    model: str = ""
    estimate: int = 0
    priced: bool = True
    usage: Usage = field(default_factory=Usage)
    holds: tuple[Hold, ...] = ()
    prepared: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, frozen=True, kw_only=True)
class Collected:
    """What came home: a small JSON value (large things are files in the order's folder, named in it), what was used,
    and what it cost, in millionths of a dollar."""

    result: Any
    usage: Usage = field(default_factory=Usage)
    cost: int = 0


@dataclass(slots=True, frozen=True)
class Accepted:
    """The other side has the work, under this id."""

    provider_id: str


@dataclass(slots=True, frozen=True)
class Found:
    """What a search for a label gave: ids with that label, oldest first, and whether the search saw everything there
    is. Finding nothing proves nothing unless it is `complete`."""

    provider_ids: tuple[str, ...]
    complete: bool


PolledState = Literal["running", "succeeded", "failed", "expired", "cancelled", "gone", "unknown"]


@dataclass(slots=True, frozen=True, kw_only=True)
class Polled:
    """The other side's direct answer about one id. `gone`: it says there is no such id. `unknown`: a state we do not
    know; the work counts as running. `done` and `total` count rows, where the other side does."""

    state: PolledState
    error: str | None = None
    done: int | None = None
    total: int | None = None


class ResultGone(Permanent):
    """The other side itself says that there is no result, and never will be: the call has failed, and was paid. Any
    other error while collecting (a wrong key, a 404 that may be a mistake) is counted and tried again."""


class Remote(Protocol):
    """Where work is done. All of it is async and nothing blocks the loop; every wait has a limit."""

    name: str
    guarantee: Guarantee

    identity: str
    """Which of several places of this name it is (an address, never a secret): calls made at another are left alone."""

    keeps_files: bool
    """Whether calls have files in the order's folder that later questions need: then only those who share the folder
    look after them."""

    submit_timeout: float
    """Seconds that `submit` may take at most, all in all."""

    listing_margin: float
    """Seconds after which something accepted is sure to show in `find`."""

    poll_every: float
    """Seconds between the first polls; the waits grow to `poll_at_most`."""

    poll_at_most: float

    overdue_after: float
    """Seconds after which work that is still running is shown as overdue."""

    async def prepare(self, order: Order) -> Plan:
        """Check the request, upload what it needs, count what it takes. Free, and safe to do again. `InvalidRequest` or
        `Permanent` if the request can never work."""
        ...

    async def submit(self, order: Order) -> Accepted | Collected:
        """Send it. Never retried in here. `Collected` where the answer comes with the same breath."""
        ...

    async def find(self, order: Order) -> Found: ...

    async def poll(self, order: Order, provider_id: str) -> Polled: ...

    async def collect(self, order: Order, provider_id: str) -> Collected:
        """Bring the result home. Free, and safe to do again. `ResultGone` where there never will be one."""
        ...

    async def cancel(self, order: Order, provider_id: str) -> None:
        """Ask to stop. The next poll says what became of it; cancelling what has ended is no error."""
        ...

    async def tidy(self, order: Order, provider_id: str | None) -> None:
        """Remove what was uploaded for this call, now that it has ended. Best effort, safe to do again."""
        ...

    async def close(self) -> None: ...
