"""Sends hints: whoever makes work claimable tells the broker, without waiting for it.

A thread of its own holds one connection. What is to be told is a set of queues, so nothing piles up while the broker is
away: it is told once, and again when the broker is back. A queue that still has hints gets no more of them: whoever
takes those finds this work too. What is lost all the same is found by the next sweep.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.delivery.celery.naming import ADVANCE, INTERNAL, Told, celery_queue, require_celery
from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidConfiguration
from penstock.engine.model import DEFAULT_QUEUE
from penstock.store.protocol import ANY_QUEUE

if TYPE_CHECKING:
    from celery import Celery

log = logging.getLogger("penstock.delivery")

FURTHEST = 60.0
"""Seconds ahead that a hint is sent at most; what is due later is found by a sweep."""
ENOUGH = 4
"""Hints that wait in a queue, beyond which there is no use in another."""
LAST_WAIT = 5.0
"""Seconds that a program which ends waits for its last hints."""
SAY_AGAIN_AFTER = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
SPACING = 0.01
"""Seconds between two times that the broker is told something: what is submitted meanwhile goes together."""
ABOUT_THEN = 0.05
"""Seconds by which a hint may come earlier than it has to and count as the same."""

_What = tuple[str, bool]
"""A queue, and whether it is told of for later."""


class Hints:
    """Made with what makes the Celery application, which is called in the thread: importing Celery takes a while."""

    def __init__(self, make: Callable[[], Celery], *, failed: Callable[[], object] | None = None) -> None:
        """`failed` is called, in the thread, when nothing could be sent: whoever gives it does the work by itself, and
        says so."""
        self.away = False
        self._make = make
        self._failed = failed
        self._celery: Celery | None = None
        self._connection: Any = None
        self._waiting: dict[_What, float] = {}
        self._later: dict[str, float] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._said: tuple[str, float] = ("", 0.0)
        self._thread: threading.Thread | None = None

    def tell(self, queue: str, after: float = 0.0) -> None:
        """From any thread; returns at once."""
        if after > FURTHEST:
            return
        due = time.monotonic() + max(after, 0.0)
        with self._changed:
            if self._ended:
                return
            if after > 0:
                told = self._later.get(queue, 0.0)
                if time.monotonic() < told <= due + ABOUT_THEN:
                    return
                self._later[queue] = due
            what = (queue, after > 0)
            self._waiting[what] = min(due, self._waiting.get(what, due))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-hints", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Let what was told be sent, within reason."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(LAST_WAIT)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if not self._waiting:
                    break
                due, self._waiting = self._waiting, {}
            try:
                self._send_all(due)
                self.away = False
                pause = FIRST_PAUSE
                with self._changed:
                    self._changed.wait_for(lambda: self._ended, SPACING)
            except Exception as error:
                self.away = True
                if self._failed is None or isinstance(error, InvalidConfiguration):
                    self._complain(error)
                else:
                    log.debug("no hint was sent: %s", error)
                    self._failed()
                with self._changed:
                    if self._ended or isinstance(error, InvalidConfiguration):
                        break
                    self._waiting = due | self._waiting
                    self._changed.wait_for(lambda: self._ended, pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        self._disconnect()

    def _send_all(self, due: dict[_What, float]) -> None:
        for attempt in (1, 2):
            known = self._connection is not None
            try:
                while due:
                    what = next(iter(due))
                    self._send(what[0], due[what] - time.monotonic())
                    del due[what]
                return
            except InvalidConfiguration:
                raise
            except Exception:
                self._disconnect()
                # A connection that was idle for long may have been closed at the other end: that is no failure yet.
                if attempt == 2 or not known:
                    raise

    def _send(self, queue: str, after: float) -> None:
        if self._celery is None:
            self._celery = self._make()
        name = celery_queue(queue)
        if self._connection is None:
            self._connection = connect(self._celery)
        if after <= 0 and waiting_in(self._connection, name) >= ENOUGH:
            return
        producer = self._celery.amqp.Producer(self._connection.default_channel)
        countdown = after if after > 0 else None
        self._celery.send_task(
            ADVANCE, (queue,), queue=name, producer=producer, countdown=countdown, retry=False, ignore_result=True
        )

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.release()
            except Exception as error:
                log.debug("the connection to the broker was not closed well: %s", error)

    def _complain(self, error: Exception) -> None:
        """Once a minute at most for the same thing: every submit would say it."""
        plain = isinstance(error, InvalidConfiguration)
        what = str(error) if plain else f"{type(error).__name__}: {error}"
        now = time.monotonic()
        if what == self._said[0] and now - self._said[1] < SAY_AGAIN_AFTER:
            return
        self._said = (what, now)
        log.warning("no hint was sent, so a worker finds the work at its next sweep: %s", what)


class EngineHints:
    """For as long as it is open, work that becomes claimable through this engine is told of."""

    def __init__(self, engine: Engine, settings: Told, *, queues: Collection[str] = ()) -> None:
        self._engine = engine
        self._queues = queues
        self._hints = Hints(partial(_made, settings))
        self._unhook = engine.on_hint(self._hinted)

    def _hinted(self, queues: set[str], after: float) -> None:
        for queue in named(queues, self._engine, self._queues):
            self._hints.tell(queue, after)

    async def close(self) -> None:
        self._unhook()
        await asyncio.to_thread(self._hints.close)


def _made(settings: Told) -> Celery:
    require_celery()
    from penstock.delivery.celery.application import make_celery

    return make_celery(settings)


def named(queues: Collection[str], engine: Engine, more: Collection[str] = ()) -> set[str]:
    """Where any queue may have work, all that are known are meant. Nobody is told of those that no worker serves."""
    meant = set(queues)
    if ANY_QUEUE in meant:
        meant |= {workflow.queue for workflow in engine.workflows.values()} | set(more) or {DEFAULT_QUEUE}
    return {queue for queue in meant if queue != ANY_QUEUE and not queue.startswith(INTERNAL)}


def connect(celery: Celery) -> Any:
    """A connection on which nobody waits long, and which sends no heartbeats."""
    from penstock.delivery.celery.application import ANSWERS_WITHIN

    options = dict(celery.conf.broker_transport_options)
    if celery.conf.broker_url.startswith(("redis", "sentinel")):
        options |= {"socket_connect_timeout": ANSWERS_WITHIN, "socket_timeout": ANSWERS_WITHIN}
    connection = celery.connection_for_write(heartbeat=0, connect_timeout=ANSWERS_WITHIN, transport_options=options)
    connection.ensure_connection(max_retries=0, timeout=ANSWERS_WITHIN)
    return connection


def waiting_in(connection: Any, name: str) -> int:
    """How many messages of a queue nobody has taken yet. Makes the queue where there is none."""
    return int(connection.default_channel.queue_declare(queue=name, durable=True, auto_delete=False).message_count)
