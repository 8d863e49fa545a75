"""`Access`: what the guards of one running service hold; found at `request.app.state.access`."""

from __future__ import annotations

import secrets
from collections import Counter

from fastapi import Request

from penstock.engine.audit import Actor, entry
from penstock.engine.requests import Requests
from penstock.service.access.throttle import Throttle
from penstock.service.access.tokens import TokenDesk
from penstock.service.state import Service
from penstock.store.protocol import Record, TokenRow


class Access:
    """`csrf` is what forms must bring where access is open and there are no sessions. A foreign page cannot read it,
    because it cannot read our pages; after a restart it is another one, and open pages load themselves anew."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.csrf = secrets.token_urlsafe(32)
        self.tokens = TokenDesk()
        most = service.settings.service.logins_a_minute
        self.logins = Throttle(most, self._monotonic)
        self.failures = Throttle(most, self._monotonic)
        self.streams: Counter[tuple[str, str]] = Counter()

    def _monotonic(self) -> float:
        return self.engine.clock.monotonic()

    @property
    def engine(self) -> Requests:
        return self.service.penstock.engine

    @property
    def is_open(self) -> bool:
        return self.service.open_access

    @property
    def public_url(self) -> str | None:
        return self.service.settings.service.public_url

    def is_https(self, scheme: str) -> bool:
        """Whether the browser speaks https, to us or to the proxy in front of us."""
        return (self.public_url or f"{scheme}:").startswith("https:")

    async def refused(self, action: str, via: str, address: str | None, problem: str, known: TokenRow | None) -> None:
        """Somebody showed a secret that opens nothing. The audit log says so, and not what it was."""
        actor = Actor(known.name if known else "unknown", via, address)
        target = f"token:{known.name}" if known else "service"
        tenant = known.tenant if known and known.tenant else ""
        await self.engine.group.do(Record(entry(actor, action, target, tenant=tenant, detail=problem)))


def access_of(request: Request) -> Access:
    access: Access = request.app.state.access
    return access


def address_of(request: Request) -> str | None:
    return request.client.host if request.client else None
