"""Urgency as the API says it: one number."""

from __future__ import annotations

from dataclasses import replace

from penstock.app import Penstock
from penstock.engine.priority import Priority


def urgency(penstock: Penstock, workflow: str, base: int | None) -> Priority | None:
    """The workflow's own priority, begun from another number; None: just its own."""
    return None if base is None else replace(penstock.engine.workflow(workflow).priority, base=base)
