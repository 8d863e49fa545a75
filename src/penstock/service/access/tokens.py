"""Tokens: how a secret is made, what is kept of it, and whether one that is shown opens anything.

A secret is 256 random bits, so nobody finds it by trying, and a slow hash (which protects what people think up) would
protect nothing here and cost every request its time. The store keeps the SHA-256 alone and finds a token by it: what an
attacker could learn from how long the search takes is about the hash, which tells nothing about the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from penstock.engine.audit import Actor, entry
from penstock.engine.errors import InvalidRequest, StoreError
from penstock.engine.identity import checked_name
from penstock.engine.requests import Requests
from penstock.service.access.principal import SCOPES
from penstock.store.protocol import Asked, PutToken, RevokeToken, Store, TokenRow, TouchToken
from penstock.times import length

PREFIX = "penstock_"
_SECRET = re.compile(r"penstock_[A-Za-z0-9_-]{43}\Z")

TOUCH_EVERY = 60.0
"""Seconds between two notes of when a token was last used."""

LONGEST_LIFE = 100 * 365 * 86_400.0


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def checked_scopes(scopes: Iterable[str]) -> str:
    """The scopes as a token keeps them: each once, in their order."""
    asked = set(scopes)
    if unknown := sorted(asked.difference(SCOPES)):
        raise InvalidRequest(f"there is no scope {unknown[0]!r}: use {', '.join(SCOPES)}")
    if not asked:
        raise InvalidRequest(f"a token needs a scope: {', '.join(SCOPES)}")
    return " ".join(scope for scope in SCOPES if scope in asked)


def standing(token: TokenRow, now: float) -> str:
    """`usable`, `revoked` or `expired`."""
    if token.revoked is not None:
        return "revoked"
    return "expired" if token.expires is not None and token.expires <= now else "usable"


async def create_token(
    engine: Requests,
    name: str,
    *,
    scopes: Iterable[str],
    actor: Actor,
    tenant: str | None = None,
    expires_in: float | None = None,
) -> tuple[TokenRow, str]:
    """A new token and its secret, which is nowhere else from now on. A name that any token had is refused, so that
    the audit log never means two tokens by one name."""
    if expires_in is not None and not 0 < expires_in <= LONGEST_LIFE:
        raise InvalidRequest("a token must be good for more than 0 seconds and at most 100 years")
    secret = new_secret()
    now = await engine.store.now()
    token = TokenRow(
        id=engine.new_id(),
        name=checked_name("token", name),
        hash=hash_of(secret),
        scopes=checked_scopes(scopes),
        tenant=None if tenant is None else checked_name("tenant", tenant),
        created=now,
        expires=None if expires_in is None else now + expires_in,
    )
    told = f"{token.scopes}; {'all tenants' if tenant is None else f'tenant {tenant}'}"
    if expires_in is not None:
        told += f"; good for {length(expires_in)}"
    audit = entry(actor, "token.create", f"token:{name}", tenant=tenant or "", detail=told)
    kept: TokenRow = await engine.group.do(Asked(PutToken(token), audit=audit))
    return kept, secret


async def revoke_token(engine: Requests, name: str, *, actor: Actor) -> TokenRow:
    """The token and the sessions that were begun with it open nothing any more."""
    audit = entry(actor, "token.revoke", f"token:{name}")
    revoked: TokenRow = await engine.group.do(Asked(RevokeToken(name), audit=audit))
    return revoked


async def tokens_exist(store: Store) -> bool:
    """Whether there is a token that opens something."""
    now = await store.now()
    return any(standing(token, now) == "usable" for token in await store.tokens())


@dataclass(slots=True, frozen=True)
class Verdict:
    """What became of a secret that was shown: the token if it is good, otherwise why not, and what is known of it."""

    token: TokenRow | None
    problem: str | None = None
    known: TokenRow | None = None


class TokenDesk:
    """Looks at tokens. There is no cache: a revoked token opens nothing from the next request on."""

    def __init__(self) -> None:
        self._touched: dict[str, float] = {}

    async def verify(self, engine: Requests, secret: str) -> Verdict:
        if not _SECRET.match(secret):
            return Verdict(None, "it is not a token of Penstock")
        hashed = hash_of(secret)
        found = await engine.store.tokens(hash=hashed)
        if not found or not hmac.compare_digest(found[0].hash, hashed):
            return Verdict(None, "there is no such token")
        return await self.look_at(engine, found[0])

    async def look_at(self, engine: Requests, token: TokenRow) -> Verdict:
        """Whether a token still opens something; if so it is noted as used, once a minute."""
        now = await engine.store.now()
        state = standing(token, now)
        if state != "usable":
            return Verdict(None, f"the token {token.name} is {state}", token)
        last = max(token.used or 0.0, self._touched.get(token.id, 0.0))
        if now - last >= TOUCH_EVERY:
            self._touched[token.id] = now
            # A store that cannot be written is no reason to refuse a question.
            with suppress(StoreError):
                await engine.group.do(TouchToken(token.id))
        return Verdict(token)
