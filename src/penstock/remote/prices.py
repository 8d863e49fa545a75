"""What tokens cost, by model, tier and day: data, not code. Money is counted in whole millionths of a dollar, and never
rounded down.

`prices.json` holds dollars for a million tokens as they were read on the day it says. A model that is not in it has no
price: its calls show as unpriced, and a budget refuses it rather than count it as free.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from penstock.engine.call import Usage
from penstock.engine.errors import InvalidConfiguration

Tier = Literal["standard", "batch"]

LONG_PROMPT = 200_000
"""Input tokens of one request above which some models have a second price."""

_FIELDS = {"model", "tier", "input", "output", "cached", "over_200k", "valid_from", "valid_to", "read", "note"}


@dataclass(slots=True, frozen=True)
class Rates:
    """Millionths of a dollar for a million tokens. `cached` is None where no price is known: counted as `input`."""

    input: int
    output: int
    cached: int | None = None

    def charge(self, usage: Usage) -> int:
        """In millionths of a millionth of a dollar: exact, so that many small requests add up without rounding."""
        cached = min(usage.cached, usage.input)
        cached_rate = self.input if self.cached is None else self.cached
        return (usage.input - cached) * self.input + cached * cached_rate + usage.output * self.output


@dataclass(slots=True, frozen=True)
class Price:
    """One line of the table: in force from `valid_from` up to, not including, `valid_to`."""

    model: str
    tier: Tier
    rates: Rates
    long: Rates | None = None
    valid_from: date | None = None
    valid_to: date | None = None
    read: date | None = None

    def covers(self, day: date) -> bool:
        return (self.valid_from is None or self.valid_from <= day) and (self.valid_to is None or day < self.valid_to)

    def charge(self, usage: Usage) -> int:
        """For one request: its own length decides which rate it has."""
        long = self.long is not None and usage.input > LONG_PROMPT
        return (self.long if long and self.long else self.rates).charge(usage)


class Prices:
    """The table. Days are UTC."""

    def __init__(self, entries: Iterable[Price]) -> None:
        self._lines: dict[tuple[str, Tier], list[Price]] = {}
        for entry in entries:
            self._lines.setdefault((entry.model, entry.tier), []).append(entry)

    def price_of(self, model: str, tier: Tier, at: float) -> Price | None:
        day = datetime.fromtimestamp(at, UTC).date()
        return next((line for line in self._lines.get((plain_name(model), tier), ()) if line.covers(day)), None)

    def is_priced(self, model: str, tier: Tier, at: float) -> bool:
        return self.price_of(model, tier, at) is not None

    def required(self, model: str, tier: Tier, at: float) -> Price:
        """The price, or an error that says where to write one."""
        price = self.price_of(model, tier, at)
        if price is None:
            raise InvalidConfiguration(
                f"there is no {tier} price for the model {plain_name(model)!r}: add it to a file named by"
                " `gemini.prices`, in the form of penstock/remote/prices.json"
            )
        return price

    def cost(self, usages: Usage | Iterable[Usage], model: str, tier: Tier, at: float) -> int:
        """Millionths of a dollar for one request, or for several; 0 where there is no price (ask `is_priced`)."""
        price = self.price_of(model, tier, at)
        if price is None:
            return 0
        requests = (usages,) if isinstance(usages, Usage) else usages
        return rounded_up(sum(price.charge(usage) for usage in requests))

    def dearest(self, model: str, tier: Tier, at: float, *, within: timedelta) -> Price | None:
        """The highest price in force from now until then: what an estimate of work that may run so long counts on."""
        first, last = (datetime.fromtimestamp(at, UTC).date(), (datetime.fromtimestamp(at, UTC) + within).date())
        days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
        lines = self._lines.get((plain_name(model), tier), ())
        return max(
            (line for line in lines if any(line.covers(day) for day in days)),
            key=lambda line: (line.rates.output, line.rates.input),
            default=None,
        )


def rounded_up(charge: int) -> int:
    """A charge in whole millionths of a dollar."""
    return -(-charge // 1_000_000)


def plain_name(model: str) -> str:
    """`models/gemini-x` and `publishers/google/models/gemini-x` are `gemini-x`."""
    return model.rpartition("/")[2]


def load_prices(own: Path | str | Sequence[Mapping[str, Any]] | None = None) -> Prices:
    """The table that comes with Penstock. `own` (a file, or its entries) replaces every line of the models and tiers it
    names."""
    shipped = _entries(_decoded(resources.files("penstock.remote").joinpath("prices.json").read_text(), "prices.json"))
    if own is None:
        return Prices(shipped)
    if isinstance(own, Path | str):
        try:
            written = Path(own).read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidConfiguration(f"the price table {own} cannot be read: {error.strerror}") from error
        mine = _entries(_decoded(written, str(own)))
    else:
        mine = _entries(own)
    replaced = {(entry.model, entry.tier) for entry in mine}
    return Prices([entry for entry in shipped if (entry.model, entry.tier) not in replaced] + mine)


def _decoded(text: str, source: str) -> list[Mapping[str, Any]]:
    try:
        table = json.loads(text, parse_float=Decimal)
        entries = table["prices"] if isinstance(table, dict) else table
    except (ValueError, KeyError) as error:
        raise InvalidConfiguration(f"the price table {source} is not JSON with a list named `prices`") from error
    if not isinstance(entries, list):
        raise InvalidConfiguration(f"the price table {source}: `prices` must be a list")
    return entries


def _entries(table: Iterable[Mapping[str, Any]]) -> list[Price]:
    return [_price(number, entry) for number, entry in enumerate(table, 1)]


def _price(number: int, entry: Mapping[str, Any]) -> Price:
    try:
        if unknown := set(entry) - _FIELDS:
            raise ValueError(f"unknown field {min(unknown)!r}")
        if entry["tier"] not in ("standard", "batch"):
            raise ValueError(f"tier must be standard or batch, not {entry['tier']!r}")
        long = entry.get("over_200k")
        return Price(
            model=plain_name(entry["model"]),
            tier=entry["tier"],
            rates=_rates(entry),
            long=None if long is None else _rates(long),
            valid_from=_day(entry.get("valid_from")),
            valid_to=_day(entry.get("valid_to")),
            read=_day(entry.get("read")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise InvalidConfiguration(f"the price table's entry {number} is wrong: {reason}") from error


def _rates(entry: Mapping[str, Any]) -> Rates:
    cached = entry.get("cached")
    return Rates(_micros(entry["input"]), _micros(entry["output"]), None if cached is None else _micros(cached))


def _micros(dollars: Any) -> int:
    amount = Decimal(str(dollars)) * 1_000_000
    if isinstance(dollars, bool) or not amount.is_finite() or amount < 0 or amount != int(amount):
        raise ValueError(f"{dollars!r} is no price in dollars for a million tokens")
    return int(amount)


def _day(written: str | None) -> date | None:
    return None if written is None else date.fromisoformat(written)
