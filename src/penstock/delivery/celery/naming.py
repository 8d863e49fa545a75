"""What things are called at the broker, and whether there is one. Imports nothing of Celery's."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Protocol

from penstock.engine.errors import InvalidConfiguration
from penstock.engine.model import DEFAULT_QUEUE

APP = "penstock"
ADVANCE = "penstock.advance"
SWEEP = "penstock.sweep"

PUMP = "penstock-pump"
"""The queue of what beat sends. Every worker serves it, whatever else it serves. No queue of jobs is called so at the
broker, since theirs go on with a dot."""

INTERNAL = "penstock."
"""How the names of queues begin that a service serves itself, such as those of its webhooks."""

HOW_TO_NAME_IT = (
    "set celery.broker_url in penstock.yaml, or PENSTOCK_CELERY__BROKER_URL, to redis://HOST:6379/0 "
    "or amqp://USER:PASSWORD@HOST//"
)


class Told(Protocol):
    """What the configuration says under `celery:`, as far as messages go."""

    @property
    def broker_url(self) -> str | None: ...

    @property
    def result_backend(self) -> str | None: ...

    @property
    def soft_limit(self) -> float: ...

    @property
    def hard_limit(self) -> float: ...

    @property
    def sweep_every(self) -> float: ...


def celery_queue(queue: str) -> str:
    """Each queue of jobs has one at the broker: `default` is `penstock`, `gpu` is `penstock.gpu`."""
    return APP if queue == DEFAULT_QUEUE else f"{APP}.{queue}"


def celery_queues(queues: Iterable[str]) -> list[str]:
    return [celery_queue(queue) for queue in queues]


def require_celery() -> None:
    """Say what is missing."""
    for package in ("celery", "redis"):
        if importlib.util.find_spec(package) is None:
            raise InvalidConfiguration(
                f"delivery: celery needs {package}, which is not installed: pip install 'penstock[celery]'"
            )


def checked_broker(url: str | None) -> str:
    require_celery()
    if url is None:
        raise InvalidConfiguration(f"delivery: celery needs the address of a broker: {HOW_TO_NAME_IT}")
    return url
