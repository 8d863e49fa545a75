"""Celery's consumer, but that a broker which is away is told of in a line, not in a traceback for each try, and that
the pool is looked after while it is waited for."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

from celery.exceptions import CPendingDeprecationWarning, WorkerLostError
from celery.worker import request
from celery.worker.consumer import consumer
from celery.worker.state import maybe_shutdown
from kombu.utils.url import maybe_sanitize_url

log = logging.getLogger("penstock.worker")

SAY_AGAIN_AFTER = 60.0
PATIENTLY = {"max_retries": None, "interval_start": 1, "interval_step": 1, "interval_max": 5}
"""How a broker that is away is tried again."""


OF_THE_CONNECTION = ("Frequent restarts", "Couldn't ack", "Couldn't reject")
"""How messages begin that follow from a lost connection. What was not acknowledged comes again, and is harmless."""


class Outage:
    """What is said of a broker that is away: a line when it is lost, one when it is back, and one a minute between."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._said = 0.0

    def lost(self, where: str, error: BaseException) -> None:
        now = self._clock()
        if self._since is None:
            self._since = self._said = now
            log.warning(
                "the broker at %s does not answer (%s): start it, or set celery.broker_url to where it is. The "
                "worker's processes look for work themselves meanwhile, less often",
                where,
                error,
            )
        elif now - self._said >= SAY_AGAIN_AFTER:
            self._said = now
            log.warning("the broker at %s has not answered for %.0f s (%s)", where, now - self._since, error)

    def back(self, where: str) -> None:
        if self._since is not None:
            log.info("the broker at %s answers again after %.0f s", where, self._clock() - self._since)
            self._since = None


class Consumer(consumer.Consumer):  # type: ignore[misc]
    """Made anew with each worker; there is one outage for all of a process."""

    outage = Outage()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # At its first start it would give up over a process that has ended while the broker was waited for.
        self.restart_count = 0

    def ensure_connected(self, conn: Any) -> Any:
        connected = conn.ensure_connection(
            lambda error, _: self.outage.lost(self._where, error), callback=self._waiting, **PATIENTLY
        )
        self.first_connection_attempt = False
        self.outage.back(self._where)
        return connected

    @property
    def _where(self) -> str:
        return str(maybe_sanitize_url(self.app.conf.broker_url))

    def on_connection_error_before_connected(self, exc: BaseException) -> None:
        self.outage.lost(self._where, exc)

    def on_connection_error_after_connected(self, exc: BaseException) -> None:
        self.outage.lost(self._where, exc)
        with warnings.catch_warnings():
            # It advises to have the tasks that run cancelled, which is what must not happen.
            warnings.simplefilter("ignore", CPendingDeprecationWarning)
            super().on_connection_error_after_connected(exc)

    def _waiting(self) -> None:
        """Called every second. Nothing else replaces a process that ends now: the loop that does is not turning."""
        maybe_shutdown()
        pool = self.pool._pool
        if not pool._registered_with_event_loop:
            # It takes in new processes only when it has met the loop, which it does again at every connection.
            pool.register_with_event_loop(self.hub)
        pool.maintain_pool()


def told_elsewhere(record: logging.LogRecord) -> bool:
    """A filter: without what Celery says of a lost connection, since `Outage` says it, and without where in Celery it
    was found that a process is gone, since that says nothing about why."""
    if record.exc_info and record.exc_info[0] is WorkerLostError:
        record.exc_info = None
    lost = isinstance(record.args, tuple) and record.args[:1] == (consumer.CONNECTION_RETRY,)
    return not lost and not str(record.msg).startswith(OF_THE_CONNECTION)


def speak_plainly() -> None:
    for module in (consumer, request):
        logging.getLogger(module.__name__).addFilter(told_elsewhere)
