"""Printed values to exact ones: what is written in the ways of several countries is read as what was meant."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.documents.currencies import CODES
from penstock.pipelines.documents.model import InvoiceData, LineItem
from penstock.pipelines.documents.values import (
    iban_valid,
    money_text,
    parse_currency,
    parse_date,
    parse_money,
    parse_percent,
    vat_id_valid,
)

AMOUNTS = st.integers(-(10**14), 10**14).map(lambda cents: Decimal(cents) / 100)
DAYS = st.dates(date(1970, 1, 1), date(2069, 12, 31))


def grouped(value: Decimal, thousands: str, point: str) -> str:
    return f"{value:,.2f}".replace(",", "\0").replace(".", point).replace("\0", thousands)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1.234,56", "1234.56"),
        ("1,234.56", "1234.56"),
        ("1 234,56", "1234.56"),
        ("1\u202f234,56", "1234.56"),
        ("1'234.56", "1234.56"),
        ("1\u2019234.56", "1234.56"),
        ("1,23,456.78", "123456.78"),
        ("1.234.567", "1234567"),
        ("(12.00)", "-12.00"),
        ("12,00-", "-12.00"),
        ("\u221212.00", "-12.00"),
        ("12,-", "12"),
        ("€ 12", "12"),
        ("EUR 12.00", "12.00"),
        ("12.00 €", "12.00"),
        ("-€12.50", "-12.50"),
        ("($1,234.50)", "-1234.50"),
        ("Fr. 12.50", "12.50"),
        ("RM 5.00", "5.00"),
        (".50", "0.50"),
        ("0.0250", "0.0250"),
    ],
)
def test_an_amount_is_read_as_it_was_meant(text: str, meant: str) -> None:
    read = parse_money(text)
    assert read == Decimal(meant)
    assert str(read) == meant


def test_one_separator_with_three_digits_parts_thousands() -> None:
    assert parse_money("1.234") == parse_money("1,234") == 1234
    assert parse_money("0.234") == Decimal("0.234")
    assert parse_money("1.2345") == Decimal("1.2345")
    assert parse_percent("8.875 %") == Decimal("8.875")


@pytest.mark.parametrize(
    "text", ["abc", "12 apples", "1.2.3", "12.345.67", "1e5", "1 2", "--5", "NaN", "Infinity", "9" * 16, "1" * 100]
)
def test_what_is_no_amount_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="amount") as refused:
        parse_money(text)
    assert text[:20] in str(refused.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("sNaN"), True, [], 10**15])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"amount|finite"):
        parse_money(value)


def test_numbers_stay_exact() -> None:
    assert str(parse_money(0.1)) == "0.1"
    assert parse_money(12) == 12
    assert str(parse_money(Decimal("12.300"))) == "12.300"
    assert str(parse_money("-0.00")) == "0.00"
    assert parse_money("") is parse_money("  ") is parse_money(None) is None


@given(
    AMOUNTS, st.sampled_from([(",", "."), (".", ","), (" ", ","), ("\u00a0", ","), ("'", "."), ("", "."), ("", ",")])
)
def test_every_printed_form_is_read_back(value: Decimal, marks: tuple[str, str]) -> None:
    assert parse_money(grouped(value, *marks)) == value


@given(AMOUNTS, st.sampled_from(["{} €", "€ {}", "EUR {}", "{} USD", "{}\u00a0CHF", "£{}"]))
def test_a_currency_beside_an_amount_does_not_matter(value: Decimal, form: str) -> None:
    assert parse_money(form.format(grouped(value, ".", ","))) == value


@given(
    st.decimals(-(10**12), 10**12, allow_nan=False, places=None).filter(
        lambda value: abs(value.as_tuple().exponent) <= 10
    )
)  # type: ignore[arg-type]
def test_what_is_written_is_read_back(value: Decimal) -> None:
    assert parse_money(money_text(value)) == value


def test_three_decimals_survive_being_written() -> None:
    assert money_text(Decimal("1.234")) == "1.2340"
    assert parse_money(money_text(Decimal("1.234"))) == Decimal("1.234")


@given(st.text(max_size=80))
def test_any_text_is_an_amount_or_refused(text: str) -> None:
    for parse in (parse_money, parse_percent, parse_date, parse_currency):
        try:
            parse(text)
        except ValueError as error:
            assert str(error)


def test_a_percentage_is_within_a_hundred() -> None:
    assert parse_percent("19 %") == parse_percent("19,00%") == parse_percent(19) == 19
    assert parse_percent("0.19") == Decimal("0.19")
    with pytest.raises(ValueError, match="between 0 and 100"):
        parse_percent("190 %")


MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "nl": "januari februari maart april mei juni juli augustus september oktober november december",
}


@given(
    DAYS,
    st.sampled_from(sorted(MONTHS)),
    st.sampled_from(["{0} {1} {2}", "{0}. {1} {2}", "{1} {0}, {2}", "{0}-{1}-{2}"]),
)
def test_days_with_a_named_month_are_read_back(day: date, language: str, form: str) -> None:
    name = MONTHS[language].split()[day.month - 1]
    assert parse_date(form.format(day.day, name, day.year)) == day
    assert parse_date(form.format(day.day, name.upper(), day.year)) == day


@given(DAYS, st.sampled_from("./-"), st.booleans(), st.sampled_from(["{:02}", "{}"]), st.booleans())
def test_days_in_numbers_are_read_back(day: date, mark: str, day_first: bool, digits: str, short: bool) -> None:
    parts = [day.day, day.month] if day_first else [day.month, day.day]
    year = f"{day.year % 100:02}" if short else str(day.year)
    text = mark.join([*(digits.format(part) for part in parts), year])
    assert parse_date(text, day_first=day_first) == day
    assert parse_date(day.isoformat(), day_first=day_first) == day


def test_the_day_comes_first_where_nothing_tells() -> None:
    assert parse_date("03/04/2024") == date(2024, 4, 3)
    assert parse_date("03/04/2024", day_first=False) == date(2024, 3, 4)
    assert parse_date("12/31/2024") == date(2024, 12, 31)
    assert parse_date("31/12/2024", day_first=False) == date(2024, 12, 31)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("1er août 2023", date(2023, 8, 1)),
        ("Monday, March 5, 2024", date(2024, 3, 5)),
        ("5th of March 2024", date(2024, 3, 5)),
        ("Mar. 5, 2024", date(2024, 3, 5)),
        ("05MAR2024", date(2024, 3, 5)),
        ("30 MAR 18", date(2018, 3, 30)),
        ("5 juil. 2024", date(2024, 7, 5)),
        ("20240305", date(2024, 3, 5)),
        ("2024-03-05T10:00:00Z", date(2024, 3, 5)),
        ("1.2.69", date(2069, 2, 1)),
        ("1.2.70", date(1970, 2, 1)),
    ],
)
def test_other_ways_to_write_a_day(text: str, day: date) -> None:
    assert parse_date(text) == day


def test_a_day_may_come_as_one() -> None:
    assert parse_date(datetime(2024, 3, 5, 12)) == parse_date(date(2024, 3, 5)) == date(2024, 3, 5)
    assert parse_date(None) is parse_date(" ") is None


@pytest.mark.parametrize(
    "value", ["31.02.2024", "5 jui 2024", "March 2024", "2024", "32/13/2024", "1.1.1066", 5, "x" * 99]
)
def test_what_is_no_day_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"date|day|year"):
        parse_date(value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("€", "EUR"),
        ("eur", "EUR"),
        ("Euro", "EUR"),
        ("£", "GBP"),
        ("US$", "USD"),
        ("CHF", "CHF"),
        ("zł", "PLN"),
        ("", None),
    ],
)
def test_a_currency_is_its_code(text: str, code: str | None) -> None:
    assert parse_currency(text) == code


@given(st.sampled_from(sorted(CODES)))
def test_every_code_is_itself(code: str) -> None:
    assert parse_currency(code) == parse_currency(f" {code.lower()} ") == code


@pytest.mark.parametrize("text", ["$", "kr", "Rs.", "¥", "dollars"])
def test_a_sign_of_several_countries_is_not_guessed(text: str) -> None:
    with pytest.raises(ValueError, match=r"several countries.*ISO 4217"):
        parse_currency(text)


@pytest.mark.parametrize("text", ["XYZ", "money", 5, "E" * 99])
def test_what_is_no_currency_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="currency"):
        parse_currency(text)


def test_a_bank_account_has_its_check_digits() -> None:
    assert iban_valid("DE89 3704 0044 0532 0130 00")
    assert iban_valid("gb82west12345698765432")
    assert not iban_valid("DE89 3704 0044 0532 0130 01")
    assert not iban_valid("DE89 3704 0044 0532 0103 00")
    assert not iban_valid("DE8937040044053201300")
    assert not iban_valid("hello")


VAT_IDS = "DE136695976 ATU13585627 BE0428759497 CHE-116.281.710 FR40303265045 NL004495445B01 GB980780684 IT00743110157"


@pytest.mark.parametrize(
    "text", [*VAT_IDS.split(), "LU15027442", "DK13585628", "PL8567346215", "FI20774740", "PT501964843"]
)
def test_a_vat_id_has_its_check_digits(text: str) -> None:
    assert vat_id_valid(text)
    wrong = text[:-1] + str((int(text[-1]) + 1) % 10)
    assert not vat_id_valid(wrong) or text.startswith("NL")


def test_a_vat_id_of_an_unknown_form_is_none() -> None:
    assert not vat_id_valid("US123456789")
    assert not vat_id_valid("DE12345678")
    assert vat_id_valid("CHE-116.281.710 MWST")
    assert not vat_id_valid("NL004495446B01")


def test_the_data_of_an_invoice_take_printed_values() -> None:
    data = InvoiceData(
        total="1.234,56 €", date="5. März 2024", tax_rate="19 %", currency="€", line_items=[LineItem(total="12,00-")]
    )  # type: ignore[arg-type]
    assert (data.total, data.date, data.tax_rate, data.currency) == (Decimal("1234.56"), date(2024, 3, 5), 19, "EUR")
    assert data.line_items[0].total == Decimal("-12.00")
