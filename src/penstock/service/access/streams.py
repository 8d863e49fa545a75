"""Answers that go on for long: how many of them somebody may have open, and for how long they are welcome."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from penstock.engine.errors import StoreError
from penstock.service.access.guard import Reader, still_known
from penstock.service.access.principal import Principal
from penstock.service.access.refusal import Refused
from penstock.service.access.state import access_of

MOST_STREAMS = 50
"""Streams that one token, or one name where access is open, may have open at once."""
RECHECK = 60.0
"""Seconds after which it is looked whether who listens is let in still."""
COME_BACK = 10


class Welcome:
    """Whether the token or session that opened a stream is good still; asked for often, looked up once a minute."""

    def __init__(self, request: Request, principal: Principal) -> None:
        self._request = request
        self._principal = principal
        self._monotonic = access_of(request).engine.clock.monotonic
        self._looked = self._monotonic()

    async def lasts(self) -> bool:
        if self._monotonic() - self._looked < RECHECK:
            return True
        self._looked = self._monotonic()
        try:
            now = await still_known(self._request)
        except HTTPException:
            return False
        except StoreError:
            return True
        return now is not None and now.may("read") and now.tenant == self._principal.tenant


async def _counted(request: Request, principal: Reader) -> AsyncIterator[Welcome]:
    """Kept until the answer has been sent."""
    streams, who = access_of(request).streams, (principal.via, principal.name)
    if streams[who] >= MOST_STREAMS:
        told = f"{principal.name} has {MOST_STREAMS} streams open already: close one"
        raise Refused(429, told, headers={"Retry-After": str(COME_BACK)})
    streams[who] += 1
    try:
        yield Welcome(request, principal)
    finally:
        streams[who] -= 1
        if not streams[who]:
            del streams[who]


Streaming = Annotated[Welcome, Depends(_counted)]
"""For a route whose answer is a stream."""
