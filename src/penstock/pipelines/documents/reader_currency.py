"""The currency of an invoice: by its code, its name, a sign that stands for one currency only, or a shared sign on a
page with one country's address. It is never assumed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from penstock.pipelines.documents.reader_labels import Label
from penstock.pipelines.documents.reader_layout import Sheet
from penstock.pipelines.documents.reader_money import right_of
from penstock.pipelines.documents.reader_values import AMERICAN, CODES, SIGNS, Mark, amounts

_CODE = "|".join(sorted(CODES))
_SHARED_DOLLARS = {"US$": "USD", "S$": "SGD", "A$": "AUD", "C$": "CAD", "HK$": "HKD", "RM": "MYR"}
_NAMES = {
    "EUR": r"\beuros?\b",
    "USD": r"\bu\.?s\.?\s?dollars?\b|\bUS\$",
    "GBP": r"\bpounds?\ssterling\b",
    "CHF": r"\b(?:swiss\s|schweizer\s)?franken\b|\bswiss\sfrancs\b",
    "MYR": r"\bringgit\b",
    "INR": r"\b(?:indian\s)?rupees\b",
    "CAD": r"\bcanadian\sdollars?\b",
    "AUD": r"\baustralian\sdollars?\b",
    "SGD": r"\bsingapore\sdollars?\b",
    "JPY": r"\b(?:japanese\s)?yen\b",
}
_DOLLARS = {
    "USD": AMERICAN,
    "CAD": r"\b[ABCEGHJ-NPRSTVXY]\d[A-Z]\s?\d[A-Z]\d\b|\bCanada\b",
    "AUD": r"\bAustralia\b|\bABN\b|\b(?:NSW|VIC|QLD|TAS)\s\d{4}\b",
    "NZD": r"\bNew\sZealand\b",
    "SGD": r"\bSingapore\b",
    "HKD": r"\bHong\sKong\b|,\s?HK\b",
}
_SAID = re.compile(rf"\((?:in\s)?({_CODE})\)|\bin\s+({_CODE})\b|\b(?:Total|Betrag)\s+({_CODE})\b")


def currency(sheet: Sheet, found: Sequence[Label], mark: Mark | None) -> str | None:
    """The code, or None where nothing on the page tells, or not one thing."""
    for label in found:
        if label.kind == "currency" and (named := re.search(rf"\b({_CODE})\b", right_of(sheet, label))):
            return named[1]
    text = sheet.text
    votes, shared = _signs(sheet, mark)
    for code, pattern in _NAMES.items():
        votes[code] += 2 * bool(re.search(pattern, text, re.I))
    votes["MYR"] += len(re.findall(r"\bRM\b", text))
    votes.update("".join(codes) for codes in _SAID.findall(text))
    told = +votes
    if told:
        (best, most), *others = told.most_common(2)
        return best if not others or most >= 2 * others[0][1] else None
    if shared["$"]:
        shown = [code for code, pattern in _DOLLARS.items() if re.search(pattern, text)]
        return shown[0] if len(shown) == 1 else None
    return "INR" if shared["rs"] and re.search(r"\bIndia\b|\bGSTIN\b", text) else None


def _signs(sheet: Sheet, mark: Mark | None) -> tuple[Counter[str], Counter[str]]:
    """What stands beside amounts: how often each currency, and how often each sign that several share."""
    votes: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for cell in sheet.cells():
        for amount in amounts(cell.text, mark, scanned=sheet.scanned):
            code = SIGNS.get(amount.sign) or _SHARED_DOLLARS.get(amount.sign)
            code = code or (amount.sign if amount.sign in CODES else None)
            # A word such as RON before a figure is a code only if the figure is money.
            if code and (amount.decimals == 2 or amount.sign in SIGNS):
                votes[code] += 1
            elif amount.sign:
                shared[amount.sign.strip(".").lower()] += 1
    return votes, shared
