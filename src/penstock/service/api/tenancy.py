"""Whose things a request is about. A principal of one tenant sees nothing else, and cannot name another."""

from __future__ import annotations

from penstock.engine.model import DEFAULT_TENANT
from penstock.service.access.principal import Principal
from penstock.service.api.problems import forbidden


def seen_by(principal: Principal, asked: str | None) -> str | None:
    """The tenant whose things are listed; None: all of them."""
    if principal.tenant is not None and asked not in (None, principal.tenant):
        raise forbidden("this token belongs to another tenant")
    return principal.tenant or asked


def owner_for(principal: Principal, asked: str | None) -> str:
    """The tenant that what is made will belong to."""
    return seen_by(principal, asked) or DEFAULT_TENANT
