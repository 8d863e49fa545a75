"""The rules of documents and their review: how urgent one is, what counts of a field, what a correction is."""

from __future__ import annotations

import math
import sqlite3
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.documents import rules, standing
from penstock.pipelines.documents.confidence import overall
from penstock.pipelines.documents.fields import FIELD_RULES
from penstock.pipelines.documents.model import FIELDS, ExtractionResult, FieldConfidence, InvoiceData
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
        database.execute(standing.STANDS, {"now": NOW})
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


confidences = some.lists(some.floats(0, 0.99), min_size=len(FIELDS), max_size=len(FIELDS))
nearly_sure = some.tuples(some.integers(0, len(FIELDS) - 1), some.floats(0.65, 0.95)).map(
    lambda told: [told[1] if number == told[0] else 0.95 for number in range(len(FIELDS))]
)


def extraction(data: InvoiceData, sure: list[float], findings: tuple[str, ...] = ()) -> ExtractionResult:
    shown = data.model_dump(mode="json")
    fields = [
        FieldConfidence(field_name=name, value=shown[name], confidence=confidence)
        for name, confidence in zip(FIELDS, sure, strict=True)
    ]
    return ExtractionResult(
        document_id="d", filename="f", invoice_data=data, field_confidences=tuple(fields),
        overall_confidence=overall(fields), extracted_at=datetime(2026, 1, 1, tzinfo=UTC), processing_time_seconds=0.0,
        content_hash="h", model="m", findings=findings,
    )  # fmt: skip


@given(invoices, confidences, some_values)
def test_what_a_person_locked_is_certain(data: InvoiceData, sure: list[float], told: dict[str, Any]) -> None:
    before, locked = extraction(data, sure), as_json(told)
    after = rules.certified(before, locked)
    counts = rules.effective(data, locked).model_dump(mode="json")
    for old, new in zip(before.field_confidences, after.field_confidences, strict=True):
        if new.field_name in locked:
            assert (new.confidence, new.value) == (1.0, counts[new.field_name])
            assert [check.name for check in new.checks] == ["locked"]
        else:
            assert new == old
    assert after.overall_confidence == (overall(after.field_confidences) if locked else before.overall_confidence)
    assert not set(rules.doubtful(after.field_confidences)) & locked.keys()
    # What was extracted stays what it was, for whoever unlocks it.
    assert after.invoice_data == data


@given(invoices, confidences, some.sets(some.sampled_from(FIELDS)))
def test_a_document_is_surer_for_each_value_that_a_person_vouches_for(
    data: InvoiceData, sure: list[float], names: set[str]
) -> None:
    shown = data.model_dump(mode="json")
    locked = {name: shown[name] for name in FIELDS if name in names and shown[name] not in (None, [])}
    before = extraction(data, sure)
    after = rules.certified(before, locked)
    assert after.overall_confidence >= before.overall_confidence
    everything = {name: value for name, value in shown.items() if value is not None}
    if not rules.missing(data):
        assert rules.certified(before, everything).overall_confidence == 1.0


@given(invoices, confidences | nearly_sure, some.booleans())
def test_only_what_is_complete_sure_and_uncontested_is_approved_with_many(
    data: InvoiceData, sure: list[float], contested: bool
) -> None:
    result = extraction(data, sure, ("the page contradicts its e-invoice",) if contested else ())
    seen = rules.seen(rules.record(result, {}, "pending"))
    thresholds = {rule.name: rule.threshold for rule in FIELD_RULES}
    enough = all(each.confidence >= thresholds[each.field_name] for each in result.field_confidences)
    assert seen.approvable == (enough and not contested and not rules.missing(data))
    assert seen.weight == rules.weight(seen.confidence, seen.lines, seen.total)
    # Vouched for, it lacks nothing but what it has no value for; what speaks against it stands.
    certain = rules.seen(rules.record(result, data.model_dump(mode="json"), "pending"))
    assert certain.approvable == (not contested and not rules.missing(data))
