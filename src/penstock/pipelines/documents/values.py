"""Printed values to exact ones: amounts, percentages, days and currencies in the ways Europe and America write them.
What can be read in two ways is read by a rule that is written down here, and what cannot be read is refused with a
reason; no float is ever involved."""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime
from decimal import Decimal

from penstock.pipelines.documents.checksums import iban_valid, vat_id_valid
from penstock.pipelines.documents.currencies import CODES, NAMES, NEAR_AMOUNTS, SIGNS, UNSURE

__all__ = [
    "fold",
    "iban_valid",
    "money_text",
    "parse_currency",
    "parse_date",
    "parse_money",
    "parse_percent",
    "vat_id_valid",
]

LONGEST = 64
"""Characters. No amount and no date is longer, and longer text is refused before any rule looks at it."""
LARGEST = Decimal(10) ** 15
"""Amounts from here on are refused: they are reading errors or attacks, and would not fit the tables."""
FINEST = 10
"""Digits after the point that are believed; unit prices are seldom printed with more than four."""
FIRST_YEAR, LAST_YEAR = 1900, 2199
CENTURY_TURN = 70
"""Two-digit years below are of this century, from here on of the last one."""

_SPACES = re.compile(r"[\s\u00a0\u2007\u2009\u202f]+")
_MINUS = str.maketrans({"\u2212": "-", "\u2013": "-", "\u2014": "-", "\u2019": "'", "\u00b4": "'", "`": "'"})
_ROUND = re.compile(r"[.,]\s?-{1,2}$")
_ENDS = re.compile(r"[0-9(+\-.,]")


def fold(text: str) -> str:
    """Lower case without accents, so that `März` and `Fälligkeit` are found however they were typed or recognised."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return "".join(sign for sign in plain if not unicodedata.combining(sign)).casefold()


def parse_money(value: object) -> Decimal | None:
    """An exact amount, with as many decimals as were printed; None for nothing.

    `1.234,56`, `1,234.56`, `1 234,56`, `1'234.56`, `1,23,456.78`, `(12.00)`, `12,00-`, `12,-`, `€ 12` and `EUR 12.00`
    all parse. One separator with exactly three digits behind it parts thousands: `1.234` and `1,234` are 1234, since
    amounts are seldom printed with three decimals; `0.234` is no thousands and stays 0.234, and `money_text` writes a
    value so that it is read back as itself.
    """
    if isinstance(value, str):
        return _amount(value, thousands=True)
    return _number(value, "an amount")


def parse_percent(value: object) -> Decimal | None:
    """A percentage from 0 to 100, as printed: `19 %`, `8,875%`. One separator is always a decimal point here; `0.19`
    is 0.19 percent and not 19."""
    if isinstance(value, str):
        found = _amount(value.replace("%", " ").replace("percent", " "), thousands=False)
    else:
        found = _number(value, "a percentage")
    if found is not None and not 0 <= found <= 100:
        raise ValueError(f"{_shown(value)} is no percentage between 0 and 100")
    return found


def money_text(value: Decimal) -> str:
    """The plain form of an amount, without an exponent, that `parse_money` reads back as the same value."""
    text = f"{value:f}"
    whole, _, decimals = text.partition(".")
    # Three decimals would be read as thousands.
    return text + "0" if len(decimals) == 3 and whole.lstrip("-") != "0" else text


def _number(value: object, what: str) -> Decimal | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"{_shown(value)} is not {what}: write it like 1234.56")
    # A float's shortest text is what was meant by it; its binary value is not.
    exact = value if isinstance(value, Decimal) else Decimal(str(value))
    return _within(exact, value)


def _within(exact: Decimal, shown: object) -> Decimal:
    if not exact.is_finite():
        raise ValueError(f"{_shown(shown)} is no finite amount")
    if abs(exact) >= LARGEST:
        raise ValueError(f"{_shown(shown)} is larger than any amount that is believed ({LARGEST:,.0f})")
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)
    if exponent > 0:
        exact = exact.quantize(Decimal(1))
    elif -exponent > FINEST:
        raise ValueError(f"{_shown(shown)} has more than {FINEST} decimals")
    return exact + 0 if exact else abs(exact)


def _amount(text: str, *, thousands: bool) -> Decimal | None:
    if len(text) > LONGEST:
        raise ValueError(f"{_shown(text)} is too long for an amount")
    rest = _SPACES.sub(" ", text).strip().translate(_MINUS)
    if not rest:
        return None
    rest = _without_currency(rest)
    negative = False
    if rest.startswith("(") and rest.endswith(")"):
        negative, rest = True, _without_currency(rest[1:-1].strip())
    rest = _ROUND.sub("", rest)
    if rest.startswith(("-", "+")):
        negative, rest = negative != (rest[0] == "-"), _without_currency(rest[1:].strip())
    elif rest.endswith("-"):
        negative, rest = not negative, rest[:-1].strip()
    exact = _plain(rest, thousands=thousands)
    if exact is None:
        raise ValueError(f"{_shown(text)} is not an amount: write it like 1234.56")
    exact = _within(exact, text)
    return -exact if negative and exact else exact


def _without_currency(text: str) -> str:
    """The text without a currency before or behind the number. Other words stay, and make it no amount."""
    first = _ENDS.search(text)
    if first is None:
        return text
    before = text[: first.start()].strip()
    last = max(index for index, sign in enumerate(text) if sign.isascii() and (sign.isdigit() or sign in ")-.,"))
    behind = text[last + 1 :].strip()
    # The full stop of `Fr.` and `Rs.` belongs to the word and not to the number.
    if before and text[first.start()] == "." and _is_currency(before + "."):
        return text[first.start() + 1 :].strip()
    if before and _is_currency(before):
        text = text[first.start() :]
        last -= first.start()
    if behind and _is_currency(behind):
        text = text[: last + 1]
    return text.strip()


def _is_currency(word: str) -> bool:
    return word.upper() in CODES or word in SIGNS or fold(word) in NAMES or fold(word) in NEAR_AMOUNTS


def _plain(text: str, *, thousands: bool) -> Decimal | None:
    """Digits and separators as a number, or None."""
    if not re.fullmatch(r"[0-9][0-9 '.,]*|[.,][0-9]+", text):
        return None
    if text[0] in ".,":
        return Decimal("0." + text[1:])
    marks = [sign for sign in text if not sign.isdigit()]
    if not marks:
        return Decimal(text)
    last = marks[-1]
    behind = text[text.rindex(last) + 1 :]
    kinds = set(marks)
    if last in ".," and marks.count(last) == 1 and (len(kinds) == 2 or len(marks) == 1):
        whole = text[: text.rindex(last)]
        # One separator and three digits: thousands, unless what stands before it can be no group of them.
        grouped = len(marks) == 1 and len(behind) == 3 and re.fullmatch(r"[1-9][0-9]{0,2}", whole)
        if not (thousands and grouped):
            parts = _groups(whole)
            return None if parts is None or not behind else Decimal(f"{parts}.{behind}")
    elif len(kinds) > 1:
        return None
    parts = _groups(text)
    return None if parts is None else Decimal(parts)


def _groups(text: str) -> str | None:
    """The digits of a whole number that one kind of separator parts in threes, or in the Indian way in twos before
    the last three."""
    parts = re.split(r"[ '.,]", text)
    if len(parts) == 1:
        return parts[0]
    if len(set(re.findall(r"[ '.,]", text))) > 1 or not 1 <= len(parts[0]) <= 3 or len(parts[-1]) != 3:
        return None
    middle = {len(part) for part in parts[1:-1]}
    return "".join(parts) if middle <= {3} or (middle <= {2} and len(parts[0]) <= 2) else None


_MONTHS = (
    "january januar janner janvier januari enero gennaio janeiro",
    "february februar feber fevrier februari febrero febbraio fevereiro",
    "march marz maerz mars maart mrt marzo marco",
    "april avril abril aprile",
    "may mai mei mayo maggio maio",
    "june juni juin junio giugno junho",
    "july juli juillet julio luglio julho",
    "august aout augustus agosto",
    "september septembre septiembre settembre setembro",
    "october oktober octobre octubre ottobre outubro",
    "november novembre noviembre novembro",
    "december dezember decembre diciembre dicembre dezembro",
)
_MONTH_BY_START: dict[str, int] = {}
for _month, _names in enumerate(_MONTHS, start=1):
    for _name in _names.split():
        for _length in range(3, len(_name) + 1):
            # `jui` begins both June and July in French, and `mar` only ever March here.
            _start = _name[:_length]
            _MONTH_BY_START[_start] = 0 if _MONTH_BY_START.get(_start, _month) != _month else _month
_MONTH_BY_START["mai"] = 5
_MONTH_BY_START["jui"] = 0

MONTH_STARTS = frozenset(start for start, month in _MONTH_BY_START.items() if month)
"""Every way to begin the name of a month with three letters or more, folded."""

_ISO_TIME = re.compile(r"^(\d{4}-\d{2}-\d{2})[t ]\d{2}:\d{2}.*$", re.ASCII)
_YEAR_FIRST = re.compile(r"^(\d{4})\s?([-/.])\s?(\d{1,2})\s?\2\s?(\d{1,2})\.?$", re.ASCII)
_COMPACT = re.compile(r"^(\d{4})(\d{2})(\d{2})$", re.ASCII)
_NUMBERS = re.compile(r"^(\d{1,2})\s?([-/.])\s?(\d{1,2})\s?\2\s?(\d{4}|\d{2})$", re.ASCII)
_DAY_NAMED = re.compile(
    r"^(\d{1,2})(?:st|nd|rd|th|er|e|de)?[\s.,/-]*(?:of |de |d')?([a-z]{3,10})[\s.,/'-]*(?:de )?(\d{4}|\d{2})$", re.ASCII
)
_NAMED_DAY = re.compile(r"^([a-z]{3,10})[\s./-]*(\d{1,2})(?:st|nd|rd|th)?[\s.,/'-]+(\d{4}|\d{2})$", re.ASCII)
_YEAR_NAMED = re.compile(r"^(\d{4})[\s.,/-]*([a-z]{3,10})[\s.,/-]*(\d{1,2})$", re.ASCII)
_WEEKDAY = re.compile(
    r"^(?:mon|tue|wed|thu|fri|sat|sun|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi"
    r"|jeudi|vendredi|samedi|dimanche|maandag|dinsdag|woensdag|donderdag|vrijdag|zaterdag|zondag|mo|di|mi|do|fr|sa|so)"
    r"(?:day|sday|nesday|rsday|urday)?[.,]*\s+",
    re.ASCII,
)


def parse_date(value: object, *, day_first: bool | None = None) -> date | None:
    """A day; None for nothing. ISO, `31.12.2024`, `31/12/24`, `5 March 2024`, `5. März 2024`, `5 mars 2024` and
    `Mar 5, 2024` all parse.

    Where two numbers could both be the month, `day_first` decides; without a hint the day comes first, as in most of
    the world, so whoever knows the document to be American says so. A number above 12 can only be the day, whatever the
    hint.
    """
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not a date: write it like 2024-12-31")
    if len(value) > LONGEST:
        raise ValueError(f"{_shown(value)} is too long for a date")
    text = _SPACES.sub(" ", fold(value.replace("\u2019", "'"))).strip(" ,;:")
    if not text:
        return None
    text = _WEEKDAY.sub("", text)
    parts = _date_parts(text, day_first=day_first)
    if parts is None:
        raise ValueError(f"{_shown(value)} is not a date: write it like 2024-12-31")
    year, month, day = parts
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise ValueError(f"{_shown(value)}: the year {year} is not between {FIRST_YEAR} and {LAST_YEAR}")
    try:
        return date(year, month, day)
    except ValueError as error:
        raise ValueError(f"{_shown(value)} is no day of the calendar") from error


def _date_parts(text: str, *, day_first: bool | None) -> tuple[int, int, int] | None:
    if found := _ISO_TIME.match(text):
        text = found[1]
    if found := _YEAR_FIRST.match(text):
        return int(found[1]), int(found[3]), int(found[4])
    if found := _COMPACT.match(text):
        return int(found[1]), int(found[2]), int(found[3])
    if found := _NUMBERS.match(text):
        one, two, year = int(found[1]), int(found[3]), _year(found[4])
        month_first = two > 12 or (day_first is False and one <= 12)
        return (year, one, two) if month_first else (year, two, one)
    if found := _DAY_NAMED.match(text):
        day, name, year_text = found.groups()
    elif found := _NAMED_DAY.match(text):
        name, day, year_text = found.groups()
    elif found := _YEAR_NAMED.match(text):
        year_text, name, day = found.groups()
    else:
        return None
    month = _MONTH_BY_START.get(name, 0)
    return (_year(year_text), month, int(day)) if month else None


def _year(text: str) -> int:
    number = int(text)
    if len(text) == 4:
        return number
    return number + (2000 if number < CENTURY_TURN else 1900)


def parse_currency(value: object) -> str | None:
    """An ISO 4217 code; None for nothing. Codes, and signs and names that mean one currency alone, are understood. `$`,
    `¥`, `kr` and `Rs` are shared by several countries, and are refused rather than guessed."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is not a currency: write its ISO 4217 code, like EUR")
    text = _SPACES.sub(" ", value).strip()
    if not text:
        return None
    if len(text) > LONGEST:
        raise ValueError(f"{_shown(value)} is too long for a currency")
    if text.upper() in CODES:
        return text.upper()
    if text in SIGNS:
        return SIGNS[text]
    named = fold(text)
    if named in NAMES:
        return NAMES[named]
    if named in UNSURE:
        raise ValueError(f"{_shown(value)} is used by several countries ({UNSURE[named]}): write the ISO 4217 code")
    raise ValueError(f"{_shown(value)} is not a currency: write its ISO 4217 code, like EUR")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + "…'"
