"""The worker: Celery's own consumer and prefork pool, with our children in it, until told to stop.

The first SIGTERM or SIGINT lets running steps finish within the grace and hands back the rest; the second hands
everything back now. A consumer that fails over a message it cannot read is started again without it.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from typing import Any

from billiard.util import get_logger
from celery import Celery, signals
from celery.apps.worker import Worker
from celery.worker import state
from kombu.exceptions import OperationalError

from penstock.delivery.celery.beating import Beat
from penstock.delivery.celery.child import LOOK_EVERY, MARGIN, Child, Ending, Heard, Orders
from penstock.delivery.celery.consuming import Consumer, speak_plainly
from penstock.delivery.celery.hints import connect
from penstock.delivery.celery.naming import PUMP, SWEEP, celery_queues
from penstock.delivery.celery.tasks import add_tasks
from penstock.delivery.upkeep import AT_ONCE, ending_signals

log = logging.getLogger("penstock.worker")

INTERRUPTED = 130
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


class Crew:
    """The worker and what its children share. `child` is the one that this process is, if it is one."""

    def __init__(self, celery: Celery, orders: Orders, *, processes: int, with_beat: bool) -> None:
        self._celery = celery
        self._orders = orders
        self._processes = processes
        self._ending = Ending()
        self._heard = Heard()
        self._child: Child | None = None
        self._code = 0
        add_tasks(celery, self.child)
        if with_beat:
            celery.steps["worker"].add(Beat)
        self._worker: Any = None

    def child(self) -> Child:
        assert self._child is not None, "tasks run in the children only"
        return self._child

    def run(self) -> int:
        """Until a signal comes; answers the exit code."""
        signals.setup_logging.connect(_keep_logging)
        signals.worker_process_init.connect(self._begin_child)
        signals.worker_process_shutdown.connect(self._end_child)
        signals.worker_ready.connect(self._is_ready)
        for number in ending_signals():
            signal.signal(number, self._heed)
        speak_plainly()
        pause = FIRST_PAUSE
        while not self._over():
            began = time.monotonic()
            worker = self._worker = _Worker(
                app=self._celery,
                hostname=f"penstock.{os.getpid()}@{socket.gethostname()}",
                pool="prefork",
                concurrency=self._processes,
                queues=[*celery_queues(self._orders.queues), PUMP],
                without_gossip=True,
                without_mingle=True,
                without_heartbeat=True,
                consumer_cls=Consumer,
                quiet=True,
                loglevel=logging.WARNING,
            )
            worker.start()
            if self._over():
                break
            pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else pause
            log.error("Celery's worker failed; the lines above say why. It is started again in %g s", pause)
            self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return self._code

    def _over(self) -> bool:
        return self._ending.asked > 0

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._over() and time.monotonic() < until:
            time.sleep(LOOK_EVERY)

    def _heed(self, number: int, frame: object) -> None:
        """The next signal may come while this one is heeded, so nothing here may take a lock."""
        first = self._ending.asked == 0
        if number == signal.SIGINT:
            self._code = INTERRUPTED
        self._ending.ask(1 if first else 2)
        state.should_stop = 0
        threading.Thread(target=self._give_up, args=(number, first), name="penstock-ending", daemon=True).start()

    def _give_up(self, number: int, first: bool) -> None:
        """Children that do not end in time are killed."""
        grace = self._orders.grace
        how = f"running steps have {grace:g} s, a second signal ends them" if first else "at once"
        log.info("%s: stopping, %s", signal.Signals(number).name, how)
        time.sleep((grace + MARGIN if first else AT_ONCE) + MARGIN)
        log.warning("the worker's processes did not end in time and are killed; their leases run out")
        logging.shutdown()
        pool = getattr(getattr(self._worker, "pool", None), "_pool", None)
        for process in list(getattr(pool, "_pool", ())):
            os.kill(process.pid, signal.SIGKILL)
        os._exit(1)

    def _begin_child(self, **_: Any) -> None:
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        self._child = Child(self._celery, self._orders, self._ending, self._heard)
        self._child.start()

    def _end_child(self, **_: Any) -> None:
        if self._child is not None:
            self._child.close()

    def _is_ready(self, sender: Any, **_: Any) -> None:
        """What was lost while nobody was here is looked for at once."""
        log.info(
            "the worker is ready: %d processes, up to %d jobs in each; queues %s",
            self._processes,
            self._orders.at_once,
            ", ".join(self._orders.queues),
        )
        try:
            with connect(self._celery) as connection:
                producer = self._celery.amqp.Producer(connection.default_channel)
                self._celery.send_task(SWEEP, queue=PUMP, producer=producer, ignore_result=True, retry=False)
        except OperationalError as error:
            # Lost again already, which the consumer finds, too: then the processes sweep by themselves.
            log.debug("no sweep was asked for: %s", error)


class _Worker(Worker):  # type: ignore[misc]
    """Celery's own, but that signals are for us to heed."""

    def install_platform_tweaks(self, worker: Any) -> None:
        pass


def _keep_logging(**_: Any) -> None:
    """While somebody hears this signal, Celery leaves logging as it is. The pool's own logger is to be heard, too."""
    get_logger().propagate = True
