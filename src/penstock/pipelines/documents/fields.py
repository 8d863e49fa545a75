"""The rules of each field as data: whether an invoice must have it, and from which confidence on it needs no second
look. The queue, the checks and the review page all read them here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.pipelines.documents.model import FIELDS, FieldName


@dataclass(slots=True, frozen=True)
class FieldRule:
    """Below `threshold` a reviewer is pointed to the field; without a `required` one nothing can be approved."""

    name: FieldName
    required: bool
    threshold: float


FIELD_RULES: tuple[FieldRule, ...] = (
    FieldRule("vendor", True, 0.80),
    FieldRule("invoice_number", True, 0.85),
    FieldRule("date", True, 0.80),
    FieldRule("due_date", False, 0.70),
    FieldRule("subtotal", False, 0.75),
    FieldRule("tax_rate", False, 0.70),
    FieldRule("tax_amount", False, 0.75),
    FieldRule("total", True, 0.85),
    FieldRule("currency", False, 0.80),
    FieldRule("line_items", False, 0.70),
)

RULES: Mapping[FieldName, FieldRule] = {rule.name: rule for rule in FIELD_RULES}
REQUIRED: tuple[FieldName, ...] = tuple(rule.name for rule in FIELD_RULES if rule.required)

assert tuple(RULES) == FIELDS
