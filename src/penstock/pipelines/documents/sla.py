"""What the service promises about documents, and when that is broken: pure functions over what was measured.

An *episode* begins with the first check that finds a rule broken, is told of once, and ends with the first check that
finds it kept; the same rule is told of again only after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from penstock.config.settings import DocumentsSettings

Rule = Literal["p95", "per_hour", "error_rate", "depth", "breach_rate"]
Severity = Literal["warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("warning", "critical")

HOUR, DAY = 3600.0, 86400.0
LOOK_EVERY = 300.0
"""Seconds between the moments at which documents must have been waiting, for the hour to have had a backlog."""

CRITICAL = 2.0
"""How many times beyond its bound a rule is broken critically."""


class Bounds(BaseModel):
    """What is promised; the settings `documents.sla_…`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    p95: float
    per_hour: float
    error_rate: float
    depth: int
    breach_rate: float

    @classmethod
    def of(cls, told: DocumentsSettings) -> Self:
        return cls(
            p95=told.sla_p95,
            per_hour=told.sla_per_hour,
            error_rate=told.sla_error_rate,
            depth=told.sla_depth,
            breach_rate=told.sla_breach_rate,
        )


@dataclass(slots=True, frozen=True)
class Measured:
    """Of the last hour: documents that were completed and that failed, the seconds all but one in twenty of them took
    at most, and whether documents waited all that time. Of now: open reviews. Of the last day: reviews that were
    decided or should have been, and how many of those were late."""

    completed: int = 0
    failed: int = 0
    p95: float | None = None
    backlog: bool = False
    depth: int = 0
    due: int = 0
    late: int = 0


@dataclass(slots=True, frozen=True)
class Breach:
    rule: Rule
    severity: Severity
    value: float
    bound: float


@dataclass(slots=True, frozen=True)
class Episode:
    """A breach as it is stored, that has not ended. `worst` is what was furthest from the bound."""

    id: str
    rule: Rule
    severity: Severity
    bound: float
    value: float
    worst: float
    began: float


@dataclass(slots=True, frozen=True)
class Verdict:
    """What a check changes. `graver`: goes on, and is critical for the first time."""

    begins: tuple[Breach, ...]
    goes_on: tuple[tuple[Episode, Breach], ...]
    graver: tuple[Breach, ...]
    ends: tuple[Episode, ...]


def breaches(found: Measured, bounds: Bounds) -> tuple[Breach, ...]:
    """The rules that are broken. Where there was nothing to measure, nothing is; and a service that had too little to
    do was not too slow."""
    ended = found.completed + found.failed
    measured: list[tuple[Rule, float, float]] = [("depth", found.depth, bounds.depth)]
    if found.p95 is not None:
        measured.append(("p95", found.p95, bounds.p95))
    if ended:
        measured.append(("error_rate", found.failed / ended, bounds.error_rate))
    if found.due:
        measured.append(("breach_rate", found.late / found.due, bounds.breach_rate))
    broken = [
        Breach(rule, "critical" if value > CRITICAL * bound else "warning", value, bound)
        for rule, value, bound in measured
        if value > bound
    ]
    if found.backlog and ended < bounds.per_hour:
        grave = ended < bounds.per_hour / CRITICAL
        broken.append(Breach("per_hour", "critical" if grave else "warning", ended, bounds.per_hour))
    return tuple(sorted(broken, key=lambda each: each.rule))


def judged(known: Iterable[Episode], found: Sequence[Breach]) -> Verdict:
    open_now = {episode.rule: episode for episode in known}
    broken = {breach.rule: breach for breach in found}
    goes_on = [(open_now[rule], breach) for rule, breach in broken.items() if rule in open_now]
    return Verdict(
        begins=tuple(breach for rule, breach in broken.items() if rule not in open_now),
        goes_on=tuple(goes_on),
        graver=tuple(now for before, now in goes_on if (before.severity, now.severity) == SEVERITIES),
        ends=tuple(episode for rule, episode in open_now.items() if rule not in broken),
    )


def worse(rule: Rule, one: float, other: float) -> float:
    """Of two values the one that is further from what is promised."""
    return min(one, other) if rule == "per_hour" else max(one, other)


def waited_throughout(spans: Iterable[tuple[float, float]], *, since: float, until: float) -> bool:
    """Whether at each look between `since` and `until` something was waiting; `spans` are the times it waited."""
    looks = {since + number * LOOK_EVERY for number in range(int((until - since) // LOOK_EVERY) + 1)}
    for began, ended in spans:
        looks -= {look for look in looks if began <= look < ended}
        if not looks:
            return True
    return False


TITLES: dict[Rule, str] = {
    "p95": "Documents take too long",
    "per_hour": "Too few documents are done",
    "error_rate": "Too many documents fail",
    "depth": "Too many reviews are open",
    "breach_rate": "Too many reviews are late",
}
_WORDS: dict[Rule, str] = {
    "p95": "one document in twenty took longer than {value:.1f} s in the last hour; {bound:g} s are promised",
    "per_hour": "{value:,.0f} documents in the last hour while more were waiting; {bound:,.0f} are promised",
    "error_rate": "{value:.1%} of the documents of the last hour failed; at most {bound:.2%} may",
    "depth": "{value:,.0f} reviews are open; at most {bound:,.0f} should be",
    "breach_rate": "{value:.2%} of the reviews of the last day were late; at most {bound:.2%} may be",
}


def words(rule: Rule, value: float, bound: float) -> str:
    return _WORDS[rule].format(value=value, bound=bound)
