"""The currencies of ISO 4217, and the signs and names by which they are printed. A sign that several countries use is
listed as such: it shows that something is an amount, and not which currency it is in."""

from __future__ import annotations

_ISO_4217 = """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP
CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF
IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK
MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR
SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES
VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG
"""
CODES = frozenset(_ISO_4217.split())

SIGNS = {
    "€": "EUR",
    "£": "GBP",
    "₹": "INR",
    "₺": "TRY",
    "₽": "RUB",
    "₩": "KRW",
    "₪": "ILS",
    "₫": "VND",
    "₴": "UAH",
    "฿": "THB",
    "₱": "PHP",
    "₦": "NGN",
    "US$": "USD",
    "U$": "USD",
    "CA$": "CAD",
    "C$": "CAD",
    "A$": "AUD",
    "AU$": "AUD",
    "NZ$": "NZD",
    "HK$": "HKD",
    "S$": "SGD",
    "R$": "BRL",
    "NT$": "TWD",
    "MX$": "MXN",
    "zł": "PLN",
    "Kč": "CZK",
    "Ft": "HUF",
    "RM": "MYR",
}
"""Signs that mean one currency alone, as they are printed."""

NAMES = {
    "euro": "EUR",
    "euros": "EUR",
    "pound sterling": "GBP",
    "pounds sterling": "GBP",
    "sterling": "GBP",
    "us dollar": "USD",
    "us dollars": "USD",
    "u.s. dollar": "USD",
    "u.s. dollars": "USD",
    "canadian dollar": "CAD",
    "canadian dollars": "CAD",
    "australian dollar": "AUD",
    "australian dollars": "AUD",
    "swiss franc": "CHF",
    "swiss francs": "CHF",
    "schweizer franken": "CHF",
    "sfr": "CHF",
    "sfr.": "CHF",
    "zloty": "PLN",
    "zl": "PLN",
    "kc": "CZK",
    "forint": "HUF",
    "ringgit": "MYR",
    "yen": "JPY",
    "renminbi": "CNY",
    "rmb": "CNY",
}
"""Names that mean one currency alone, without accents and in lower case."""

UNSURE = {
    "$": "USD, CAD, AUD and others",
    "dollar": "USD, CAD, AUD and others",
    "dollars": "USD, CAD, AUD and others",
    "¥": "JPY, CNY",
    "kr": "SEK, NOK, DKK, ISK",
    "kr.": "SEK, NOK, DKK, ISK",
    "rs": "INR, PKR, LKR and others",
    "rs.": "INR, PKR, LKR and others",
    "fr": "CHF and others",
    "fr.": "CHF and others",
    "franken": "CHF and others",
    "pound": "GBP, EGP and others",
    "pounds": "GBP, EGP and others",
}
"""Signs and names several currencies share, folded, with some of those they may mean."""

NEAR_AMOUNTS = frozenset(UNSURE)
"""What may stand beside an amount without saying which currency it is in."""
