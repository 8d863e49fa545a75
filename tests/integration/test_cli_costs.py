"""`penstock costs`: what calls have cost, added up in any way, and the budgets that jobs are parked for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli_calls import lines_of, on_a_terminal
from tests.support.shop import COST, ESTIMATE, MODEL, ShopCli, Stock, opened_shop, orders

HOUSE = "house-model"


@pytest.fixture(scope="module")
def bought(tmp_path_factory: pytest.TempPathFactory) -> ShopCli:
    """Three calls that were paid for, one that is free for want of a price, and one that runs. For looking only."""
    cli = ShopCli(tmp_path_factory.mktemp("costs"))

    async def main() -> None:
        async with opened_shop(cli.folder) as shop:
            await shop.calls("answer", "answer", "run", tenant="acme")
            await shop.calls("answer")
            await shop.calls("answer", model=HOUSE)

    asyncio.run(main())
    return cli


def test_costs_by_workflow_and_model_unless_told(bought: ShopCli) -> None:
    said = bought("costs")
    head, *rows, total = said.out.splitlines()
    assert head.split() == (
        ["WORKFLOW", "MODEL", "CALLS", "UNFINISHED", "INPUT", "CACHED", "OUTPUT", "COST", "RESERVED"]
    )
    assert [row.split() for row in rows] == [
        ["orders", MODEL, "4", "1", "30,000", "12,000", "6,000", "$0.370368", "$0.42"],
        ["orders", HOUSE, "1", "10,000", "4,000", "2,000", "$0.00"],
    ]
    assert total.split() == ["TOTAL", "5", "1", "40,000", "16,000", "8,000", "$0.370368", "$0.42"]
    assert said.err == f"No price is known for {HOUSE}: its calls are counted as free.\n"


def test_names_and_amounts_share_a_narrow_terminal(bought: ShopCli) -> None:
    said, _ = on_a_terminal(bought, "", "costs", columns=80)
    head, _, first, *_ = lines_of(said)
    assert head.split() == ["Workflow", "Model", "Calls", "Open", "Input", "Output", "Cost", "Reserved"]
    assert first.split() == ["orders", MODEL, "4", "1", "30k", "6.0k", "$0.370368", "$0.42"]
    said, _ = on_a_terminal(bought, "", "costs", "--tenant", "default", columns=80)
    head, _, first, *_ = lines_of(said)
    assert head.split() == ["Workflow", "Model", "Calls", "Input", "Cached", "Output", "Cost"]
    said, _ = on_a_terminal(bought, "", "costs", columns=40)
    assert all(len(line) <= 40 for line in lines_of(said)[:5])
    assert "gemini…flash" in said


def test_json_tells_exact_amounts(bought: ShopCli) -> None:
    told = bought.inside("costs", "--by", "tenant", "--by", "remote", "--json").json
    assert told["by"] == ["tenant", "remote"]
    assert [(line["group"], line["cost_microdollars"]) for line in told["costs"]] == [
        ({"tenant": "acme", "remote": "shop"}, 2 * COST),
        ({"tenant": "default", "remote": "shop"}, COST),
    ]
    total = told["total"]
    assert (total["cost_usd"], total["cost_microdollars"]) == (3 * COST / 1e6, 3 * COST)
    assert (total["reserved_microdollars"], total["unfinished"]) == (ESTIMATE, 1)


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        (["--tenant", "acme"], 3),
        (["--workflow", "nonesuch"], 0),
        (["--since", "1h"], 5),
        (["--until", "1h"], 0),
        (["--since", "2020-01-01", "--until", "2020-02-01T12:30"], 0),
    ],
)
def test_costs_of_some_calls_only(bought: ShopCli, options: list[str], calls: int) -> None:
    assert bought.inside("costs", *options, "--json").json["total"]["calls"] == calls


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("costs --by colour", "Invalid value for '--by': 'colour' is not one of"),
        (
            "costs --since yesterday",
            "'yesterday' must be a day or time, such as 2026-03-01, or how long ago, such as 7d",
        ),
        ("costs --by day budget list", "budget takes no option of `penstock costs`"),
        ("costs budget set acme 5", "a budget belongs to tenant:NAME, job:ID or batch:ID, not 'acme'"),
        ("costs budget set tenant:acme much", "'much' must be an amount of dollars, such as 25 or 0.50"),
        ("costs budget set tenant:acme -5", "'-5' must be 0 or more dollars"),
        ("costs budget set tenant:acme -0.5", "'-0.5' must be 0 or more dollars"),
        ("costs budget set job:nonesuch 5", "there is no job nonesuch"),
        ("costs budget set batch:nonesuch 5", "there is no batch nonesuch"),
        ("costs budget remove tenant:acme", "there is no budget tenant:acme"),
    ],
)
def test_bad_input(bought: ShopCli, command: str, told: str) -> None:
    assert told in bought.inside(*command.split(), code=2).sentence


def test_a_job_that_is_parked_for_its_budget_goes_on_when_that_is_raised(tmp_path: Path) -> None:
    cli = ShopCli(tmp_path)

    async def park() -> Any:
        async with opened_shop(tmp_path) as shop:
            await shop.app.set_budget("tenant:acme", 0.10)
            return await parked(shop)

    job = asyncio.run(park())
    assert "raise it to at least $0.42 ('penstock costs budget set tenant:acme DOLLARS')" in job.reason

    lowered = cli("costs", "budget", "set", "tenant:acme", "0")
    assert "Nothing is left of it" in lowered.err
    assert asyncio.run(parked_again(tmp_path, job.id)).status == "paused"

    raised = cli("costs", "budget", "set", "tenant:acme", "$1")
    assert raised.out == f"tenant:acme may spend $1.00: $0.00 spent, $1.00 left.\nJob {job.id} goes on.\n"
    assert "No worker is alive" in raised.err
    cli("jobs", "wait", job.id)
    assert cli("costs", "budget", "list").out.splitlines()[1].split() == (
        ["tenant:acme", "$1.00", "$0.123456", "$0.00", "$0.876544"]
    )
    removed = cli("costs", "budget", "remove", "tenant:acme", "--json")
    assert removed.json == {"budget": None, "resumed": []}
    assert cli("costs", "budget", "list", "--json").json == {"budgets": []}


async def parked(shop: Stock) -> Any:
    told = await shop.app.submit(orders, {"does": "answer"}, tenant="acme")
    async with shop.app.worker():
        return (await shop.until([told.job_id], "paused"))[0]


async def parked_again(folder: Path, job_id: str) -> Any:
    async with opened_shop(folder) as shop, shop.app.worker():
        return (await shop.until([job_id], "paused"))[0]
