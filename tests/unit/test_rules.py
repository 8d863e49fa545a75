"""The pure rules: retry, priority, lanes, cron, names, and the direction of imports."""

from __future__ import annotations

import ast
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

import penstock
from penstock.engine.errors import Conflict, InvalidRequest, Outdated, Permanent, RateLimited, Transient
from penstock.engine.identity import checked_key, checked_name, id_source
from penstock.engine.lane import checked_limits, limit_keys, room_left
from penstock.engine.priority import Priority, effective
from penstock.engine.retry import Retry, judge
from penstock.engine.schedule import Cron
from penstock.outputs.files import checked_output

SOURCE = Path(penstock.__file__).parent


class FixedClock:
    def now(self) -> float:
        return 1_800_000_000.0

    def monotonic(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here sleeps")


def test_retries_wait_longer_each_time_up_to_the_cap_and_within_the_jitter() -> None:
    policy = Retry(base=10, factor=2, cap=60, jitter=0.1)
    rng = random.Random(1)
    for failure, wait in ((1, 10), (2, 20), (3, 40), (4, 60), (50, 60)):
        for _ in range(50):
            assert wait * 0.9 <= policy.delay(failure, rng) <= wait * 1.1


def test_the_errors_type_decides() -> None:
    policy = Retry(attempts=3, base=1, jitter=0, rate_limited=2, fatal=(ZeroDivisionError,))
    rng = random.Random(1)

    def after(error: Exception, attempt: int = 1, throttled: int = 0) -> float | None:
        return judge(error, policy, attempt=attempt, throttled=throttled, rng=rng).after

    assert after(Transient()) == 1
    assert after(ValueError("unknown errors are tried again"), attempt=2) == 2
    assert after(Transient(), attempt=3) is None
    assert after(Permanent()) is None
    assert after(ZeroDivisionError()) is None
    assert after(Conflict()) is None
    assert after(Outdated("rows that others changed are looked at again, soon"), attempt=2) == 0.25
    assert after(Outdated(), attempt=3) is None
    assert after(RateLimited(retry_after=7), attempt=3) == 7
    assert after(RateLimited(retry_after=7), throttled=2) is None


def test_priority_grows_with_age_up_to_its_cap_and_never_above_100() -> None:
    assert effective(50, 3600, 20, 0) == 50
    assert effective(50, 3600, 20, 20 * 3600) == 70
    assert effective(50, 3600, 20, 1e9) == 70
    assert effective(90, 3600, 20, 1e9) == 100
    assert effective(50, 0, 20, 1e9) == 50
    assert effective(50, 3600, 20, -100) == 50, "a clock that went back makes nobody less urgent"


@pytest.mark.parametrize("wrong", [{"base": 101}, {"base": -1}, {"cap": 200}, {"ageing": 0}, {"base": 1.5}])
def test_wrong_priorities_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        Priority(**wrong)


def test_a_lane_names_the_limits_its_jobs_are_under() -> None:
    limits = {"workflow:pages": 5, "tenant:*": 2, "resource:gpu": 1}
    lane = "default/pages/50,3600,20/acme/gpu/b1"
    assert limit_keys(lane, limits) == ("workflow:pages", "resource:gpu", "tenant:acme", "batch:b1")
    room = room_left(limits, [(lane, 1)], [("b1", 10, 4)])
    assert (room["workflow:pages"], room["resource:gpu"], room["tenant:acme"], room["batch:b1"]) == (4, 0, 1, 6)


@pytest.mark.parametrize(
    "wrong", [{"pages": 1}, {"workflow:": 1}, {"workflow:*": 1}, {"tenant:a": 0}, {"tenant:a/b": 1}]
)
def test_wrong_limits_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        checked_limits(wrong)


def test_cron_follows_its_own_time_zone_through_summer_time() -> None:
    cron = Cron("30 2 * * *", "Europe/Berlin")
    before_the_change = datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp()
    skipped = datetime.fromtimestamp(cron.after(before_the_change), UTC)
    assert skipped.date() == datetime(2026, 3, 29).date(), "the hour that does not exist fires once, not never"
    assert datetime.fromtimestamp(cron.after(skipped.timestamp()), UTC) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "zone"), [("61 * * * *", "UTC"), ("* * *", "UTC"), ("0 3 * * *", "Mars/Olympus")]
)
def test_wrong_schedules_are_refused(expression: str, zone: str) -> None:
    with pytest.raises(InvalidRequest):
        Cron(expression, zone)


def test_ids_sort_by_the_order_they_were_made_in() -> None:
    new_id = id_source(FixedClock(), random.Random(3))
    ids = [new_id() for _ in range(10_000)]
    assert ids == sorted(ids) and len(set(ids)) == len(ids) and {len(i) for i in ids} == {20}


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 121, "naïve", "a\n"])
def test_names_that_would_break_a_lane_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        checked_name("workflow", name)


@pytest.mark.parametrize("key", ["", "x" * 501, "a\x00b"])
def test_keys_a_database_cannot_hold_are_refused(key: str) -> None:
    with pytest.raises(InvalidRequest):
        checked_key(key)


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", ".hidden/a", "a\\b", "a\x00", "a/"]
)
def test_outputs_stay_in_their_folder(name: str) -> None:
    with pytest.raises(InvalidRequest):
        checked_output(name)


def test_what_is_exported_is_there_and_sorted() -> None:
    assert sorted(penstock.__all__) == list(penstock.__all__)
    for name in penstock.__all__:
        assert getattr(penstock, name).__doc__, f"{name} has no docstring"


ALLOWED = {
    "engine": {"engine", "store.protocol", "store.encoding"},
    "store": {"store", "engine"},
    "delivery": {"delivery", "engine", "store.protocol", "app"},
    "outputs": {"outputs", "engine"},
    "remote": {"remote", "engine", "store.protocol", "outputs", "config.duration"},
    "paper": {"paper", "engine.errors", "remote.pool"},
    "gemini_local": {"gemini_local", "paper", "wordvectors", "engine.clock", "engine.errors", "remote.pool"},
    "pipelines": {
        "pipelines", "engine", "remote", "outputs", "config", "store.protocol", "store.schema", "gemini", "app",
        "builtin", "shapes", "times", "paper", "wordvectors", "gemini_local.readers", "gemini_local.backend", "service",
    },
    "service": {
        "service", "engine", "store.protocol", "store.encoding", "config", "app", "builtin", "delivery", "remote",
        "telemetry", "shapes", "times",
    },
    "simulation": {"simulation", "engine", "store", "delivery", "outputs", "remote", "gemini_local", "app"},
}  # fmt: skip


def test_imports_point_one_way() -> None:
    wrong = []
    for room, allowed in ALLOWED.items():
        for path in sorted((SOURCE / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                module = node.module if isinstance(node, ast.ImportFrom) else None
                if module is None or not module.startswith("penstock."):
                    continue
                inner = module.removeprefix("penstock.")
                if inner == "store" and "store.encoding" in allowed:
                    continue
                if not any(inner == a or inner.startswith(a + ".") for a in allowed):
                    wrong.append(f"{path.relative_to(SOURCE)} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_the_engines_heart_reads_no_clock_of_its_own() -> None:
    """Rule 12: time is injected. Threads that watch over real time (heart, watch) are the only exception."""
    wrong = []
    for path in [
        *sorted((SOURCE / "engine").glob("*.py")),
        SOURCE / "store" / "memory.py",
        SOURCE / "delivery" / "embedded.py",
    ]:
        if path.name in ("clock.py", "watch.py", "heart.py"):
            continue
        source = path.read_text()
        wrong += [
            f"{path.name}: {call}"
            for call in ("time.time(", "time.monotonic(", "datetime.now(", "asyncio.sleep(0.")
            if call in source
        ]
    assert not wrong, wrong
