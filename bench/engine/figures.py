"""The figures of all rounds, and why some are missing."""

from __future__ import annotations

import statistics

from bench.table import figure


class Figures:
    def __init__(self) -> None:
        self._runs: dict[str, dict[int, dict[str, float]]] = {}
        """By contestant and round; what is measured once in a run belongs to round 0."""
        self._reasons: dict[str, dict[str, list[str]]] = {}
        """By contestant: what went wrong, and in which parts."""

    def add(self, contestant: str, round_number: int, found: dict[str, float]) -> None:
        self._runs.setdefault(contestant, {}).setdefault(round_number, {}).update(found)

    def not_measured(self, contestant: str, part: str, reason: str) -> None:
        parts = self._reasons.setdefault(contestant, {}).setdefault(reason, [])
        if part not in parts:
            parts.append(part)

    def reasons(self) -> list[str]:
        """Why figures are missing, one line for each contestant and cause."""
        return [
            f"{contestant} ({', '.join(parts)}): {reason}"
            for contestant, causes in self._reasons.items()
            for reason, parts in causes.items()
        ]

    def in_words(self, contestant: str, round_number: int) -> str:
        """One run in one line, for those who watch."""
        found = self._runs.get(contestant, {}).get(round_number, {})
        return ", ".join(f"{name} {figure(value)}" for name, value in found.items()) or "nothing"

    def median(self, contestant: str, measure: str) -> float | None:
        values = [run[measure] for run in self._runs.get(contestant, {}).values() if measure in run]
        return statistics.median(values) if values else None

    def advantage(self, ours: str, peer: str, measure: str, *, higher_is_better: bool) -> float | None:
        """How many times better we are: the median of the ratios within each round, where both were measured."""
        our_rounds, ratios = self._runs.get(ours, {}), []
        for number, run in self._runs.get(peer, {}).items():
            our, their = our_rounds.get(number, {}).get(measure), run.get(measure)
            if our and their:
                ratios.append(our / their if higher_is_better else their / our)
        return statistics.median(ratios) if ratios else None
