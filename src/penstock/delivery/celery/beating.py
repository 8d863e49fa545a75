"""Beat: a process beside the pool that sends hints by the clock, and is started again when it dies.

Every worker may have one. They know nothing of each other and need not: what they send says only that it may be time to
look, and a schedule's firing is a row that only one sweep can write.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from typing import Any

from billiard import Process
from celery import Celery, bootsteps
from celery.beat import Scheduler, Service
from celery.platforms import set_pdeathsig
from celery.worker.components import Timer
from kombu.exceptions import OperationalError

from penstock.delivery.celery.consuming import PATIENTLY, SAY_AGAIN_AFTER

log = logging.getLogger("penstock.worker")

LOOK_EVERY = 2.0


class _Scheduler(Scheduler):  # type: ignore[misc]
    """Celery's own, but that it says little of a broker that is away: the worker beside it tells of that."""

    _said = -SAY_AGAIN_AFTER

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except Exception as error:
            why = error.__cause__ or error.__context__
            away = isinstance(why, (OperationalError, *self.connection.connection_errors))
            now = time.monotonic()
            if away or now - self._said < SAY_AGAIN_AFTER:
                log.debug("beat: %s", error)
            else:
                self._said = now
                log.warning("beat: %s", error)

    def _ensure_connected(self) -> Any:
        return self.connection.ensure_connection(
            lambda error, pause: log.debug("beat waits %g s for the broker: %s", pause, error), **PATIENTLY
        )


def beat(celery: Celery) -> None:
    """Where the process was killed that started it, the kernel ends this one too (on Linux)."""
    set_pdeathsig("SIGKILL")
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Nothing is stored of what was sent when: a hint too many is harmless.
    service = Service(celery, scheduler_cls=_Scheduler)
    signal.signal(signal.SIGTERM, lambda *_: service.stop())
    service.start()


class Beat(bootsteps.StartStopStep):  # type: ignore[misc]
    """Part of the worker: keeps the process."""

    requires = (Timer,)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._process: Any = None
        self._looking: Any = None

    def start(self, worker: Any) -> None:
        self._begin(worker.app)
        self._looking = worker.timer.call_repeatedly(LOOK_EVERY, self._look, (worker.app,))

    def _begin(self, celery: Celery) -> None:
        self._process = Process(target=beat, args=(celery,), name="penstock-beat")
        self._process.daemon = True
        self._process.start()

    def _look(self, celery: Celery) -> None:
        if self._process is not None and not self._process.is_alive():
            log.warning("beat ended with exit code %s and is started again", self._process.exitcode)
            self._begin(celery)

    def stop(self, worker: Any) -> None:
        if self._looking is not None:
            self._looking.cancel()
        process, self._process = self._process, None
        if process is not None:
            # It holds nothing, and may be waiting for a broker that is away.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.join(1.0)

    terminate = stop
