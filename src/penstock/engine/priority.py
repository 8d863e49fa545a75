"""Who goes first: priority that grows with age, evaluated at the moment of the claim.

A *class* is (base, period, cap). Within one class priority never falls with age, so the oldest job of a class is its
best one: a claim compares one head per class instead of every job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.engine.errors import InvalidRequest

TOP = 100
SLOWEST = 366 * 86_400
"""Seconds for one point; more than a year is no ageing at all."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Priority:
    """How urgent a job is: `base` 0 to 100, plus one point for every `ageing` seconds waited, up to `cap` points.

    `ageing=None` switches ageing off. `aged_from` (seconds since the epoch) sets from when age is counted; None: from
    submit.
    """

    base: int = 50
    ageing: int | None = 3600
    cap: int = 20
    aged_from: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("base", self.base), ("cap", self.cap)):
            if not isinstance(value, int) or not 0 <= value <= TOP:
                raise InvalidRequest(f"Priority: {name} must be a whole number from 0 to {TOP}, not {value!r}")
        if self.ageing is not None and (not isinstance(self.ageing, int) or not 1 <= self.ageing <= SLOWEST):
            raise InvalidRequest(
                f"Priority: ageing must be whole seconds, 1 to {SLOWEST}, or None, not {self.ageing!r}"
            )


def effective(base: int, period: int, cap: int, age: float) -> float:
    """The priority of a job now. A period of 0 means that it does not age."""
    if period <= 0 or age <= 0:
        return float(base)
    return min(float(TOP), base + min(age / period, float(cap)))


@dataclass(slots=True, frozen=True)
class Head:
    """A candidate: the n-th oldest ready job of its lane."""

    lane: str
    aged_from: float
    id: str
    base: int
    period: int
    cap: int

    def rank(self, now: float) -> tuple[float, float, str]:
        """Sorts best first: highest priority, then oldest, then lowest id."""
        return (-effective(self.base, self.period, self.cap, now - self.aged_from), self.aged_from, self.id)


def oldest(heads: Sequence[Head]) -> Head:
    """Whom `fair_share` favours, whatever their priority."""
    return min(heads, key=lambda h: (h.aged_from, h.id))


def best(heads: Sequence[Head], now: float) -> Head:
    return min(heads, key=lambda h: h.rank(now))
