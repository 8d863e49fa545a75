"""A worker's heartbeat: a thread of its own, so that a busy event loop is not taken for a dead worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.engine.errors import PenstockError
from penstock.store.protocol import Keeper, Store

log = logging.getLogger("penstock.engine")


class Heart(threading.Thread):
    """Beats for one worker until it is stopped, or until the store says that the worker was given up."""

    def __init__(self, store: Store, worker: str, ttl: float, on_given_up: Callable[[str], None]) -> None:
        super().__init__(name="penstock-heart", daemon=True)
        self._store = store
        self._worker = worker
        self._ttl = ttl
        self._on_given_up = on_given_up
        self._ended = threading.Event()

    def run(self) -> None:
        keeper = self._store.keeper()
        try:
            while not self._ended.wait(self._ttl / 3):
                if not self._beat(keeper):
                    self._on_given_up(self._worker)
                    return
        finally:
            keeper.close()

    def _beat(self, keeper: Keeper) -> bool:
        try:
            return keeper.beat(self._worker, self._ttl)
        except PenstockError as error:
            log.warning("worker %s could not renew its lease: %s", self._worker, error)
            return True

    def stop(self) -> None:
        self._ended.set()
