"""Who asks, and the record of what they did. What is asked with an actor is audited in the transaction that does it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from penstock.engine.clock import SystemClock
from penstock.engine.identity import id_source

_new_id = id_source(SystemClock(), random.SystemRandom())


@dataclass(slots=True, frozen=True)
class Actor:
    """Who asks: the name of a token or of a person, by which way, and from where."""

    name: str
    via: str = "python"
    address: str | None = None


@dataclass(slots=True, frozen=True)
class AuditEntry:
    """One thing that somebody did, or tried: `action` (`job.pause`) on `target` (`job:ID`). A tenant that is left empty
    is the one of what the action was done to."""

    id: str
    actor: str
    action: str
    target: str
    tenant: str = ""
    via: str = "python"
    address: str | None = None
    detail: str | None = None


@dataclass(slots=True, frozen=True)
class AuditRow:
    """An entry as it is kept."""

    id: str
    at: float
    actor: str
    action: str
    target: str
    tenant: str
    via: str
    address: str | None
    detail: str | None


AUDIT_COLUMNS = ("id", "at", "actor", "action", "target", "tenant", "via", "address", "detail")


def entry(actor: Actor | str, action: str, target: str, *, tenant: str = "", detail: str | None = None) -> AuditEntry:
    """An entry to be written. Its id makes sure that it is written once, whatever becomes of the COMMIT."""
    who = Actor(actor) if isinstance(actor, str) else actor
    return AuditEntry(_new_id(), who.name, action, target, tenant, who.via, who.address, detail)


def name_of(actor: Actor | str | None) -> str | None:
    return actor.name if isinstance(actor, Actor) else actor
