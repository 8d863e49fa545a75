"""How often somebody may try: at most so many failures a minute from one address, and so many from all together."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from math import ceil

MINUTE = 60.0

MOST_ADDRESSES = 10_000
"""How many addresses are remembered; the one that was quiet longest is forgotten first. The ceiling for all of them
holds whatever is forgotten."""

CEILING = 10
"""All addresses together may fail so many times as often as one."""


class Throttle:
    """Counts failures of the last minute. `clock` tells seconds and never jumps back."""

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        self._a_minute = a_minute
        self._clock = clock
        self._by_address: OrderedDict[str, deque[float]] = OrderedDict()
        self._all: deque[float] = deque()

    def attempt(self, address: str | None) -> int | None:
        """Count a failure. None: go on. Otherwise it is one too many, and not counted: come back in so many seconds."""
        now = self._clock()
        block = block_of(address)
        tries = self._by_address.setdefault(block, deque())
        self._by_address.move_to_end(block)
        while len(self._by_address) > MOST_ADDRESSES:
            self._by_address.popitem(last=False)
        waits = [
            seen[0] + MINUTE - now
            for seen, most in ((tries, self._a_minute), (self._all, CEILING * self._a_minute))
            if len(_recent(seen, now)) >= most
        ]
        if waits:
            return max(1, ceil(max(waits)))
        tries.append(now)
        self._all.append(now)
        return None

    def is_used_up(self, address: str | None) -> bool:
        """Whether the next failure from there will be one too many."""
        return len(self._by_address.get(block_of(address), ())) >= self._a_minute

    def __len__(self) -> int:
        return len(self._by_address)


def _recent(tries: deque[float], now: float) -> deque[float]:
    while tries and tries[0] <= now - MINUTE:
        tries.popleft()
    return tries


def block_of(address: str | None) -> str:
    """What counts as one address: of IPv6 the /64, since whoever has one of those has all of it."""
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return address or "unknown"
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"
    return str(parsed)
