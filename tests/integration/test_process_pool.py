"""The process pool with real children that hang, crash, eat memory and lie: the caller is told, nothing is left behind,
and the next call works."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.errors import Ambiguous, InvalidRequest, Permanent, RateLimited, StepError, Transient
from penstock.remote.pool import (
    ChildDied,
    Deadly,
    NoSuchFunction,
    PoolClosed,
    PoolLimits,
    ProcessPool,
    TooLarge,
    TooLong,
    TooManyPages,
)

F = "tests.support.pool_functions"
ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


def with_pool(scenario: Callable[[ProcessPool], Awaitable[None]], workers: int = 1, **options: Any) -> None:
    """Run it, and then see that the pool still works and leaves no process behind."""

    async def main() -> None:
        async with ProcessPool(workers, **options) as pool:
            await scenario(pool)
            value, blobs = await pool.run(f"{F}:echo", {"still": "works"}, blobs=[b"blob"])
            assert (value, blobs) == ({"still": "works"}, [b"blob"])
        assert not children(), "the pool left processes behind"

    asyncio.run(main())


OTHERS: set[str] = set()
"""Processes that were there before a test began: a database that other tests share, say."""


@pytest.fixture(autouse=True)
def _others() -> Iterator[None]:
    OTHERS.update(children())
    yield
    OTHERS.clear()


def children() -> list[str]:
    """Processes that this test started and that have not ended."""
    listed = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = [pid for file in listed for pid in file.read_text().split()]
    return [pid for pid in pids if pid not in OTHERS and lives(int(pid))]


def guards() -> list[str]:
    return [pid for pid in children() if "penstock-pool-guard" in Path(f"/proc/{pid}/cmdline").read_text()]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while any(lives(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


async def appears(file: Path) -> str:
    async with asyncio.timeout(PATIENCE):
        while not file.exists() or not file.read_text():
            await asyncio.sleep(0.01)
    return file.read_text()


def test_a_call_goes_there_and_back_and_its_process_stays_warm() -> None:
    async def scenario(pool: ProcessPool) -> None:
        first, _ = await pool.run(f"{F}:plain", {"text": "é\0"}, blobs=[b"", b"abc", bytearray(5)])
        assert first["args"] == {"text": "é\0"} and first["sizes"] == [0, 3, 5]
        second, _ = await pool.run(f"{F}:plain")
        assert first["pid"] == second["pid"] != os.getpid()
        assert pool.state.started == 1 and pool.state.idle == 1

    with_pool(scenario)


def test_two_hundred_small_calls_share_the_children() -> None:
    async def scenario(pool: ProcessPool) -> None:
        answers = await asyncio.gather(*(pool.run(f"{F}:plain", n) for n in range(200)))
        assert [value["args"] for value, _ in answers] == list(range(200))
        assert pool.state.started == len({value["pid"] for value, _ in answers}) == 2

    with_pool(scenario, workers=2)


def test_fifty_megabytes_go_both_ways_and_the_loop_goes_on() -> None:
    async def scenario(pool: ProcessPool) -> None:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0)
                beats += 1

        heart = asyncio.ensure_future(beat())
        blob = os.urandom(2**20) * 50
        _, (back, small) = await pool.run(f"{F}:echo", blobs=[blob, b"x"])
        heart.cancel()
        assert back == blob and small == b"x"
        assert beats > 100, f"the loop went round {beats} times"

    with_pool(scenario)


def test_files_are_read_by_the_child(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> None:
        (tmp_path / "a").write_bytes(b"from a file")
        _, blobs = await pool.run(f"{F}:echo", blobs=[b"first"], files=[tmp_path / "a"])
        assert blobs == [b"first", b"from a file"]
        with pytest.raises(Permanent, match="FileNotFoundError"):
            await pool.run(f"{F}:echo", files=[tmp_path / "none"])

    with_pool(scenario)


def test_a_call_that_takes_too_long_is_killed_with_all_it_started(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> None:
        note = tmp_path / "pids"
        seconds = 1
        while not note.exists():  # on a busy machine the time may be over before they were started
            with pytest.raises(TooLong, match=f"took more than the {seconds} s"):
                await pool.run(f"{F}:with_grandchildren", {"file": str(note)}, limits=PoolLimits(seconds=seconds))
            seconds *= 3
        pids = [int(pid) for pid in note.read_text().split()]
        assert len(pids) == 3 and gone(pids)

    with_pool(scenario)


def test_what_a_call_leaves_running_or_lying_ends_with_it(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> None:
        pids, _ = await pool.run(f"{F}:with_grandchildren", {"file": str(tmp_path / "pids"), "seconds": 0})
        assert not any(lives(pid) for pid in pids)
        left, _ = await pool.run(f"{F}:leave_file", {})
        assert not Path(left).exists()
        with pytest.raises(TooLong):
            await pool.run(f"{F}:leave_file", {"seconds": 600}, limits=PoolLimits(seconds=0.5))
        assert not list(Path(left).parent.iterdir() if Path(left).parent.exists() else [])

    with_pool(scenario)


def test_cancelling_kills_the_work(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> None:
        call = asyncio.ensure_future(pool.run(f"{F}:with_grandchildren", {"file": str(tmp_path / "pids")}))
        pids = [int(pid) for pid in (await appears(tmp_path / "pids")).split()]
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert gone(pids)
        for pause in (0.0, 0.001, 0.05):
            call = asyncio.ensure_future(pool.run(f"{F}:sleep", {"seconds": 600}))
            await asyncio.sleep(pause)
            call.cancel()
            await asyncio.wait({call})
            assert call.cancelled() and not pool.state.running

    with_pool(scenario)


@pytest.mark.parametrize("function", ["burst", "hog", "hog_below"])
def test_a_call_that_takes_too_much_memory_is_stopped(function: str) -> None:
    async def scenario(pool: ProcessPool) -> None:
        with pytest.raises(TooLarge, match="200 MB"):
            await pool.run(f"{F}:{function}", limits=PoolLimits(memory_mb=200))

    with_pool(scenario)


@pytest.mark.parametrize(
    ("function", "says", "code"),
    [
        ("segfault", "SIGSEGV.*Fatal Python error", -signal.SIGSEGV),
        ("suicide", "SIGKILL .*memory runs out", -signal.SIGKILL),
        ("leave", "exit code 7", 7),
    ],
)
def test_a_process_that_dies_is_worth_another_try_until_the_call_is_known_to_kill(
    function: str, says: str, code: int
) -> None:
    async def scenario(pool: ProcessPool) -> None:
        for _ in range(2):
            with pytest.raises(ChildDied, match=says) as died:
                await pool.run(f"{F}:{function}", blobs=[b"same"])
            assert died.value.code == code
        with pytest.raises(Deadly, match="ended 3 processes"):
            await pool.run(f"{F}:{function}", blobs=[b"same"])
        with pytest.raises(ChildDied):
            await pool.run(f"{F}:{function}", blobs=[b"another"])
        assert pool.state.lost == 4

    with_pool(scenario)


def test_a_process_that_was_killed_while_idle_is_replaced_unseen() -> None:
    async def scenario(pool: ProcessPool) -> None:
        first, _ = await pool.run(f"{F}:plain")
        os.kill(first["pid"], signal.SIGKILL)
        assert gone([first["pid"]])
        second, _ = await pool.run(f"{F}:plain")
        assert second["pid"] != first["pid"]

    with_pool(scenario)


def test_exceptions_come_back_as_what_they_say() -> None:
    cases: dict[str, tuple[type[Exception], str]] = {
        "ValueError": (Permanent, f"{F}:fail: ValueError: page 3 has no end"),
        "Permanent": (Permanent, "never"),
        "Transient": (Transient, "later"),
        "RateLimited": (RateLimited, "slow down"),
        "InvalidRequest": (InvalidRequest, "no such page"),
        "Ambiguous": (Ambiguous, "who knows"),
        "OwnKind": (Permanent, "mine"),
        "disk": (Transient, "No space left"),
        "missing": (Permanent, "FileNotFoundError"),
        "surrogate": (Permanent, "ValueError: ?"),
        "mute": (Permanent, "Mute: (no message)"),
    }

    async def scenario(pool: ProcessPool) -> None:
        for which, (kind, says) in cases.items():
            with pytest.raises(kind) as raised:
                await pool.run(f"{F}:fail", which)
            assert type(raised.value) is kind and says in str(raised.value), f"{which} came back as {raised.value!r}"
            assert not isinstance(raised.value, RateLimited) or raised.value.retry_after == 7
        assert pool.state.started == 1, "an exception is no reason for another process"
        with pytest.raises(Permanent, match="KeyboardInterrupt"):
            await pool.run(f"{F}:fail", "KeyboardInterrupt")

    with_pool(scenario)


def test_what_cannot_come_back_is_told() -> None:
    cases: list[tuple[str, Any, type[Exception], str]] = [
        ("not_json", "set", Permanent, "not JSON"),
        ("not_json", "nan", Permanent, "not JSON"),
        ("not_json", "bytes", Permanent, "not JSON"),
        ("not_json", "surrogate", Permanent, "not JSON"),
        ("not_json", "nested", Permanent, "not JSON"),
        ("not_json", "tuple", Permanent, "tuple"),
        ("no_such", None, NoSuchFunction, "no plain function 'no_such'"),
        ("coroutine", None, NoSuchFunction, "no plain function"),
        ("much_json", None, TooLarge, r"9\.0 MB of JSON"),
        ("much_bytes", {"mb": 3}, TooLarge, r"3\.0 MB of blobs, and 2 MB may"),
        ("deep", None, Permanent, "RecursionError"),
        ("exit_politely", None, Permanent, "SystemExit: enough"),
        ("scribble", None, ChildDied, "the process sent"),
        ("hang_up", None, ChildDied, "closed its connection"),
        ("lie", None, ChildDied, "the process sent"),
    ]

    async def scenario(pool: ProcessPool) -> None:
        for function, args, kind, says in cases:
            with pytest.raises(kind, match=says):
                await pool.run(f"{F}:{function}", args, limits=PoolLimits(answer_mb=2))

    with_pool(scenario)


def test_what_cannot_be_sent_is_refused_before_a_process_starts() -> None:
    async def main() -> None:
        async with ProcessPool() as pool:
            for args in ({1, 2}, float("inf"), "\ud800", "x" * 9 * 2**20):
                with pytest.raises(InvalidRequest):
                    await pool.run(f"{F}:echo", args)
            with pytest.raises(InvalidRequest, match="bytes"):
                await pool.run(f"{F}:echo", blobs=["text"])  # type: ignore[list-item]
            for name in ("", "os", "os:", ":f", "a b:c", "os:path.join", "../x:y", "__main__:f"):
                with pytest.raises(InvalidRequest):
                    await pool.run(name)
            with pytest.raises(TooLarge):
                await pool.run(f"{F}:echo", blobs=[bytes(2**21)], limits=PoolLimits(memory_mb=1))
            assert pool.state.started == 0
            with pytest.raises(NoSuchFunction, match=r"there is no module 'tests\.nowhere'"):
                await pool.run("tests.nowhere:f")

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"seconds": float("inf")}, {"memory_mb": 0}, {"pages": -1}])
def test_limits_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        PoolLimits(**wrong)


def test_pages_are_counted() -> None:
    async def scenario(pool: ProcessPool) -> None:
        limits = PoolLimits(pages=3)
        assert await pool.run(f"{F}:pages", {"pages": 2}, limits=limits) == (1, [])
        assert await pool.run(f"{F}:pages", {"pages": 2000}) == (None, [])
        for stubborn in (False, True):
            with pytest.raises(TooManyPages, match="the 3 pages"):
                await pool.run(f"{F}:pages", {"pages": 4, "stubborn": stubborn}, limits=limits)
        assert await pool.run(f"{F}:pages", {"pages": 3}, limits=limits) == (0, [])

    with_pool(scenario)


def test_what_a_function_prints_or_forks_does_not_reach_the_answer() -> None:
    async def scenario(pool: ProcessPool) -> None:
        assert await pool.run(f"{F}:chatter") == ("said", [])
        assert await pool.run(f"{F}:fork_and_return") == ("once", [])
        assert pool.state.started == 1

    with_pool(scenario)


def test_children_get_no_secrets_and_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    monkeypatch.setenv("PENSTOCK_STORE", "postgresql://user:secret@host/db")
    monkeypatch.setenv("BROKER", "redis://:secret@host/0")
    monkeypatch.setenv("HARMLESS", "1")

    async def scenario(pool: ProcessPool) -> None:
        seen, _ = await pool.run(f"{F}:environment")
        assert "HARMLESS" in seen["names"] and "ADDED" in seen["names"]
        assert not {"GEMINI_API_KEY", "PENSTOCK_STORE", "BROKER"} & set(seen["names"])
        assert seen["stdin"] == ""

    with_pool(scenario, env={"ADDED": "1"})


def test_children_are_replaced_after_their_calls_or_when_they_have_grown() -> None:
    async def scenario(pool: ProcessPool) -> None:
        pids = [(await pool.run(f"{F}:plain"))[0]["pid"] for _ in range(5)]
        assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]

    with_pool(scenario, calls_per_child=2)

    async def grown(pool: ProcessPool) -> None:
        pids = {(await pool.run(f"{F}:plain"))[0]["pid"] for _ in range(2)}
        assert len(pids) == 2

    with_pool(grown, recycle_mb=1)


def test_turns_come_in_order_and_a_full_class_holds_up_no_other(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> None:
        file = tmp_path / "journal"

        def call(name: str, resource: str, until: str = "") -> Awaitable[Any]:
            args = {"file": str(file), "name": name, "until": until}
            return pool.run(f"{F}:journal", args, resource=resource)

        # The first goes on until the others' last is done, so it never ends if its class holds them up.
        ocr = [call(f"ocr{n}", "ocr", "-cpu2") for n in range(3)]
        cpu = [call(f"cpu{n}", "cpu") for n in range(3)]
        together = asyncio.gather(*ocr, *cpu)
        await asyncio.sleep(0)
        assert pool.state.running == {"ocr": 1, "cpu": 1} and pool.state.waiting == {"ocr": 2, "cpu": 2}
        await together
        lines = file.read_text().split()
        for resource in ("ocr", "cpu"):
            mine = [line for line in lines if resource in line]
            started = [line for line in mine if line.startswith("+")]
            assert started == [f"+{resource}{n}" for n in range(3)], f"{resource} did not keep its order: {mine}"
        ocr_lines = [line for line in lines if "ocr" in line]
        assert ocr_lines == [f"{sign}ocr{n}" for n in range(3) for sign in "+-"], "two of the class ran at once"

    with_pool(scenario, workers=2, classes={"ocr": 1})


def test_a_waiting_call_that_is_cancelled_takes_nobodys_turn() -> None:
    async def scenario(pool: ProcessPool) -> None:
        first = asyncio.ensure_future(pool.run(f"{F}:sleep", {"seconds": 600}))
        waiting = [asyncio.ensure_future(pool.run(f"{F}:plain", n)) for n in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        first.cancel()
        done = await asyncio.gather(first, *waiting, return_exceptions=True)
        assert isinstance(done[1], asyncio.CancelledError)
        assert [answer[0]["args"] for answer in done[2:] if isinstance(answer, tuple)] == [1, 2]

    with_pool(scenario)


def test_closing_ends_what_runs_and_what_waits(tmp_path: Path) -> None:
    async def main() -> None:
        pool = ProcessPool(workers=1)
        running = asyncio.ensure_future(pool.run(f"{F}:with_grandchildren", {"file": str(tmp_path / "pids")}))
        waiting = asyncio.ensure_future(pool.run(f"{F}:plain"))
        pids = [int(pid) for pid in (await appears(tmp_path / "pids")).split()]
        await pool.close()
        for call in (running, waiting, pool.run(f"{F}:plain")):
            with pytest.raises(PoolClosed):
                await call
        assert gone(pids) and not children()
        await pool.close()

        starting = ProcessPool(workers=1)
        call = asyncio.ensure_future(starting.run(f"{F}:plain"))
        await asyncio.sleep(0.001)
        await starting.close()
        with pytest.raises(PoolClosed):
            await call
        assert not children()

    asyncio.run(main())


def test_a_pool_belongs_to_one_loop() -> None:
    pool = ProcessPool()
    asyncio.run(closed_after_use(pool))
    with pytest.raises(InvalidRequest, match="event loop"):
        asyncio.run(closed_after_use(pool))


async def closed_after_use(pool: ProcessPool) -> None:
    try:
        await pool.run(f"{F}:plain")
    finally:
        await pool.close()


def test_a_guard_that_was_killed_is_replaced() -> None:
    async def scenario(pool: ProcessPool) -> None:
        await pool.run(f"{F}:plain")
        (guard,) = guards()
        os.kill(int(guard), signal.SIGKILL)
        with pytest.raises(StepError):
            await pool.run(f"{F}:leave")
        await pool.run(f"{F}:plain")
        assert len(guards()) == 1 and guards() != [guard]

    with_pool(scenario)


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import asyncio
from penstock.remote.pool import ProcessPool
pool = ProcessPool(workers=2)
async def main():
    await asyncio.gather(
        pool.run("{F}:with_grandchildren", {{"file": {str(tmp_path / "pids")!r}}}),
        pool.run("{F}:deaf", {{"file": {str(tmp_path / "deaf")!r}}}),
    )
asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        pids = [int(pid) for pid in asyncio.run(appears(tmp_path / "pids")).split()]
        pids += [int(pid) for pid in asyncio.run(appears(tmp_path / "deaf")).split()]
    finally:
        parent.kill()
        parent.wait()
    try:
        assert len(pids) == 5 and gone(pids), "a killed parent left processes behind"
        deadline = time.monotonic() + PATIENCE
        while list(tmp_path.glob("penstock-pool-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not list(tmp_path.glob("penstock-pool-*")), "the temporary folder was left behind"
    finally:
        for pid in filter(lives, pids):
            os.kill(pid, signal.SIGKILL)
