"""Who is asking, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.engine.audit import Actor
from penstock.engine.errors import NotFound

Scope = Literal["read", "operate", "review", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "operate", "review", "admin")

_IMPLIED: dict[str, frozenset[str]] = {
    "read": frozenset({"read"}),
    "operate": frozenset({"read", "operate"}),
    "review": frozenset({"read", "review"}),
    "admin": frozenset(SCOPES),
}


@dataclass(slots=True, frozen=True)
class Principal:
    """A token, a browser's session of one, or somebody on this machine. `tenant` None: sees all tenants."""

    name: str
    scopes: frozenset[str]
    tenant: str | None
    via: str
    address: str | None = None
    csrf: str | None = None
    """What a form of this session must bring along; None where there is no session."""

    def may(self, scope: Scope) -> bool:
        return any(scope in _IMPLIED[held] for held in self.scopes)

    def sees(self, tenant: str) -> bool:
        return self.tenant in (None, tenant)

    def check_sees(self, tenant: str, what: str) -> None:
        """Another tenant's things are not there: the words are those for something that never was."""
        if not self.sees(tenant):
            raise NotFound(f"there is no {what}")

    @property
    def actor(self) -> Actor:
        return Actor(self.name, self.via, self.address)
