"""Celery's transport for Redis, but that a list entry which is no message at all is dropped and told of. By itself it
ends the consumer, and with it every task that runs."""

from __future__ import annotations

import logging
from typing import Any

from kombu.transport import redis

log = logging.getLogger("penstock.worker")


class Channel(redis.Channel):
    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # It was taken from the list when it was read, so it does not come again.
            log.warning(
                "something that is no message was in a queue and is dropped: %s: %s", type(error).__name__, error
            )
            return None


class Transport(redis.Transport):
    Channel = Channel
