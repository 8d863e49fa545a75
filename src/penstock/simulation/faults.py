"""What can go wrong, and how often: drawn anew for every seed, so that each seed is bad in its own way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

RANGES: dict[str, tuple[float, float]] = {
    # on every transaction of a process
    "crash before commit": (0.002, 0.03),
    "crash after commit": (0.002, 0.03),
    "store unavailable": (0.005, 0.1),
    "commit unknown, not applied": (0.005, 0.06),
    "commit unknown, applied": (0.005, 0.08),
    "slow store": (0.01, 0.15),
    # on every effect of a step, and around every step
    "crash before effect": (0.002, 0.03),
    "crash after effect": (0.002, 0.03),
    "transient error": (0.01, 0.2),
    "rate limited": (0.01, 0.15),
    "permanent error": (0.002, 0.03),
    "ambiguous error": (0.002, 0.03),
    "unknown error": (0.005, 0.1),
    "slow step": (0.01, 0.2),
    "step ignores its limit": (0.005, 0.1),
    # now and then, on a process or a clock
    "crash": (0.02, 0.3),
    "drain": (0.02, 0.3),
    "freeze": (0.02, 0.3),
    "heartbeat lost": (0.02, 0.3),
    "worker clock jumps": (0.02, 0.3),
    "store clock jumps": (0.02, 0.2),
    "outage": (0.005, 0.05),
    # on every hint
    "hint lost": (0.02, 0.6),
    "hint twice": (0.02, 0.3),
    "hint late": (0.02, 0.5),
}
"""Each fault, and the least and greatest probability a seed may give it."""

REMOTE_RANGES: dict[str, tuple[float, float]] = {
    # on every request to a provider
    "crash before sending": (0.005, 0.08),
    "crash after acceptance": (0.01, 0.2),
    "crash before the answer is stored": (0.01, 0.15),
    "prepare fails": (0.01, 0.15),
    "request lost": (0.02, 0.25),
    "reply lost": (0.02, 0.3),
    "refused for now": (0.02, 0.2),
    "refused by rate": (0.02, 0.3),
    "refused for good": (0.005, 0.05),
    "slow submit": (0.05, 0.5),
    "submit breaks its promise": (0.005, 0.05),
    "listing fails": (0.05, 0.5),
    "listing incomplete": (0.05, 0.6),
    "poll fails": (0.02, 0.4),
    "unknown state": (0.02, 0.3),
    "collect fails": (0.05, 0.5),
    "cancel fails": (0.05, 0.5),
    "cancel ignored": (0.05, 0.6),
    "cancel late": (0.05, 0.6),
    # on everything that a provider accepts
    "listing lags": (0.05, 0.8),
    "listing incomplete for long": (0.01, 0.15),
    "not known yet": (0.02, 0.4),
    "not known for long": (0.01, 0.1),
    "work is stuck": (0.01, 0.15),
    "work fails": (0.02, 0.25),
    "work expires": (0.01, 0.15),
    "result lost": (0.01, 0.15),
}
"""What can go wrong with remote calls, for seeds that make any."""

NOT_EVER: dict[str, float] = dict.fromkeys({**RANGES, **REMOTE_RANGES}, 0.0)


class Faults:
    """The dice of one run. `counts` says what was injected."""

    def __init__(self, rng: random.Random, chances: Mapping[str, float]) -> None:
        unknown = sorted(set(chances) - set(NOT_EVER))
        if unknown:
            raise ValueError(f"unknown faults: {', '.join(unknown)}; known: {', '.join(NOT_EVER)}")
        self._random = rng.random
        self._chances = {**NOT_EVER, **chances}
        self.counts: Counter[str] = Counter()
        self.stopped = False

    def hits(self, fault: str) -> bool:
        """Whether it happens now."""
        chance = self._chances[fault]
        if chance == 0.0 or self.stopped or self._random() >= chance:
            return False
        self.counts[fault] += 1
        return True

    def stop(self) -> None:
        """From now on nothing goes wrong any more, but that hints are lost: those are never promised."""
        self.stopped = True

    def hits_hint(self, fault: str) -> bool:
        if self._chances[fault] == 0.0 or self._random() >= self._chances[fault]:
            return False
        self.counts[fault] += 1
        return True


def drawn(rng: random.Random, *, remote: bool = False) -> dict[str, float]:
    """A mix for one seed: each fault is off in more than half of the seeds, and anywhere in its range in the others."""
    chances = {}
    for fault, (least, most) in ({**RANGES, **REMOTE_RANGES} if remote else RANGES).items():
        on, weight = rng.random() < 0.4, rng.random()
        chances[fault] = least * (most / least) ** weight if on else 0.0
    return chances
