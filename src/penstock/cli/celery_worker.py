"""`penstock worker --delivery celery`: a Celery worker whose processes advance jobs, until told to stop."""

from __future__ import annotations

import asyncio
import logging
import warnings
from dataclasses import asdict

from penstock.app import Penstock
from penstock.cli.sessions import load_app, queues_served, store_url
from penstock.config import Settings
from penstock.delivery.celery.naming import checked_broker
from penstock.engine.errors import InvalidConfiguration, StoreFull, StoreUnavailable

log = logging.getLogger("penstock.worker")

TALKATIVE = ("celery", "kombu", "amqp", "redis", "multiprocessing")
"""Loggers that tell of every message, or of how processes are made."""

SILENCE = 3
"""Sweeps that do not come, after which a worker takes it that the broker is away."""


def serve_celery(settings: Settings) -> int:
    """The app is imported here, before the processes are forked, and opened in each of them."""
    checked_broker(settings.celery.broker_url)
    app = load_app(settings)
    url = store_url(app, settings)
    if url.startswith("memory:"):
        raise InvalidConfiguration("memory:// is gone with its process: a worker's processes cannot share it")
    queues = queues_served(app, settings)
    _check_store(settings, url)
    if settings.log.level != "debug":
        for name in TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)
    # It warns root of messages that run code when they are read; ours are JSON.
    warnings.filterwarnings("ignore", message="(?s).*superuser privileges")
    from penstock.delivery.celery.application import make_celery
    from penstock.delivery.celery.child import Orders
    from penstock.delivery.celery.serving import Crew

    _add_documents(settings)
    told = settings.celery
    # Each process tells of its work itself, and knows better than a plain hint what is needed.
    quiet = settings.model_copy(update={"delivery": "embedded"})

    async def opened() -> Penstock:
        return await app.open(
            store=settings.store if settings.source("store") else None, settings=quiet, exit_when_stuck=True
        )

    orders = Orders(
        opened=opened,
        queues=queues,
        at_once=told.at_once,
        grace=settings.grace,
        soft_limit=told.soft_limit,
        hard_limit=told.hard_limit,
        fallback=SILENCE * told.sweep_every,
    )
    crew = Crew(make_celery(told, queues=queues), orders, processes=told.processes, with_beat=told.beat)
    return crew.run()


def _add_documents(settings: Settings) -> None:
    """The tasks of the documents pipeline, unless the app has some of these names itself. They submit, and no more."""
    from penstock.delivery.celery.tasks import SUBMITTERS
    from penstock.pipelines.documents.asking import process_again, process_file

    async def process_document_task(app: Penstock, document_id: str, file_path: str) -> dict[str, str]:
        return asdict(await process_file(app, settings, document_id, file_path))

    async def batch_process_task(app: Penstock, document_ids: list[str]) -> dict[str, str]:
        return await process_again(app, document_ids)

    for submitter in (process_document_task, batch_process_task):
        SUBMITTERS.setdefault(submitter.__name__, submitter)


def _check_store(settings: Settings, url: str) -> None:
    """What is wrong with the store for good is told now, and not by every process; one that is away is waited for."""
    if not url:
        return
    plain = settings.model_copy(update={"limits": None, "delivery": "embedded", "otel": type(settings.otel)()})

    async def look() -> None:
        store = await Penstock(store=url).open(settings=plain)
        await store.close()

    try:
        asyncio.run(look())
    except (StoreUnavailable, StoreFull) as error:
        log.warning("the store is not there yet, and is waited for: %s", error)
