"""`penstock calls`: remote calls in every state, and what a person decides about those nobody knows about."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.call_views import CALL_STYLES
from penstock.engine.call import STATES, Call
from penstock.shapes import CALL_MEANINGS
from tests.support.cli import PENSTOCK
from tests.support.shop import ShopCli, Stock, opened_shop


def stocked(folder: Path, fill: Callable[[Stock], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with opened_shop(folder) as shop:
            return await fill(shop)

    return asyncio.run(main())


@pytest.fixture(scope="module")
def every_state(tmp_path_factory: pytest.TempPathFactory) -> tuple[ShopCli, dict[str, Call]]:
    """A store with a call in each state. For looking only."""
    cli = ShopCli(tmp_path_factory.mktemp("calls"))
    found = stocked(cli.folder, lambda shop: shop.every_state())
    assert set(found) == set(STATES)
    return cli, found


@pytest.fixture
def doubted(tmp_path: Path) -> tuple[ShopCli, list[Call]]:
    """Two calls in quarantine, whose jobs are parked: of the first the other side's id is known, of the second not."""

    async def fill(shop: Stock) -> list[Call]:
        made = await shop.calls("run", "vanish")
        await shop.doubt(*made)
        return made

    return ShopCli(tmp_path), stocked(tmp_path, fill)


@pytest.fixture
def running(tmp_path: Path) -> tuple[ShopCli, Call]:
    """A call that runs for ever, and no worker."""
    (call,) = stocked(tmp_path, lambda shop: shop.calls("run"))
    return ShopCli(tmp_path), call


def test_a_list_in_a_pipe_shows_everything(every_state: tuple[ShopCli, dict[str, Call]]) -> None:
    cli, found = every_state
    said = cli("calls", "list")
    head, *lines = said.out.splitlines()
    assert head.split() == (
        ["ID", "STATE", "TENANT", "REMOTE", "CALL", "JOB", "PROVIDER", "ID", "AGE", "NEXT", "LOOK", "COST", "WHY"]
    )
    rows = {line.split()[0]: line for line in lines}
    assert len(rows) == len(found)
    collected, quarantined = found["collected"], found["quarantined"]
    assert f"shop    answer#1  {collected.job}  {collected.provider_id}" in rows[collected.id]
    assert "$0.123456" in rows[collected.id]
    assert "≤ $0.42    the listing could not be read to its end" in rows[quarantined.id]
    assert "acme" in rows[found["lost"].id]
    assert "1 call needs a decision: `penstock calls list --state quarantined`" in said.err


def test_lists_are_filtered_and_paged(every_state: tuple[ShopCli, dict[str, Call]]) -> None:
    cli, found = every_state

    def ids(*options: str) -> list[str]:
        return [call["id"] for call in cli.inside("calls", "list", *options, "--json").json["calls"]]

    assert ids("--tenant", "acme", "--remote", "kiosk") == [found["lost"].id]
    assert ids("--job", found["failed"].job) == [found["failed"].id]
    assert set(ids("--state", "overdue", "-s", "running")) == {found["overdue"].id, found["running"].id}
    page = cli.inside("calls", "list", "--limit", "9", "--json").json
    rest = cli.inside("calls", "list", "--limit", "9", "--before", page["next"], "--json").json
    assert rest["next"] is None
    assert [call["id"] for call in page["calls"] + rest["calls"]] == ids()


def test_only_quarantined_ones_come_with_what_to_do(every_state: tuple[ShopCli, dict[str, Call]]) -> None:
    cli, found = every_state
    said = cli("calls", "list", "--state", "quarantined")
    assert "then decide: `penstock calls adopt|resubmit|discard ID`" in said.err
    shown = cli("calls", "show", found["quarantined"].id)
    assert f"penstock calls adopt {found['quarantined'].id} PROVIDER_ID  it is there" in shown.err


def test_everything_about_one_call(every_state: tuple[ShopCli, dict[str, Call]]) -> None:
    cli, found = every_state
    shown = cli("calls", "show", found["collected"].id).out
    for line in (
        "state        collected (its result is here)",
        "tokens       10,000 in (4,000 cached), 2,000 out (500 thinking)",
        "estimate     at most $0.42",
        "cost         $0.123456",
        "rows         8/8",
        f"label        penstock-{found['collected'].id}",
        'result       {"rows": 8}',
    ):
        assert line in shown.splitlines()
    told = cli.call(found["running"].id)
    assert told["holds"] == [{"name": "slots:shop", "amount": 1}]
    assert (told["estimate_usd"], told["estimate_microdollars"]) == (0.42, 420_000)


def test_every_state_has_a_colour_and_a_meaning() -> None:
    assert set(CALL_STYLES) == set(CALL_MEANINGS) == set(STATES)


def test_a_job_shows_its_calls_and_what_they_cost(every_state: tuple[ShopCli, dict[str, Call]]) -> None:
    cli, found = every_state
    job = found["collected"].job
    shown = cli("jobs", "show", job).out
    assert "$0.123456 for 1 call" in shown
    assert found["collected"].id in shown
    told = cli("jobs", "show", job, "--json").json
    assert [call["id"] for call in told["calls"]] == [found["collected"].id]
    assert (told["cost_usd"], told["cost_microdollars"], told["reserved_microdollars"]) == (0.123456, 123_456, 0)
    assert "up to $0.42 more for 1 unfinished" in cli("jobs", "show", found["running"].job).out


def test_the_doctor_sees_calls_in_quarantine(every_state: tuple[ShopCli, dict[str, Call]]) -> None:
    checks = {check["name"]: check for check in every_state[0]("doctor", "--json").json["checks"]}
    assert checks["remote calls"]["status"] == "warn"
    assert checks["remote calls"]["detail"].startswith("1 call in quarantine; ")


def test_the_doctor_sees_calls_that_nobody_looks_after(running: tuple[ShopCli, Call]) -> None:
    checks = {check["name"]: check for check in running[0]("doctor", "--json").json["checks"]}
    assert checks["workers"]["detail"] == "none alive, 1 unfinished job, 1 unfinished call"
    detail = checks["remote calls"]["detail"]
    assert (checks["remote calls"]["status"], detail) == ("warn", "1 unfinished call and nobody looks after it")
    assert "penstock up --app" in checks["remote calls"]["mend"]


@pytest.mark.parametrize("kind", ["jobs", "calls"])
def test_who_cancels_learns_that_nobody_stops_the_call(running: tuple[ShopCli, Call], kind: str) -> None:
    cli, call = running
    said = cli(kind, "cancel", call.job if kind == "jobs" else call.id)
    start = f"penstock up --app {cli.environ['PENSTOCK_APP']}"
    assert said.err.splitlines()[-1] == f"1 call still runs at shop; it is cancelled when a worker runs: `{start}`"


def test_a_call_that_is_looked_for_needs_nobody(every_state: tuple[ShopCli, dict[str, Call]]) -> None:
    cli, found = every_state
    assert "to do        nothing: it is being looked for" in cli("calls", "show", found["intent"].id).out


def test_an_adopted_call_is_collected(doubted: tuple[ShopCli, list[Call]]) -> None:
    cli, (_, unheard) = doubted
    assert "to adopt it, say the id it has at shop" in cli("calls", "adopt", unheard.id, code=2).sentence
    assert cli.call(unheard.id)["state"] == "quarantined"
    said = cli("calls", "adopt", unheard.id, "batches/answer-7", "--as", "ann")
    assert f"{unheard.id}: adopt → submitted; job {unheard.job} goes on" in said.out
    assert "No worker is alive" in said.err
    cli("jobs", "wait", unheard.job)
    call = cli.call(unheard.id)
    assert (call["state"], call["provider_id"], call["decided_by"]) == ("collected", "batches/answer-7", "ann")


def test_a_resubmitted_call_is_made_again(doubted: tuple[ShopCli, list[Call]]) -> None:
    cli, (_, unheard) = doubted
    said = cli("calls", "resubmit", unheard.id, "--yes", "--json")
    assert said.json["jobs"] == [{"id": unheard.job, "status": "queued", "goes_on": True}]
    cli("jobs", "wait", unheard.job)
    made = cli("calls", "list", "--job", unheard.job, "--json").json["calls"]
    assert [(call["attempt"], call["state"]) for call in made] == [(2, "collected"), (1, "absent")]


def test_a_discarded_call_is_left_out(doubted: tuple[ShopCli, list[Call]]) -> None:
    cli, (known, unheard) = doubted
    said = cli("calls", "discard", known.id, "nonesuch", unheard.id, "--json", code=2)
    assert [call["state"] for call in said.json["calls"]] == ["discarded", "discarded"]
    assert said.json["refused"] == [{"id": "nonesuch", "error": "there is no call nonesuch"}]
    assert cli("jobs", "wait", known.job, unheard.job).out == '"without it"\n' * 2
    again = cli("calls", "discard", known.id, code=2)
    assert f"call {known.id} is discarded; only a quarantined call needs a decision" in again.sentence


def test_without_a_terminal_nothing_is_resubmitted_unasked(doubted: tuple[ShopCli, list[Call]]) -> None:
    cli, (known, _) = doubted
    assert "resubmitting may pay twice" in cli("calls", "resubmit", known.id, code=2).sentence
    assert cli.call(known.id)["state"] == "quarantined"
    assert cli("calls", "resubmit", "nonesuch", code=2).sentence == "there is no call nonesuch"


def test_on_a_terminal_one_is_asked_before_paying_twice(doubted: tuple[ShopCli, list[Call]]) -> None:
    cli, (known, _) = doubted
    said, code = on_a_terminal(cli, "n", "calls", "resubmit", known.id)
    assert "If the work exists at the other side after all, it is paid twice." in said
    assert f"shop run#1 of job {known.job}, at most $0.42" in said
    assert (code, cli.call(known.id)["state"]) == (1, "quarantined")
    said, code = on_a_terminal(cli, "y", "calls", "resubmit", known.id)
    assert (code, cli.call(known.id)["state"]) == (0, "absent")


def test_tables_on_a_terminal(every_state: tuple[ShopCli, dict[str, Call]]) -> None:
    cli, found = every_state
    wide, _ = on_a_terminal(cli, "", "calls", "list")
    assert all(call.job in wide for call in found.values())
    assert "↳ the listing could not be read to its end" in wide
    narrow, code = on_a_terminal(cli, "", "calls", "list", columns=80)
    assert code == 0
    lines = lines_of(narrow)
    assert all(len(line) <= 80 for line in lines)
    for call in found.values():
        (place,) = (n for n, line in enumerate(lines) if line.startswith(f"  {call.id}  job {call.job}"))
        assert f"{call.remote} " in lines[place - 1]
        assert f" {call.key}#{call.attempt} " in lines[place - 1]


def test_the_history_on_a_narrow_terminal_breaks_no_word(every_state: tuple[ShopCli, dict[str, Call]]) -> None:
    cli, found = every_state
    call = found["quarantined"]
    said, _ = on_a_terminal(cli, "", "jobs", "show", call.job, columns=80)
    lines = lines_of(said)
    assert all(len(line) <= 80 for line in lines)
    assert f"    shop {call.key}#1: the listing could not be read to its end" in lines
    assert any(" call quarantined " in line for line in lines)


def lines_of(said: str) -> list[str]:
    """Without colours."""
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said).splitlines()]


def on_a_terminal(cli: ShopCli, answer: str, *args: str, columns: int = 200) -> tuple[str, int]:
    """What somebody at a terminal sees who answers every question so, and the exit code."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [PENSTOCK, *args],
        cwd=cli.folder,
        env=cli.environ | {"TERM": "xterm", "COLUMNS": str(columns)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said, asked = b"", 0
    while True:
        try:
            said += os.read(ours, 65_536)
        except OSError:  # what Linux raises when the last one at the other end has left
            break
        if said.count(b"[y/N]") > asked:
            asked += 1
            os.write(ours, f"{answer}\n".encode())
    os.close(ours)
    return said.decode(), process.wait(30)
