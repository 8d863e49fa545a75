"""Webhooks: a notice is carried to an address by a job, so that it is tried again, kept, and seen when it fails.

The jobs run in the service's own process (`notifier.py`), which knows the addresses and secrets; a job knows the name
of its webhook only. Neither address nor secret is in a payload, an error, a log line or a history.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import httpx2
from pydantic import BaseModel
from pydantic_core import to_json

from penstock.engine.context import Context
from penstock.engine.errors import Permanent, RateLimited, Transient
from penstock.engine.identity import checked_name
from penstock.engine.retry import Retry
from penstock.engine.workflow import Workflow
from penstock.service.notices import WEBHOOK_WORKFLOW, Notice
from penstock.times import utc

if TYPE_CHECKING:
    from penstock.config.settings import WebhookSettings

QUEUE = "penstock.webhooks"
"""Where the names of the queues begin: each webhook has its own, so that a receiver that hangs holds up no other."""

TIMEOUT = 20.0
"""Seconds a receiver may take to answer."""

LONGEST_WAIT = 3600.0

POLICY = Retry(attempts=30, base=5.0, factor=3.0, cap=LONGEST_WAIT, jitter=0.2, rate_limited=30)
"""5 s, 15 s, 45 s, … and then every hour: about a day in all."""

MAY_PASS = frozenset({404, 408, 409, 425, 429})
"""Refusals that may be over soon. 404 is among them: it is what a receiver answers while it is being deployed."""


_sending: ContextVar[bool] = ContextVar("penstock_webhook", default=False)


def _is_not_ours(record: logging.LogRecord) -> bool:
    """The library's own lines name the whole address of a request, which may be all that a receiver asks for."""
    return not _sending.get()


# A logger's filter does not hold for those below it.
for _library in ("httpx2", *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks"))):
    logging.getLogger(_library).addFilter(_is_not_ours)


class Delivery(BaseModel):
    """What a webhook's job is about."""

    webhook: str
    id: str
    event: str
    about: dict[str, Any]


def queue_of(webhook: str) -> str:
    return checked_name("queue", f"{QUEUE}.{webhook}")


def wants(hook: WebhookSettings, notice: Notice) -> bool:
    return (
        notice.event in hook.events
        and (hook.workflows is None or notice.workflow in hook.workflows)
        and hook.tenant in (None, notice.tenant)
    )


def delivery_id(webhook: str, notice: Notice) -> str:
    """Also the key of the job: the same notice is carried to the same webhook once."""
    return f"{webhook}:{notice.id}"


def trial(webhook: str, now: float) -> Delivery:
    """For trying an address out: it tells of no job."""
    trial_id = f"test.{int(now)}"
    about = {"id": trial_id, "event": "webhook.test", "at": utc(now), "job": None, "note": None}
    return Delivery(webhook=webhook, id=f"{webhook}:{trial_id}", event="webhook.test", about=about)


def signature(secret: str, body: bytes, at: int) -> str:
    """`t=…,v1=…`: the time belongs to what is signed, so that a receiver can refuse what was recorded long ago."""
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={signed}"


class Sender:
    """Makes the requests; one set of connections for all webhooks."""

    def __init__(self, hooks: Mapping[str, WebhookSettings], *, public_url: str | None = None) -> None:
        self._hooks = dict(hooks)
        self._public_url = public_url
        self._client: httpx2.AsyncClient | None = None

    def knows(self, webhook: str) -> bool:
        return webhook in self._hooks

    async def send(self, delivery: Delivery, *, now: float) -> int:
        """Answers the status of the response, or raises what is to be done about it."""
        response = await self.post(delivery, now=now)
        _judge(delivery.webhook, response, now)
        return response.status_code

    async def post(self, delivery: Delivery, *, now: float) -> httpx2.Response:
        """One signed request. The body of the response is not read: nothing of it would be used."""
        hook = self._hooks[delivery.webhook]
        body = to_json(self._body(delivery))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Penstock",
            "Penstock-Event": delivery.event,
            "Penstock-Delivery": delivery.id,
            "Penstock-Signature": signature(hook.secret.get_secret_value(), body, int(now)),
        }
        ours = _sending.set(True)
        try:
            async with self._http().stream("POST", hook.url, content=body, headers=headers) as response:
                return response
        except httpx2.InvalidURL:
            raise Permanent(f"webhook {delivery.webhook!r}: its address is not valid") from None
        except httpx2.TransportError as error:
            # Its words may name the address, which can be a secret of its own.
            raise Transient(f"webhook {delivery.webhook!r} could not be reached ({type(error).__name__})") from None
        finally:
            _sending.reset(ours)

    def _body(self, delivery: Delivery) -> dict[str, Any]:
        job = delivery.about.get("job")
        url = f"{self._public_url}/ui/jobs/{job['id']}" if self._public_url and job else None
        return {**delivery.about, "delivery": delivery.id, "url": url}

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            # How many there are at once is the notifier's business: nobody waits for another one's connection.
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
            self._client = httpx2.AsyncClient(timeout=TIMEOUT, follow_redirects=False, limits=limits)
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _judge(webhook: str, response: httpx2.Response, now: float) -> None:
    status = response.status_code
    if 200 <= status < 300:
        return
    said = f"webhook {webhook!r} answered {status}"
    wait = _retry_after(response, now)
    if status == 429 or (status == 503 and wait is not None):
        raise RateLimited(said, retry_after=wait)
    if status in MAY_PASS or status >= 500:
        raise Transient(said)
    if 300 <= status < 400:
        raise Permanent(f"{said}: redirects are not followed; configure the address that it leads to")
    raise Permanent(said)


def _retry_after(response: httpx2.Response, now: float) -> float | None:
    """Seconds, or a date; within an hour, whatever the receiver thinks."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), LONGEST_WAIT)
    try:
        return min(max(parsedate_to_datetime(text).timestamp() - now, 0.0), LONGEST_WAIT)
    except (TypeError, ValueError, OverflowError):
        return None


def webhook_workflow(sender: Sender) -> Workflow:
    """The built-in workflow whose jobs carry notices to webhooks."""
    workflow = Workflow(WEBHOOK_WORKFLOW, payload=Delivery, queue=QUEUE, retry=POLICY)

    @workflow.step(timeout=TIMEOUT + 10.0)
    async def send(delivery: Delivery, ctx: Context) -> dict[str, Any]:
        if not sender.knows(delivery.webhook):
            return {"delivered": False, "why": f"webhook {delivery.webhook!r} is not configured any more"}
        return {"delivered": True, "status": await sender.send(delivery, now=ctx.now())}

    return workflow
