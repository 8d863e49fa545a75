"""When a failed step is tried again, and when it is not."""

from __future__ import annotations

import random
from dataclasses import dataclass

from penstock.engine.errors import Ambiguous, Blocked, InvalidRequest, Outdated, OverBudget, Permanent, RateLimited

SOON = 0.25
"""Seconds at most after which a step looks again at rows that others changed meanwhile."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Retry:
    """A step's retry policy.

    `attempts` counts every try, the first too. The n-th retry waits `base · factor^(n-1)` seconds, at most `cap`,
    moved by up to ± `jitter` of itself so that a thousand failures do not come back in the same second. `fatal` names
    exception types that fail at once, beside `Permanent` and `InvalidRequest`; `Outdated` is tried again at once. Rate
    limits have a budget of their own (`rate_limited`): they say nothing about the job.
    """

    attempts: int = 5
    base: float = 1.0
    factor: float = 2.0
    cap: float = 300.0
    jitter: float = 0.1
    fatal: tuple[type[BaseException], ...] = ()
    rate_limited: int = 200

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.rate_limited < 0:
            raise InvalidRequest("Retry: attempts must be at least 1, and rate_limited not negative")
        if self.base < 0 or self.factor < 1 or self.cap < 0 or not 0 <= self.jitter <= 1:
            raise InvalidRequest("Retry: base and cap must not be negative, factor at least 1, jitter 0 to 1")

    def delay(self, failure: int, rng: random.Random) -> float:
        """Seconds to wait after the `failure`-th failed try (1 for the first)."""
        exponent = min(failure - 1, 60)
        wait = min(self.cap, self.base * self.factor**exponent)
        return wait * (1 + self.jitter * (2 * rng.random() - 1))


@dataclass(slots=True, frozen=True)
class Verdict:
    """What to do about a failed step. `after` is None when it is not tried again."""

    after: float | None
    parks: bool = False
    throttled: bool = False


def judge(error: BaseException, policy: Retry, *, attempt: int, throttled: int, rng: random.Random) -> Verdict:
    """Decide by the error's type: pure, so that every delivery decides alike."""
    if isinstance(error, Ambiguous | OverBudget):
        return Verdict(None, parks=True)
    if isinstance(error, Outdated) and attempt < policy.attempts:
        return Verdict(min(policy.delay(attempt, rng), SOON))
    if isinstance(error, Permanent | InvalidRequest) or (policy.fatal and isinstance(error, policy.fatal)):
        return Verdict(None)
    if isinstance(error, RateLimited):
        if throttled >= policy.rate_limited and not isinstance(error, Blocked):
            return Verdict(None)
        own = policy.delay(throttled + 1, rng)
        return Verdict(own if error.retry_after is None else max(error.retry_after, 0.0), throttled=True)
    if attempt >= policy.attempts:
        return Verdict(None)
    return Verdict(policy.delay(attempt, rng))
