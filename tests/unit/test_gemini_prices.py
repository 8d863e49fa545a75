"""What tokens cost, and on which day."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.call import Usage
from penstock.engine.errors import InvalidConfiguration
from penstock.remote.prices import Tier, load_prices, plain_name

MILLION = Usage(input=1_000_000, output=1_000_000)


def on(day: str) -> float:
    return datetime.fromisoformat(f"{day}T00:00:00").replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("model", "tier", "day", "dollars"),
    [
        ("gemini-2.5-flash", "standard", "2026-11-15", 2.80),
        ("gemini-2.5-flash", "batch", "2026-11-15", 1.40),
        ("models/gemini-3.8-flash", "batch", "2026-12-31", 2.25),
        ("gemini-3.8-flash", "batch", "2027-01-01", 4.50),
        ("gemini-3.8-flash", "standard", "2026-12-31", 4.50),
        ("gemini-3.8-flash", "standard", "2027-01-01", 9.00),
        ("gemini-3.6-flash", "standard", "2027-06-01", 9.00),
        ("gemini-4-argon", "standard", "2026-11-30", 12.00),
        ("gemini-4-argon", "standard", "2026-12-01", 24.00),
        ("gemini-4-argon", "batch", "2026-12-01", 12.00),
        ("gemini-embedding-001", "batch", "2026-11-15", 0.075),
        ("gemini-embedding-2", "standard", "2026-11-15", 0.20),
    ],
)
def test_the_price_of_a_day(model: str, tier: Tier, day: str, dollars: float) -> None:
    small = [Usage(input=100_000, output=100_000)] * 10
    assert load_prices().cost(small, model, tier, on(day)) == round(dollars * 1_000_000)


def test_a_long_prompt_has_its_own_price() -> None:
    prices, day = load_prices(), on("2026-11-15")
    assert prices.cost(Usage(input=200_000), "gemini-2.5-pro", "standard", day) == 250_000
    assert prices.cost(Usage(input=200_001), "gemini-2.5-pro", "standard", day) == 500_003
    assert prices.cost([Usage(input=150_000)] * 2, "gemini-2.5-pro", "standard", day) == 375_000


def test_money_is_never_rounded_down_and_only_once() -> None:
    prices, day = load_prices(), on("2026-11-15")
    assert prices.cost(Usage(input=1), "gemini-2.5-flash-lite", "batch", day) == 1
    assert prices.cost([Usage(input=1)] * 100, "gemini-2.5-flash-lite", "batch", day) == 5
    assert prices.cost(Usage(), "gemini-2.5-flash-lite", "batch", day) == 0


def test_cached_tokens_have_their_price_where_it_is_known() -> None:
    prices, day = load_prices(), on("2026-11-15")
    half = Usage(input=1_000_000, cached=500_000)
    assert prices.cost(half, "gemini-2.5-flash", "standard", day) == 150_000 + 15_000
    assert prices.cost(half, "gemini-3.5-flash", "standard", day) == 1_500_000, "unknown: as any other input"
    assert prices.cost(Usage(input=10, cached=99), "gemini-2.5-flash", "standard", day) == 1


def test_a_model_without_a_price_is_unpriced_and_no_budget_takes_it() -> None:
    prices, day = load_prices(), on("2026-11-15")
    assert not prices.is_priced("gemini-99", "batch", day)
    assert prices.cost(MILLION, "gemini-99", "batch", day) == 0
    with pytest.raises(InvalidConfiguration, match=r"gemini-99.*gemini\.prices"):
        prices.required("gemini-99", "batch", day)
    assert prices.required("gemini-3.8-flash", "batch", day).model == "gemini-3.8-flash"


def test_an_estimate_counts_on_the_dearest_day_in_reach() -> None:
    prices = load_prices()
    two_days = timedelta(hours=48)
    before = prices.dearest("gemini-3.8-flash", "batch", on("2026-12-29"), within=two_days)
    across = prices.dearest("gemini-3.8-flash", "batch", on("2026-12-30"), within=two_days)
    assert before and before.rates.output == 1_875_000
    assert across and across.rates.output == 3_750_000
    assert prices.dearest("gemini-99", "batch", 0.0, within=two_days) is None


def test_no_two_lines_are_in_force_on_one_day() -> None:
    table = json.loads((Path(__file__).parents[2] / "src/penstock/remote/prices.json").read_text())["prices"]
    days = [on("2026-11-15") + 86_400 * number for number in range(500)]
    for model, tier in {(entry["model"], entry["tier"]) for entry in table}:
        lines = load_prices()._lines[model, tier]
        for day in days:
            told = datetime.fromtimestamp(day, UTC).date()
            assert sum(line.covers(told) for line in lines) == 1, f"{model} {tier} on {told}"
    assert all(entry["read"] for entry in table), "a price says when it was read"


def test_own_prices_replace_those_of_the_model(tmp_path: Path) -> None:
    own = tmp_path / "prices.json"
    line = {"model": "gemini-3.8-flash", "tier": "batch", "input": "0.0001", "output": 1}
    own.write_text(json.dumps({"prices": [line, {**line, "model": "mine"}]}))
    day = on("2028-01-01")
    for prices in (load_prices(own), load_prices(str(own)), load_prices([line, {**line, "model": "mine"}])):
        assert prices.cost(MILLION, "gemini-3.8-flash", "batch", day) == 1_000_100
        assert prices.cost(MILLION, "mine", "batch", day) == 1_000_100
        assert prices.is_priced("gemini-3.8-flash", "standard", day), "the other tier keeps its price"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"tier": "batch", "input": 1, "output": 1}, "'model' is missing"),
        ({"model": "m", "tier": "flex", "input": 1, "output": 1}, "tier"),
        ({"model": "m", "tier": "batch", "input": -1, "output": 1}, "-1"),
        ({"model": "m", "tier": "batch", "input": "much", "output": 1}, "entry 1"),
        ({"model": "m", "tier": "batch", "input": float("nan"), "output": 1}, "nan"),
        ({"model": "m", "tier": "batch", "input": 0.00000001, "output": 1}, "no price"),
        ({"model": "m", "tier": "batch", "input": 1, "output": 1, "valid_from": "soon"}, "soon"),
        ({"model": "m", "tier": "batch", "input": 1, "output": 1, "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_entry_is_told(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfiguration, match=said):
        load_prices([entry])


@pytest.mark.parametrize("content", ["", "[", "{}", '{"prices": {}}', "3"])
def test_a_wrong_file_is_told(content: str, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(content)
    with pytest.raises(InvalidConfiguration, match=r"prices\.json"):
        load_prices(tmp_path / "prices.json")
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        load_prices(tmp_path / "none.json")


def test_a_model_has_one_name() -> None:
    names = ("gemini-3.8-flash", "models/gemini-3.8-flash", "publishers/google/models/gemini-3.8-flash")
    assert {plain_name(name) for name in names} == {"gemini-3.8-flash"}
