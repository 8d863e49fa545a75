"""What is stored of an invoice is read back as it was."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as some

from penstock.pipelines.documents.model import InvoiceData

amounts = some.decimals(min_value=-(10**9), max_value=10**9, places=4) | some.decimals(-9999, 9999, places=3)


@given(amounts, some.decimals(0, 100, places=3), amounts)
def test_an_amount_is_read_back_from_json_as_it_was(total: Decimal, rate: Decimal, quantity: Decimal) -> None:
    """Three decimals look like thousands: of `1.500` nobody knows which it is."""
    data = InvoiceData(total=total, tax_rate=rate, line_items=({"quantity": quantity},))  # type: ignore[arg-type]
    assert InvoiceData.model_validate_json(data.model_dump_json()) == data
    assert InvoiceData.model_validate(data.model_dump(mode="json")) == data
