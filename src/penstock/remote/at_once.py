"""What remotes have in common whose answer comes with the same breath: nothing to find, poll or collect."""

from __future__ import annotations

from penstock.engine.errors import Permanent
from penstock.remote.protocol import Collected, Found, Guarantee, Order, Polled


class AnsweredAtOnce:
    """Nothing can be looked up afterwards, so an answer that was lost on the way may be paid for again."""

    guarantee: Guarantee = "repeatable"
    keeps_files = False

    async def find(self, order: Order) -> Found:
        return Found((), complete=False)

    async def poll(self, order: Order, provider_id: str) -> Polled:
        return Polled(state="gone", error="a single call leaves nothing to be asked for")

    async def collect(self, order: Order, provider_id: str) -> Collected:
        raise Permanent("a single call leaves nothing to be collected")

    async def cancel(self, order: Order, provider_id: str) -> None:
        return

    async def tidy(self, order: Order, provider_id: str | None) -> None:
        return
