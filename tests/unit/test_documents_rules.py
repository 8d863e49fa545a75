"""The rules of documents and their review: how urgent one is, what counts of a field, what a correction is."""

from __future__ import annotations

import math
import sqlite3
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.documents import queue, rules
from penstock.pipelines.documents.fields import FIELD_RULES
from penstock.pipelines.documents.model import FIELDS, InvoiceData
from penstock.pipelines.documents.rules import DAY

NOW = 1_800_000_000.0
HOUR = 3600.0

words = some.text("abcdefgh ÄßéØ123", max_size=12)
amounts = some.none() | some.decimals(-(10**7), 10**7, places=2)
days = some.none() | some.dates(date(1990, 1, 1), date(2090, 1, 1))
lines = some.lists(some.fixed_dictionaries({"item": words, "total": amounts}), max_size=2)
values: dict[str, some.SearchStrategy[Any]] = {
    "vendor": some.none() | words,
    "invoice_number": some.none() | words,
    "date": days,
    "due_date": days,
    "subtotal": amounts,
    "tax_rate": some.none() | some.decimals(0, 100, places=2),
    "tax_amount": amounts,
    "total": amounts,
    "currency": some.sampled_from([None, "EUR", "GBP", "CHF"]),
    "line_items": lines,
}
invoices = some.fixed_dictionaries(values).map(InvoiceData.model_validate)
some_values = some.fixed_dictionaries({}, optional=values)


def as_json(told: dict[str, Any]) -> dict[str, Any]:
    """As a request or a row has it."""
    return {
        name: InvoiceData.model_validate({name: value}).model_dump(mode="json")[name] for name, value in told.items()
    }


def priority(confidence: float, hours_left: float, lines: int, total: float) -> float:
    weight = rules.weight(confidence, lines, total)
    return rules.priority(weight, deadline=NOW + hours_left * HOUR, now=NOW)


@pytest.mark.parametrize(
    ("confidence", "hours_left", "lines", "total", "expected"),
    [
        (0.92, 24, 2, 1200, 4.8),
        (0.5, 1, 10, 5000, 55.75),
        (0.0, 0, 100, 10_000, 100.0),
        (0.0, -48, 5000, -1_000_000, 100.0),
        (1.0, 240, 0, 0, 0.0),
        (1.0, 12, 0, 0, 15.0),
    ],
)
def test_a_priority_is_what_the_formula_says(
    confidence: float, hours_left: float, lines: int, total: float, expected: float
) -> None:
    assert priority(confidence, hours_left, lines, total) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "band"), [(100, "high"), (70, "high"), (69.99, "medium"), (40, "medium"), (39.99, "low"), (0, "low")]
)
def test_bands(value: float, band: str) -> None:
    assert rules.band(value) == band


moments = some.floats(-3 * DAY, 3 * DAY) | some.sampled_from([-DAY, 0.0, DAY, math.nextafter(DAY, 0), 1e-6])
weights = some.floats(0, 70)


@given(weights, moments, moments)
def test_a_standing_gives_the_priority_until_it_turns(weight: float, left: float, later: float) -> None:
    """And is worked out anew then, so that the priority never jumps."""
    deadline = NOW + left
    stands = rules.standing(weight, deadline=deadline, now=NOW)
    assert stands.turns is None or stands.turns > NOW
    until = NOW + abs(later) if stands.turns is None else min(NOW + abs(later), stands.turns)
    for now in (NOW, until):
        expected = rules.priority(weight, deadline=deadline, now=now)
        assert stands.priority(now) == pytest.approx(expected, abs=1e-6)
        assert 0 <= expected <= 100


@given(some.lists(some.tuples(weights, moments), min_size=1, max_size=20))
def test_the_database_works_out_the_very_same_standings(items: list[tuple[float, float]]) -> None:
    database = sqlite3.connect(":memory:")
    try:
        database.execute("CREATE TABLE review_items (weight REAL, deadline REAL, rising INT, rank REAL, turns REAL)")
        rows = [(weight, NOW + left) for weight, left in items]
        database.executemany("INSERT INTO review_items (weight, deadline) VALUES (?, ?)", rows)
        database.execute(queue._STANDS, {"now": NOW})
        found = database.execute("SELECT rising, rank, turns FROM review_items ORDER BY rowid").fetchall()
    finally:
        database.close()
    expected = [rules.standing(weight, deadline=deadline, now=NOW) for weight, deadline in rows]
    assert found == [(each.rising, each.rank, each.turns) for each in expected]


@given(invoices, some_values)
def test_what_is_locked_counts_and_the_rest_is_as_extracted(extracted: InvoiceData, told: dict[str, Any]) -> None:
    locked = as_json(told)
    counts = rules.effective(extracted, locked)
    for name in FIELDS:
        expected = InvoiceData.model_validate({name: locked[name]}) if name in locked else extracted
        assert getattr(counts, name) == getattr(expected, name), name
    assert rules.effective(counts, locked) == counts
    assert rules.differences(counts, locked) == []


@given(invoices, invoices, some_values)
def test_no_second_reading_changes_a_locked_field(
    first: InvoiceData, second: InvoiceData, told: dict[str, Any]
) -> None:
    locked = as_json(told)
    before, after = rules.effective(first, locked), rules.effective(second, locked)
    assert all(getattr(before, name) == getattr(after, name) for name in locked)
    # A difference is told of exactly where the new reading would have won.
    differing = {each.field for each in rules.differences(second, locked)}
    assert differing == {name for name in locked if getattr(after, name) != getattr(second, name)}


@given(invoices, some_values)
def test_a_correction_is_what_it_changes(before: InvoiceData, told: dict[str, Any]) -> None:
    wanted = rules.effective(before, as_json(told))
    assume(wanted != before)
    changed = rules.corrected(before, told)
    assert rules.effective(before, changed) == wanted
    assert changed.keys() == {name for name in FIELDS if getattr(before, name) != getattr(wanted, name)}
    assert {each.field for each in rules.differences(before, changed)} == changed.keys()
    with pytest.raises(InvalidRequest, match="have these values already"):
        rules.corrected(wanted, told)


@given(invoices, some.text(max_size=20).filter(lambda name: name not in FIELDS))
def test_what_is_no_field_cannot_be_corrected(before: InvoiceData, name: str) -> None:
    with pytest.raises(InvalidRequest, match="there is no field"):
        rules.corrected(before, {"total": "1.00", name: "x"})


@given(invoices)
def test_what_is_required_is_missed_where_it_has_no_value(data: InvoiceData) -> None:
    required = {rule.name for rule in FIELD_RULES if rule.required}
    assert required == {"vendor", "invoice_number", "date", "total"}
    assert set(rules.missing(data)) == {name for name in required if getattr(data, name) is None}
    free = data.model_copy(update={"total": Decimal(0)})
    assert "total" not in rules.missing(free)


@given(invoices)
def test_the_same_invoice_is_known_however_it_is_spelt(data: InvoiceData) -> None:
    key = rules.twin_key(data)
    told = data.model_dump()
    spelt = {**told, "vendor": (data.vendor or "").upper(), "invoice_number": f" {data.invoice_number or ''}. "}
    assert key is None or key == rules.twin_key(InvoiceData.model_validate(spelt))
    assert rules.twin_key(InvoiceData.model_validate({**told, "invoice_number": None})) is None
