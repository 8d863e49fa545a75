"""Amounts, dates, percentages and numbers of documents within running text. Finding is another task than parsing: here
it must be told what is an amount at all, what belongs to a longer number, and how this document writes its decimals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal

Mark = Literal[",", "."]

SIGNS = {"€": "EUR", "£": "GBP", "₹": "INR", "₽": "RUB", "₺": "TRY", "₪": "ILS", "₩": "KRW", "zł": "PLN", "Kč": "CZK"}
"""Signs that stand for one currency."""

CODES = frozenset({
    "AED", "AUD", "BGN", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "IDR", "ILS", "INR",
    "JPY", "KRW", "MXN", "MYR", "NOK", "NZD", "PHP", "PLN", "RON", "RUB", "SAR", "SEK", "SGD", "THB", "TRY", "UAH",
    "USD", "VND", "ZAR",
})  # fmt: skip
"""Codes that are looked for. Not every code there is: some are words."""

AMERICAN = (
    r"\b(?:AL|AK|AZ|AR|CA|CO|CT|DE|FL|GA|HI|ID|IL|IN|IA|KS|KY|LA|ME|MD|MA|MI|MN|MS|MO|MT|NE|NV|NH|NJ|NM|NY|NC|ND|OH|"
    r"OK|OR|PA|RI|SC|SD|TN|TX|UT|VT|VA|WA|WV|WI|WY|DC)\b[.,]?\s+\d{4}[\dA-Z](?:-\d{4})?\b|\bUSA\b|\bU\.S\.A\.|"
    r"\bUnited\sStates\b"
)
"""An address in the United States: state and ZIP code, or the country's name."""

MOST_DIGITS = 18
"""Digits and marks of an amount: longer numbers are of accounts, or nonsense."""

_MONEY = "|".join(
    [
        *map(re.escape, SIGNS),
        *sorted(CODES),
        r"US\$",
        r"S\$",
        r"A\$",
        r"C\$",
        r"HK\$",
        r"\$",
        "¥",
        "RM",
        r"Rs\.?",
        "Fr\\.",
        "kr",
    ]
)
_FIGURE = (
    r"\d{1,2}(?:,\d\d)+,\d{3}(?:\.\d{1,4})?(?!\d)|"
    r"\d{1,3}(?:[.,'’ ]\d{3})+(?:[.,]\d{1,4})?(?!\d)|\d+(?:[.,]\d{1,4})?(?!\d)|[.,]\d{2}(?!\d)"
)
"""Thousands as in India, thousands as elsewhere, none, cents alone."""

_AMOUNT = re.compile(
    rf"(?<![\w.,/:#-])(?P<open>\(?\s?)(?P<minus>[-\u2013\u2212]?\s?)(?P<before>(?:{_MONEY})?)\s?:?\s?(?P<minus2>[-\u2013\u2212]?\s?)"
    rf"(?P<figure>{_FIGURE})(?P<after>(?:,?-(?!\w))?(?:\s?(?:{_MONEY})(?!\w))?)(?P<close>\)?)",
)
_PERCENT = re.compile(r"(?<![\w.,])(\d{1,3}(?:[.,]\d{1,3})?)\s?(?:%|v\.\s?H\.|pct\b)")

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jänner janvier janv januari",
            "february feb februar feber février févr fevrier fév februari",
            "march mar märz mrz mär maerz mars maart mrt",
            "april apr avril avr",
            "may mai mei",
            "june jun juni juin",
            "july jul juli juillet juil",
            "august aug août aout augustus",
            "september sep sept septembre",
            "october oct oktober okt octobre",
            "november nov novembre",
            "december dec dezember dez décembre déc decembre",
        ),
        start=1,
    )
    for name in names.split()
}
_NAME = "|".join(sorted(MONTHS, key=len, reverse=True))
_ISO = re.compile(r"(?<![\d.,/-])((?:19|20)\d\d)\s?[-/.]\s?(\d{1,2})\s?[-/.]\s?(\d{1,2})(?!\d)")
_FIGURES = re.compile(r"(?<![\w.,/-])(\d{1,2})(\s?[/.]\s?|-)(\d{1,2})\2((?:19|20)\d\d|\d\d)(?![\d/]|[.,-]\d)")
_DAY_NAME = re.compile(
    rf"(?<![\d.,/])(\d{{1,2}})(?:st|nd|rd|th|er|\.)?[\s/.-]{{0,2}}(?:of\s|de\s)?({_NAME})\b\.?[\s,/.-]{{0,3}}((?:19|20)\d\d|\d\d)(?!\d)",
    re.I,
)
_NAME_DAY = re.compile(
    rf"\b({_NAME})\b\.?[\s.-]{{0,2}}(\d{{1,2}})(?:st|nd|rd|th)?\s?[,\s.-]\s?((?:19|20)\d\d)(?!\d)", re.I
)


@dataclass(frozen=True)
class Amount:
    """An amount in a text. `sign` is what stands beside it for its currency."""

    value: Decimal
    start: int
    end: int
    decimals: int
    sign: str = ""

    @property
    def money(self) -> bool:
        """Whether it looks like money: with a currency, or with two decimals."""
        return bool(self.sign) or self.decimals == 2


@dataclass(frozen=True)
class Found:
    """A date in a text. Of 3/4/2021 both readings are kept: `day_first` and `month_first`; one is None where it is
    impossible, and both are the same where the text leaves no doubt."""

    day_first: date | None
    month_first: date | None
    start: int
    end: int

    @property
    def sure(self) -> date | None:
        if self.day_first is None or self.month_first is None:
            return self.day_first or self.month_first
        return self.day_first if self.day_first == self.month_first else None

    def read(self, day_first: bool | None) -> date | None:
        if self.sure is not None or day_first is None:
            return self.sure
        return self.day_first if day_first else self.month_first


def decimal_mark(text: str) -> Mark | None:
    """Which mark this document puts before its cents, where most amounts agree."""
    marks = re.findall(r"(?<![\d.,/])\d[\d.,'’ ]*([.,])\d\d(?![\d.,/]|\s?%)", text)
    commas = marks.count(",")
    if not marks or commas * 2 == len(marks):
        return None
    return "," if commas * 2 > len(marks) else "."


def amounts(text: str, mark: Mark | None, *, scanned: bool = False) -> list[Amount]:
    """The amounts in a text, without dates, percentages, times and longer numbers. OCR sets a space between a mark and
    the cents now and then."""
    if scanned:
        text = re.sub(r"(?<=\d[.,])\s(?=\d\d(?!\d))", "", text)
    taken = [(found.start, found.end) for found in dates(text)]
    taken += [match.span() for match in _PERCENT.finditer(text)]
    out = []
    for match in _AMOUNT.finditer(text):
        start, end = match.span("figure")
        if any(start < stop and end > begin for begin, stop in taken) or _part_of_more(text, match.end()):
            continue
        value = to_decimal(match["figure"], mark)
        if value is None:
            continue
        negative = match["minus"].strip() or match["minus2"].strip() or match["after"].startswith("-")
        bracket = "(" in match["open"] and match["close"]
        sign = match["before"] or match["after"].strip(" ,-")
        out.append(Amount(-value if negative or bracket else value, start, end, _decimals(match["figure"], mark), sign))
    return out


def to_decimal(figure: str, mark: Mark | None) -> Decimal | None:
    """A figure as printed, by the document's mark; `1,234` is a thousand where the document does not say otherwise."""
    plain = re.sub(r"[\s'’]", "", figure)
    if len(plain) > MOST_DIGITS:
        return None
    last = max(plain.rfind(","), plain.rfind("."))
    if last < 0:
        return Decimal(plain)
    behind = len(plain) - last - 1
    both = "," in plain and "." in plain
    several = plain.count(plain[last]) > 1
    thousands = not both and (several or (behind == 3 and plain[last] != mark and not re.match(r"0?[.,]", plain)))
    whole, cents = (plain, "") if thousands else (plain[:last], "." + plain[last + 1 :])
    digits = re.sub(r"[.,]", "", whole) + cents
    return Decimal(digits) if re.fullmatch(r"\d*\.?\d+", digits) else None


def percents(text: str) -> list[Decimal]:
    return [value for match in _PERCENT.finditer(text) if (value := to_decimal(match[1], None)) is not None]


def dates(text: str) -> list[Found]:
    """The dates in a text, in order."""
    found: dict[int, Found] = {}
    for match in _ISO.finditer(text):
        _keep(found, match, _day(match[1], match[2], match[3]), _day(match[1], match[2], match[3]))
    for match in _DAY_NAME.finditer(text):
        day = _day(match[3], MONTHS[match[2].lower()], match[1])
        _keep(found, match, day, day)
    for match in _NAME_DAY.finditer(text):
        day = _day(match[3], MONTHS[match[1].lower()], match[2])
        _keep(found, match, day, day)
    for match in _FIGURES.finditer(text):
        first, mark, second, year = match.groups()
        day_first = _day(year, second, first)
        _keep(found, match, day_first, day_first if "." in mark else _day(year, first, second))
    return [found[start] for start in sorted(found)]


def _keep(found: dict[int, Found], match: re.Match[str], day_first: date | None, month_first: date | None) -> None:
    start, end = match.span()
    if (day_first or month_first) and not any(start < one.end and end > one.start for one in found.values()):
        found[start] = Found(day_first, month_first, start, end)


def _day(year: str, month: str | int, day: str) -> date | None:
    whole = int(year) + (2000 if int(year) < 70 else 1900) if len(year) == 2 else int(year)
    try:
        return date(whole, int(month), int(day))
    except ValueError:
        return None


def _decimals(figure: str, mark: Mark | None) -> int:
    last = max(figure.rfind(","), figure.rfind("."))
    if last < 0:
        return 0
    behind = len(figure) - last - 1
    return 0 if behind == 3 and figure[last] != mark else behind


def _part_of_more(text: str, end: int) -> bool:
    """Whether what looks like an amount goes on: as a time, a word, a number with dashes."""
    return bool(re.match(r"[:/]\d|-\d|[^\W\d_]{2,}\d|\w*_\w", text[end:]))
