"""The Celery application: how messages look, when they are acknowledged, and what beat sends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery import Celery
from celery.schedules import crontab
from kombu.entity import Queue

from penstock.delivery.celery.naming import APP, PUMP, SWEEP, Told, celery_queues, checked_broker

HINTS_BY_THE_CLOCK = {"sla-check": "*/5 * * * *", "snapshots": "0 * * * *"}
"""What beat sends beside its regular sweeps: schedules that are due at these moments fire without waiting for the next
sweep. The schedules themselves are rows of the store, and fire once however many hints there are."""

ANSWERS_WITHIN = 2.0
"""Seconds that whoever sends a hint waits for the broker."""

STALE = 600.0
"""Seconds after which what beat sent is dropped; long, since the machines' clocks may differ."""

MARGIN = 60.0
"""Seconds beyond the hard limit after which a message that nobody has acknowledged is given to another worker."""


def make_celery(settings: Told, *, queues: Iterable[str] = ()) -> Celery:
    """JSON only, and nothing is kept of a task: what became of the work stands in the store."""
    celery = Celery(APP, broker=checked_broker(settings.broker_url), set_as_current=False)
    celery.conf.update(
        result_backend=settings.result_backend,
        task_ignore_result=settings.result_backend is None,
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        timezone="UTC",
        enable_utc=True,
        task_track_started=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_soft_time_limit=settings.soft_limit,
        task_time_limit=settings.hard_limit,
        task_default_queue=APP,
        task_queues=[Queue(name) for name in (*celery_queues(queues), PUMP)],  # type: ignore[no-untyped-call]
        broker_transport=_transport(settings),
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=transport_options(settings),
        # A turn that is under way goes on while the broker is away: its jobs are held by a lease, not by a message.
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # A child has to be up within this time, and a busy machine takes longer than Celery's 4 seconds.
        worker_proc_alive_timeout=60.0,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        beat_schedule=beat_schedule(settings.sweep_every),
    )
    return celery


def _transport(settings: Told) -> str | None:
    plain = (settings.broker_url or "").startswith(("redis://", "rediss://"))
    return "penstock.delivery.celery.transport:Transport" if plain else None


def transport_options(settings: Told) -> dict[str, Any]:
    """Redis gives a dead worker's messages to others when the visibility timeout is over. Unless told otherwise, such
    messages are looked for every hundred seconds only."""
    if not (settings.broker_url or "").startswith(("redis", "sentinel")):
        return {}
    return {
        "visibility_timeout": settings.hard_limit + MARGIN,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "socket_keepalive": True,
        "socket_connect_timeout": 2 * ANSWERS_WITHIN,
    }


def beat_schedule(sweep_every: float) -> dict[str, dict[str, Any]]:
    """Hints only. Those that no worker took for long are dropped: the next one says the same."""
    times: dict[str, Any] = {"sweep": sweep_every}
    times |= {name: crontab.from_string(cron) for name, cron in HINTS_BY_THE_CLOCK.items()}
    options = {"queue": PUMP, "expires": STALE, "ignore_result": True}
    return {name: {"task": SWEEP, "schedule": when, "options": options} for name, when in times.items()}
