"""The live feed: tails what happens in the store, whoever does it, and tells everybody who listens here."""

from __future__ import annotations

from penstock.app import Penstock


class LiveFeed:
    def __init__(self, penstock: Penstock) -> None:
        self._penstock = penstock
