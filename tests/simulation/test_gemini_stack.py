"""Google's own client, the Gemini remote and the local Gemini, whole, in virtual time: crashes, and the faults of the
server's table alone and in random pairs. One create for each label, and all rows come home.

Left out are faults that break the promise itself (`list_omits`, `swapped_rows`), that never end by themselves
(`unknown_state`, `cut_result`, `file_gone`, `processing_failed`), or that these batches do not meet (`stream_error`,
`wrong_mime`, `invalid_json`)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Again, Context, Penstock, Workflow
from penstock.engine.errors import Conflict
from penstock.engine.retry import Retry
from penstock.remote.gemini.requests import generate_request
from penstock.remote.gemini.results import read_rows
from penstock.simulation import Violation, World, expect, simulate
from penstock.simulation.gemini import NAME, PATIENCE, GeminiStack
from tests.simulation.test_planted_call_bugs import make_again_what_is_ambiguous, take_an_early_listing_for_proof

CRASHES = {
    "crash before sending": 0.01,
    "crash after acceptance": 0.15,
    "crash before the answer is stored": 0.01,
    "crash": 0.03,
    "freeze": 0.05,
    "commit unknown, applied": 0.03,
    "slow store": 0.03,
}
FAULTS: list[dict[str, Any]] = [
    {"kind": "error", "where": "create", "code": 503, "rate": 0.4},
    {"kind": "error", "where": "create", "code": 503, "rate": 0.4, "done": True},
    {"kind": "error", "where": "create", "code": 429, "rate": 0.4},
    {"kind": "error", "where": "create", "code": 400, "rate": 0.2},
    {"kind": "not_json", "where": "create", "rate": 0.3, "done": True},
    {"kind": "drop_before", "where": "create", "rate": 0.4},
    {"kind": "drop_after", "where": "create", "rate": 0.4},
    {"kind": "hang", "where": "create", "rate": 0.4, "seconds": 4.0, "done": True},
    {"kind": "delay", "where": "create", "rate": 0.4, "seconds": 1.5},
    {"kind": "delay", "where": "create", "rate": 0.4, "seconds": 4.0},
    {"kind": "error", "where": "list", "code": 503, "rate": 0.5},
    {"kind": "empty_list_page_with_token", "rate": 0.4},
    {"kind": "list_lag", "seconds": 1.9},
    {"kind": "error", "where": "get", "code": 500, "rate": 0.4},
    {"kind": "get_404_for", "seconds": 2.0},
    {"kind": "drop_before", "rate": 0.05},
    {"kind": "drop_after", "rate": 0.05},
    {"kind": "stuck_pending", "seconds": 20.0, "rate": 0.3},
    {"kind": "stuck_running", "seconds": 20.0, "rate": 0.3},
    {"kind": "expire", "rate": 0.3},
    {"kind": "fail", "rate": 0.3},
    {"kind": "partially_succeeded", "rate": 0.5},
    {"kind": "succeeded_before_output", "seconds": 3.0, "rate": 0.5},
    {"kind": "result_gone", "rate": 0.3},
    {"kind": "half_download", "rate": 0.4},
    {"kind": "chunk_without_status", "rate": 0.3},
    {"kind": "processing", "seconds": 2.0, "rate": 0.4},
    {"kind": "row_error", "rate": 0.3},
    {"kind": "truncate", "rate": 0.3},
    {"kind": "block", "rate": 0.3},
    {"kind": "empty_answer", "rate": 0.3},
    {"kind": "unknown_rows", "rate": 0.5},
    {"kind": "keyless_rows", "rate": 0.5},
    {"kind": "error", "where": "get", "code": 401, "rate": 0.4},
    {"kind": "error", "where": "get", "code": 404, "rate": 0.3},
    {"kind": "error", "where": "download", "code": 403, "rate": 0.5},
    {"kind": "error", "where": "download", "code": 404, "rate": 0.5},
    {"kind": "shuffle"},
    {"kind": "missing_rows", "rate": 0.5},
    {"kind": "duplicate_rows", "rate": 0.5},
]
PAIRS = 40

pages = Workflow("pages", payload=int, retry=Retry(attempts=6, base=0.3, cap=3.0))


@pages.step
async def read(number: int, ctx: Context) -> int | Again:
    keys = [f"page {n}" for n in range(1 + number % 3)]
    request = {
        "mode": "inline" if number % 2 else "file",
        "requests": [{"key": key, "request": generate_request(f"{key} of {number}")} for key in keys],
    }
    call = await ctx.call(NAME, "rows", request, attempts=3)
    if not call.ended:
        return Again(number, until=call)
    if not call.ok:
        return 0
    rows = list(read_rows(ctx.folder_of(call) / call.result["file"]))
    home = [row.key for row in rows if row.outcome not in ("duplicate", "unknown")]
    expect(sorted(map(str, home)) == sorted(keys), f"asked {keys}, and {home} came home")
    for row in rows:
        if row.outcome == "ok":
            expect(row.text == f"{row.key} of {number}", f"{row.key} of {number} was answered as {row.text!r}")
    return len(rows)


def run(seed: int, *faults: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        stack = GeminiStack(Path(folder), faults)

        async def scenario(app: Penstock, world: World) -> None:
            await stack.start()
            jobs = []
            for number in range(3):
                jobs.append((await app.submit(pages, world.rng.randint(0, 5) + 10 * number)).job_id)
                await asyncio.sleep(world.rng.random() * 2)
            await asyncio.sleep(world.rng.random() * 6)
            if world.rng.random() < 0.4:
                with contextlib.suppress(Conflict):
                    await world.rng.choice([app.cancel, app.pause])(world.rng.choice(jobs))
            stack.calm()

        simulate(
            [pages],
            scenario,
            seed=seed,
            faults=CRASHES,
            workers=2,
            patience=PATIENCE,
            providers=stack.providers,
            remotes=stack.remotes,
            folder=stack.folder,
        )
        check_the_servers_own_books(stack)


def check_the_servers_own_books(stack: GeminiStack) -> None:
    titles = [row["title"] for row in stack.app.services.state.db.execute("SELECT title FROM batches")]
    assert len(titles) == len(set(titles)), f"a label was created twice: {titles}"
    asked = [entry["label"] for entry in stack.app.services.journal.read(operation="create") if entry["status"] == 200]
    assert set(titles) >= set(asked), "the journal knows of creates that made nothing"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(len(FAULTS)), ids=[f"{fault['kind']}-{n}" for n, fault in enumerate(FAULTS)])
def test_every_fault_alone(number: int) -> None:
    run(number, FAULTS[number])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [117, 209, 264])
def test_a_result_that_is_gone_for_good_is_given_up(seed: int) -> None:
    """Seeds of slow workers, and of a person who adopts the call before they discard it."""
    run(seed, {"kind": "result_gone", "rate": 0.3})


@pytest.mark.parametrize("bug", [make_again_what_is_ambiguous, take_an_early_listing_for_proof])
def test_a_planted_bug_is_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    lost, lag = {"kind": "drop_after", "where": "create", "rate": 0.6}, {"kind": "list_lag", "seconds": 1.9}

    with pytest.raises(Violation):
        for seed in range(10):
            run(seed, lost, lag)


@pytest.mark.timeout(300)
def test_random_pairs_of_faults() -> None:
    for seed in range(PAIRS):
        rng = random.Random(f"gemini {seed}")
        run(1000 + seed, *rng.sample(FAULTS, 2))
