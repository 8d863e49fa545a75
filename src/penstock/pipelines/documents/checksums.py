"""Check digits of bank accounts and tax numbers. A number that is wrong in one digit, or has two of them swapped,
fails; where a country's rule is not written here, only the form is checked."""

from __future__ import annotations

import re
from collections.abc import Callable

_IBAN_LENGTHS = """
AD24 AE23 AT20 BA20 BE16 BG22 CH21 CY28 CZ24 DE22 DK18 EE20 ES24 FI18 FR27 GB22 GI23 GR27 HR21 HU28 IE22 IL23
IS26 IT27 LI21 LT20 LU20 LV21 MC27 ME22 MT31 NL18 NO15 PL28 PT25 RO24 RS22 SA24 SE24 SI19 SK24 SM27 TR26 VA22
"""
IBAN_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _IBAN_LENGTHS.split()}


def iban_valid(text: str) -> bool:
    """Whether the length is that of its country and the check digits fit. Spaces do not matter."""
    if len(text) > 64:
        return False
    plain = re.sub(r"[\s\u00a0]", "", text).upper()
    if not re.fullmatch(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{10,30}", plain):
        return False
    if IBAN_LENGTHS.get(plain[:2], len(plain)) != len(plain):
        return False
    digits = "".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])
    return int(digits) % 97 == 1


def vat_id_valid(text: str) -> bool:
    """Whether this is a VAT id of Europe by its form and, for the countries whose rule is known here, its check
    digits. Spaces, points and dashes do not matter."""
    if len(text) > 32:
        return False
    plain = re.sub(r"[\s\u00a0.\-/]", "", text).upper()
    country, rest = plain[:2], plain[2:]
    if plain.startswith("CHE"):
        country, rest = "CHE", re.sub(r"(MWST|TVA|IVA)$", "", plain[3:])
    form = _FORMS.get(country)
    if form is None or not re.fullmatch(form, rest):
        return False
    check = _CHECKS.get(country)
    return check is None or check(rest)


def _numbers(text: str) -> list[int]:
    return [int(sign) for sign in text]


def _weighted(digits: str, weights: tuple[int, ...]) -> int:
    return sum(digit * weight for digit, weight in zip(_numbers(digits), weights, strict=False))


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(_numbers(digits))):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _germany(digits: str) -> bool:
    product = 10
    for digit in _numbers(digits[:8]):
        total = (digit + product) % 10 or 10
        product = 2 * total % 11
    return (11 - product) % 10 == int(digits[8])


def _austria(rest: str) -> bool:
    digits = rest[1:]
    total = 0
    for place, digit in enumerate(_numbers(digits[:7])):
        doubled = digit * (2 if place % 2 else 1)
        total += doubled // 10 + doubled % 10
    return (10 - (total + 4) % 10) % 10 == int(digits[7])


def _belgium(digits: str) -> bool:
    return 97 - int(digits[:8]) % 97 == int(digits[8:])


def _france(rest: str) -> bool:
    # Keys with letters follow another rule; their form is all that is checked.
    return not rest.isdigit() or (int(rest[2:]) * 100 + 12) % 97 == int(rest[:2])


def _netherlands(rest: str) -> bool:
    old = _weighted(rest[:8], (9, 8, 7, 6, 5, 4, 3, 2)) % 11 == int(rest[8])
    # Since 2020 sole traders have numbers with the check digits of an IBAN.
    new = int("".join(str(int(sign, 36)) for sign in "NL" + rest)) % 97 == 1
    return old or new


def _britain(rest: str) -> bool:
    if not rest[:9].isdigit():
        return True
    total = _weighted(rest[:7], (8, 7, 6, 5, 4, 3, 2)) + int(rest[7:9])
    return total % 97 == 0 or (total + 55) % 97 == 0


def _switzerland(digits: str) -> bool:
    return (11 - _weighted(digits[:8], (5, 4, 3, 2, 7, 6, 5, 4)) % 11) % 11 == int(digits[8])


def _luxembourg(digits: str) -> bool:
    return int(digits[:6]) % 89 == int(digits[6:])


def _denmark(digits: str) -> bool:
    return _weighted(digits, (2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0


def _poland(digits: str) -> bool:
    return _weighted(digits[:9], (6, 5, 7, 2, 3, 4, 5, 6, 7)) % 11 == int(digits[9])


def _finland(digits: str) -> bool:
    return (11 - _weighted(digits[:7], (7, 9, 10, 5, 8, 4, 2)) % 11) % 11 == int(digits[7])


def _portugal(digits: str) -> bool:
    check = 11 - _weighted(digits[:8], (9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return (check if check < 10 else 0) == int(digits[8])


def _sweden(digits: str) -> bool:
    return _luhn(digits[:10])


_FORMS = {
    "AT": r"U[0-9]{8}",
    "BE": r"[01][0-9]{9}",
    "BG": r"[0-9]{9,10}",
    "CHE": r"[0-9]{9}",
    "CY": r"[0-9]{8}[A-Z]",
    "CZ": r"[0-9]{8,10}",
    "DE": r"[0-9]{9}",
    "DK": r"[0-9]{8}",
    "EE": r"[0-9]{9}",
    "EL": r"[0-9]{9}",
    "ES": r"[A-Z0-9][0-9]{7}[A-Z0-9]",
    "FI": r"[0-9]{8}",
    "FR": r"[A-HJ-NP-Z0-9]{2}[0-9]{9}",
    "GB": r"[0-9]{9}(?:[0-9]{3})?|GD[0-4][0-9]{2}|HA[5-9][0-9]{2}",
    "HR": r"[0-9]{11}",
    "HU": r"[0-9]{8}",
    "IE": r"[0-9][A-Z0-9+*][0-9]{5}[A-Z]{1,2}",
    "IT": r"[0-9]{11}",
    "LT": r"[0-9]{9}|[0-9]{12}",
    "LU": r"[0-9]{8}",
    "LV": r"[0-9]{11}",
    "MT": r"[0-9]{8}",
    "NL": r"[0-9]{9}B[0-9]{2}",
    "PL": r"[0-9]{10}",
    "PT": r"[0-9]{9}",
    "RO": r"[0-9]{2,10}",
    "SE": r"[0-9]{10}01",
    "SI": r"[0-9]{8}",
    "SK": r"[0-9]{10}",
}

_CHECKS: dict[str, Callable[[str], bool]] = {
    "AT": _austria,
    "BE": _belgium,
    "CHE": _switzerland,
    "DE": _germany,
    "DK": _denmark,
    "FI": _finland,
    "FR": _france,
    "GB": _britain,
    "IT": _luhn,
    "LU": _luxembourg,
    "NL": _netherlands,
    "PL": _poland,
    "PT": _portugal,
    "SE": _sweden,
}
