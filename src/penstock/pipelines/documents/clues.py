"""What a page gives away about itself: which currencies it shows, which country its addresses are in, and whether it
writes the day or the month first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from penstock.pipelines.documents.currencies import CODES, SIGNS
from penstock.pipelines.documents.sheet import Sheet
from penstock.pipelines.documents.values import iban_valid, vat_id_valid

_US_STATES = """
AL AK AZ AR CA CO CT FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR PA RI SC SD
TN TX UT VT VA WA WV WI WY DC
"""
"""Without Delaware, whose letters are Germany's."""
US_STATES = frozenset(_US_STATES.split())

COUNTRIES = {
    "usa": "USD",
    "u.s.a": "USD",
    "united states": "USD",
    "canada": "CAD",
    "australia": "AUD",
    "new zealand": "NZD",
    "singapore": "SGD",
    "hong kong": "HKD",
    "mexico": "MXN",
    "india": "INR",
    "pakistan": "PKR",
    "sri lanka": "LKR",
    "sweden": "SEK",
    "sverige": "SEK",
    "norway": "NOK",
    "norge": "NOK",
    "denmark": "DKK",
    "danmark": "DKK",
    "iceland": "ISK",
    "japan": "JPY",
    "china": "CNY",
    "switzerland": "CHF",
    "schweiz": "CHF",
    "suisse": "CHF",
    "malaysia": "MYR",
}
"""Names of countries whose currency has a sign that others use too, and what it is called there."""

SHARED = {
    "$": frozenset({"USD", "CAD", "AUD", "NZD", "SGD", "HKD", "MXN"}),
    "¥": frozenset({"JPY", "CNY"}),
    "kr": frozenset({"SEK", "NOK", "DKK", "ISK"}),
    "rs": frozenset({"INR", "PKR", "LKR"}),
    "fr": frozenset({"CHF"}),
}

_MONTH_FIRST = frozenset({"USD"})
_SIGN_CHARACTERS = re.compile("[" + "".join(sign for sign in SIGNS if len(sign) == 1) + "$¥]")
_NUMERIC = re.compile(r"^([0-9]{1,2})[-/]([0-9]{1,2})[-/][0-9]{2,4}")
_IBAN_START = re.compile(r"^[A-Z]{2}[0-9]{2}")
_VAT_START = re.compile(r"^(?:[A-Z]{2}U?|CHE-?)[0-9][0-9A-Z.\-]{1,14}$")
_EURO = "AT BE CY DE EE ES FI FR GR EL HR IE IT LT LU LV MT NL PT SI SK"
EURO_COUNTRIES = frozenset(_EURO.split())
_MONEY_OF = {"GB": "GBP", "CH": "CHF", "DK": "DKK", "SE": "SEK", "PL": "PLN", "CZ": "CZK", "HU": "HUF", "NO": "NOK"}


@dataclass
class Clues:
    """Worked out when asked for."""

    sheet: Sheet

    @cached_property
    def currencies(self) -> frozenset[str]:
        """Codes the page shows by code, name or a sign of their own."""
        found: set[str] = set()
        for row in self.sheet.rows:
            for at, word in enumerate(row.words):
                text = word.text
                bare = row.plain[at].upper()
                if len(bare) == 3 and bare in CODES and text.strip(".,:;()[]").isupper():
                    found.add(bare)
                elif not text.isascii() or "$" in text:
                    found.update(code for sign, code in SIGNS.items() if sign in text and not sign.isalpha())
                elif text == "RM" or (text.startswith("RM") and text[2:3].isdigit()):
                    found.add("MYR")
                elif row.plain[at] in ("euro", "euros"):
                    found.add("EUR")
        return frozenset(found)

    @cached_property
    def shared_signs(self) -> frozenset[str]:
        """Signs of several countries that stand at amounts."""
        found: set[str] = set()
        for number in self.sheet.numbers:
            row = self.sheet.rows[number.spot.row]
            before = row.plain[number.spot.first - 1] if number.spot.first else ""
            text = number.spot.text.lower()
            for sign in SHARED:
                plain_sign = sign in "$¥"
                if (plain_sign and (sign in text or before == sign)) or before == sign or text.startswith(sign + "."):
                    found.add(sign)
        return frozenset(found)

    @cached_property
    def homes(self) -> frozenset[str]:
        """Currencies of the countries the page names."""
        found: set[str] = set()
        for row in self.sheet.rows:
            joined: str | None = None
            for at, word in enumerate(row.plain):
                # A state and a postcode, as in `Seattle, WA 98109`.
                if len(word) in (5, 10) and word[:5].isdigit() and at and row.plain[at - 1].upper() in US_STATES:
                    if row.words[at - 1].text.strip(",.").isupper():
                        found.add("USD")
                elif word in _FIRST_WORDS:
                    joined = joined or " ".join(row.plain)
                    found.update(home for name, home in COUNTRIES.items() if f" {name} " in f" {joined} ")
        return frozenset(found)

    @cached_property
    def day_first(self) -> bool | None:
        """How the page writes days, by those that can be read in one way only, else by its country."""
        told: set[bool] = set()
        for day in self.sheet.days:
            found = _NUMERIC.match(day.spot.text.lstrip("("))
            if found is not None and len(day.days) == 1 and found[1] != found[2]:
                told.add(int(found[1]) > 12)
        if len(told) == 1:
            return told.pop()
        if told:
            return None
        if self.homes & _MONTH_FIRST and not self.homes - _MONTH_FIRST:
            return False
        european = self.currencies - {"USD", "CAD", "PHP"}
        return True if european or self.homes - {"USD", "CAD"} else None

    @cached_property
    def accounts(self) -> tuple[list[str], list[str]]:
        """IBANs and VAT ids on the page: the right ones, and those whose check digits are wrong."""
        right: list[str] = []
        wrong: list[str] = []
        for row in self.sheet.rows[:2000]:
            for at, word in enumerate(row.words[:200]):
                if not _IBAN_START.match(word.text) and not _VAT_START.match(word.text):
                    continue
                joined = ""
                for end in range(at, min(at + 9, len(row.words))):
                    joined += row.words[end].text
                    if iban_valid(joined) or vat_id_valid(joined.strip(".,;")):
                        right.append(joined)
                        break
                else:
                    labelled = at and row.plain[at - 1] in ("iban", "iban-nr")
                    if labelled and len(joined) >= 15:
                        wrong.append(joined[:34])
        return right, wrong

    @cached_property
    def money_of_accounts(self) -> frozenset[str]:
        """The currencies of the countries of the bank accounts and VAT ids that are right."""
        return frozenset(
            "EUR" if code[:2] in EURO_COUNTRIES else _MONEY_OF[code[:2]]
            for code in self.accounts[0]
            if code[:2] in EURO_COUNTRIES or code[:2] in _MONEY_OF
        )


_FIRST_WORDS = frozenset(name.split()[0] for name in COUNTRIES)
