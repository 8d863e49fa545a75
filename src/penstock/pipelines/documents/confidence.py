"""How checks become a confidence. A value begins with much doubt; each check that speaks for it leaves a part of the
doubt, and each that speaks against it sets an upper bound, whatever else speaks for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.pipelines.documents.fields import RULES
from penstock.pipelines.documents.model import Check, Evidence, FieldConfidence, FieldName

CONTRADICTS = "The page contradicts its e-invoice: {} is "
"""How a finding begins that a person settles by correcting the field."""

PRIOR = 0.45
"""Doubt in a value nobody has checked."""
CERTAIN = 0.99
"""No confidence is higher: the page itself may be wrong."""
MISSING_OPTIONAL = 0.85
"""Of a field an invoice need not have and the page does not seem to show. Above every threshold of such fields, and
below what counts as sure: that nothing is there has not been proved."""


@dataclass(slots=True)
class Case:
    """One field under examination."""

    name: FieldName
    value: Any
    doubt: float = PRIOR
    bound: float = CERTAIN
    evidence: Evidence | None = None
    checks: list[Check] = field(default_factory=list)

    def speaks_for(self, check: str, note: str, leaves: float) -> None:
        """`leaves` is the part of the doubt that stays."""
        self.doubt *= leaves
        self.checks.append(Check(name=check, passed=True, note=note))

    def speaks_against(self, check: str, note: str, bound: float) -> None:
        self.bound = min(self.bound, bound)
        self.checks.append(Check(name=check, passed=False, note=note))

    def says(self, check: str, note: str, *, passed: bool = True) -> None:
        """A check that changes nothing, for the reviewer to know."""
        self.checks.append(Check(name=check, passed=passed, note=note))

    @property
    def confidence(self) -> float:
        return round(max(0.0, min(self.bound, CERTAIN, 1 - self.doubt)), 3)

    def closed(self, shown: Any) -> FieldConfidence:
        return FieldConfidence(
            field_name=self.name,
            value=shown,
            confidence=self.confidence,
            evidence=self.evidence,
            checks=tuple(self.checks),
        )


def overall(confidences: Iterable[FieldConfidence], contradicted: Iterable[str] = ()) -> float:
    """Half of the weakest among the required fields and those the page contradicts, and half of the mean over the
    required fields (which count twice) and those optional ones that have a value. So one missing required field keeps
    a document below a half, and what is not there and need not be changes nothing."""
    weakest, total, weights = 1.0, 0.0, 0.0
    against = set(contradicted)
    for found in confidences:
        required = RULES[found.field_name].required
        if required or found.field_name in against:
            weakest = min(weakest, found.confidence)
        if required or found.value is not None:
            weight = 2.0 if required else 1.0
            total += weight * found.confidence
            weights += weight
    return round((weakest + total / weights) / 2, 3) if weights else 0.0
