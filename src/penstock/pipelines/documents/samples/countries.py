"""How each country writes numbers, dates and money, which taxes it knows, and numbers of banks and tax offices that
have the right check digits and belong to nobody."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

Language = Literal["en", "de", "fr"]

A4 = (595.28, 841.89)
LETTER = (612.0, 792.0)

NBSP = "\u00a0"


@dataclass(frozen=True)
class Country:
    """`rates` begin with the usual one. `money` are the ways to print an amount with its currency: `{n}` is the number;
    `days` are those to print a date, in which `M` is the month's name and `B` its short one. `level` is what a euro's
    worth of goods costs here."""

    code: str
    language: Language
    currency: str
    tax: str
    rates: tuple[Decimal, ...]
    thousands: tuple[str, ...]
    point: str
    money: tuple[str, ...]
    days: tuple[str, ...]
    forms: tuple[str, ...]
    towns: tuple[str, ...]
    phone: str
    level: int = 1
    decimals: int = 2
    lakh: bool = False
    negative: tuple[str, ...] = ("-{n}",)
    percent: str = "{n} %"
    paper: tuple[float, float] = A4
    tax_id: str = ""
    """What the vendor's tax number is called here, if not as the language has it."""
    gross_receipts: bool = True
    """Whether prices in a shop include the tax."""
    local: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())
    """Words that are other than the language's."""

    def rounded(self, value: Decimal) -> Decimal:
        return value.quantize(Decimal(1).scaleb(-self.decimals), ROUND_HALF_UP)

    @property
    def sign_is_plain(self) -> bool:
        """Whether the currency is said without doubt wherever money is printed with a sign."""
        return self.currency in ("EUR", "GBP", "CHF")


def _rates(*values: str) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, values))


_EURO_AFTER = (f"{{n}}{NBSP}€", "{n} EUR", "{n} €")

COUNTRIES = {
    country.code: country
    for country in (
        Country(
            "GB", "en", "GBP", "VAT", _rates("20", "5"), (",",), ".", ("£{n}", "£{n}", "GBP {n}"),
            ("D M Y", "d/m/Y", "D B Y"), ("Ltd", "& Sons Ltd", "LLP", "Limited"),
            ("Ellsmoor EM4 7QT", "Pennard Bay PB1 2AX", "Wetherby Cross WC9 3LD", "Little Thorne LT2 8HN"),
            "+44 1632 960{:03d}", percent="{n}%", negative=("-{n}", "({n})"),
        ),
        Country(
            "US", "en", "USD", "Sales tax", _rates("8.25", "6"), (",",), ".", ("${n}", "${n}", "USD {n}"),
            ("B D, Y", "m/d/Y", "M D, Y"), ("Inc.", "LLC", "Co.", "Corp."),
            ("Maple Hollow, OH 43999", "Cedar Point, TX 78999", "Larkspur, CO 80999", "Millbrook, NY 12999"),
            "(555) 555-0{:03d}", percent="{n}%", negative=("-{n}", "({n})"), paper=LETTER, tax_id="EIN",
            gross_receipts=False,
            local=(("shipping", ("Shipping & handling", "Freight")), ("invoice", ("Invoice", "INVOICE"))),
        ),
        Country(
            "IE", "en", "EUR", "VAT", _rates("23", "13.5"), (",",), ".", ("€{n}", "EUR {n}"),
            ("D M Y", "d/m/Y"), ("Ltd", "DAC", "Teoranta"), ("Ballyfenn, Co. Clarrow", "Dunmarrow D99 X2Y4",
            "Kilbracken"),
            "+353 20 910 {:04d}", percent="{n}%",
        ),
        Country(
            "IN", "en", "INR", "GST", _rates("18", "12", "5"), (",",), ".", ("INR {n}", "Rs. {n}"),
            ("d-m-Y", "d-B-Y", "d/m/Y"), ("Pvt. Ltd.", "Traders", "Enterprises", "& Co."),
            ("Navipur 999001", "Sundarnagar 999114", "Chandvali 999230"), "+91 80 5550 {:04d}", level=80, lakh=True,
            percent="{n}%", tax_id="GSTIN",
        ),
        Country(
            "JP", "en", "JPY", "Consumption tax", _rates("10", "8"), (",",), ".", ("¥{n}", "JPY {n}"),
            ("Y/m/d", "Y-m-d", "B D, Y"), ("K.K.", "Co., Ltd.", "G.K."),
            ("Midorigawa 999-0012", "Hoshimachi 998-0034", "Aokawa 997-0056"), "+81 3 5555 {:04d}",
            level=150, decimals=0,
            percent="{n}%", tax_id="Registration no.",
        ),
        Country(
            "DE", "de", "EUR", "MwSt.", _rates("19", "7"), (".", "."), ",", _EURO_AFTER, ("d.m.Y", "D. M Y", "d.m.y"),
            ("GmbH", "GmbH & Co. KG", "AG", "e.K.", "OHG", "UG (haftungsbeschränkt)"),
            ("99998 Lindtal", "01099 Oberwaldstadt", "85999 Steinbrück", "23999 Möwenhagen"), "+49 30 23125 {:03d}",
            negative=("-{n}", "{n}-"),
        ),
        Country(
            "AT", "de", "EUR", "USt", _rates("20", "10"), (".",), ",", ("€ {n}", "EUR {n}", "{n} €"),
            ("d.m.Y", "D. M Y"),
            ("GmbH", "KG", "OG"), ("9998 Bergau", "4799 Innfeld", "8299 Weinbach"), "+43 1 955 {:04d}",
            local=(("tax_id", ("UID-Nr.", "UID")),
                   ("exempt", ("Umsatzsteuerfrei aufgrund der Kleinunternehmerregelung.",))),
        ),
        Country(
            "CH", "de", "CHF", "MWST", _rates("8.1", "2.6"), ("'",), ".", ("CHF {n}", "{n} CHF"), ("d.m.Y", "D. M Y"),
            ("AG", "GmbH", "& Co."), ("9994 Bergisried", "3999 Aarenau", "6999 Seewil"), "+41 44 555 {:04d}",
            percent="{n}%",
            tax_id="MWST-Nr.", local=(("exempt", ("Nicht mehrwertsteuerpflichtig.",)),),
        ),
        Country(
            "FR", "fr", "EUR", "TVA", _rates("20", "10", "5.5"), (NBSP, " "),
            ",", _EURO_AFTER, ("d/m/Y", "D M Y", "d/m/Y"),
            ("SARL", "SAS", "SA", "EURL"), ("99120 Val-Perdu", "98350 Bourg-Neuf-sur-Lise", "97999 Saint-Elbe"),
            "+33 1 99 00 12 {:02d}",
        ),
        Country(
            "BE", "fr", "EUR", "TVA", _rates("21", "6"), (".", " "), ",", ("{n} €", "€ {n}", "{n} EUR"),
            ("d/m/Y", "D M Y"),
            ("SRL", "SA"), ("9991 Haute-Rive", "9983 Bois-Claret"), "+32 2 555 {:04d}",
            local=(("exempt", ("Régime particulier de franchise des petites entreprises.",)),),
        ),
        Country(
            "CF", "fr", "CHF", "TVA", _rates("8.1", "2.6"), ("'",), ".", ("CHF {n}", "{n} CHF"), ("d.m.Y", "D M Y"),
            ("SA", "Sàrl"), ("1998 Vaulruz-le-Lac", "1289 Combe-Noire"), "+41 22 555 {:04d}", percent="{n}%",
            local=(("exempt", ("Non assujetti à la TVA.",)),),
        ),
    )
}  # fmt: skip
"""`CF` is the French-speaking part of Switzerland, whose ISO code is that of the whole: see `iso`."""


def iso(country: Country) -> str:
    return "CH" if country.code == "CF" else country.code


def _digits(rng: random.Random, count: int) -> str:
    return str(rng.randint(1, 9)) + "".join(str(rng.randint(0, 9)) for _ in range(count - 1))


def iban(rng: random.Random, country: Country) -> str:
    """An account that no bank has given out, with the right check digits, in groups of four."""
    lengths = {"DE": 18, "AT": 16, "CH": 17, "FR": 23, "BE": 12, "GB": 18, "IE": 18}
    code = iso(country)
    if code not in lengths:
        return ""
    account = ("XXXX" if code in ("GB", "IE") else "") + _digits(rng, lengths[code] - 4 * (code in ("GB", "IE")))
    spelled = "".join(str(int(letter, 36)) for letter in f"{account}{code}00")
    whole = f"{code}{98 - int(spelled) % 97:02d}{account}"
    return " ".join(whole[at : at + 4] for at in range(0, len(whole), 4))


def _german(body: str) -> str:
    product = 10
    for digit in body:
        product = (2 * ((int(digit) + product) % 10 or 10)) % 11
    return f"DE{body}{(11 - product) % 10}"


def _austrian(body: str) -> str:
    body = body[:7]
    total = sum(int(d) if at % 2 == 0 else sum(map(int, str(2 * int(d)))) for at, d in enumerate(body))
    return f"ATU{body}{(10 - (total + 4) % 10) % 10}"


def _luhn(body: str) -> str:
    total = sum(sum(map(int, str(int(d) * (2 if at % 2 == 0 else 1)))) for at, d in enumerate(reversed(body)))
    return body + str(-total % 10)


def _french(body: str) -> str:
    siren = _luhn(body)
    return f"FR{(12 + 3 * (int(siren) % 97)) % 97:02d}{siren}"


def _belgian(body: str) -> str:
    return f"BE0{body[:7]}{97 - int(body[:7]) % 97:02d}"


def _british(body: str) -> str:
    total = sum(int(d) * weight for d, weight in zip(body[:7], range(8, 1, -1), strict=True))
    return f"GB{body[:7]}{97 - total % 97:02d}"


def _irish(body: str) -> str:
    total = sum(int(d) * weight for d, weight in zip(body[:7], range(8, 1, -1), strict=True))
    return f"IE{body[:7]}{'WABCDEFGHIJKLMNOPQRSTUV'[total % 23]}"


def _swiss(body: str) -> str | None:
    check = -sum(int(d) * weight for d, weight in zip(body, (5, 4, 3, 2, 7, 6, 5, 4), strict=True)) % 11
    if check == 10:
        return None
    return f"CHE-{body[:3]}.{body[3:6]}.{body[6:]}{check} "


_TAX_IDS: dict[str, Callable[[str], str | None]] = {
    "DE": _german, "AT": _austrian, "FR": _french, "BE": _belgian, "GB": _british, "IE": _irish,
}  # fmt: skip


def tax_number(rng: random.Random, country: Country) -> str:
    """The number of a business at its tax office, with the right check digits where the country has them."""
    code = iso(country)
    if code == "CH":
        while (made := _swiss(_digits(rng, 8))) is None:
            pass
        return made + country.tax
    if code in _TAX_IDS:
        return _TAX_IDS[code](_digits(rng, 8)) or ""
    if code == "US":
        return f"00-{_digits(rng, 7)}"
    if code == "IN":
        return f"29AAAAA{_digits(rng, 4)}A1Z5"
    return f"T{_digits(rng, 13)}"
