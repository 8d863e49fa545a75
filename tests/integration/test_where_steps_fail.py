"""A failed job says where in the author's code its step failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import penstock
from penstock import Context, InvalidRequest, Penstock, Permanent, Retry, Workflow
from penstock.engine.whereabouts import LONGEST
from penstock.store.memory import MemoryStore
from penstock.store.protocol import LogLine

ENGINE = penstock.engine.__path__[0]


def logged(step: Callable[..., Any], *, retry: Retry | None = None) -> list[LogLine]:
    """Run a job of this one step until it has failed; the lines that are kept with it."""
    flow = Workflow("falls", payload=str, retry=retry or Retry(attempts=1))
    flow.step(step)

    async def main() -> list[LogLine]:
        app = Penstock(workflows=[flow], store=MemoryStore())
        async with app, app.worker():
            job = await app.submit(flow, "missing")
            assert (await app.wait(job.job_id, timeout=30.0)).status == "failed"
            return await app.logs(job.job_id)

    return asyncio.run(main())


def look_up(name: str) -> str:
    return {"here": "it is"}[name]  # the line that fails


async def awaited(name: str, ctx: Context) -> str:
    ctx.log.info("looking for %s", name)
    return look_up(name)


def blocking(name: str, ctx: Context) -> str:
    return look_up(name)


def test_the_last_frames_are_kept_with_the_job() -> None:
    said, line = logged(awaited)
    assert said.text == "looking for missing"
    assert (line.level, line.step, line.attempt) == ("error", "awaited", 1)
    lines = line.text.splitlines()
    assert lines[-1] == "KeyError: 'missing'"
    assert lines[-2].strip() == """return {"here": "it is"}[name]  # the line that fails"""
    assert lines[-3].startswith(f'File "{__file__}", line ')
    assert lines[-3].endswith("in look_up")
    assert lines[0].endswith("in awaited")


@pytest.mark.parametrize("step", [awaited, blocking])
def test_they_are_the_authors_own(step: Callable[..., Any]) -> None:
    text = logged(step)[-1].text
    assert ENGINE not in text
    assert text.count("File ") == text.count(__file__) == 2


def test_what_led_to_an_error_is_told_too() -> None:
    async def wrapped(name: str, ctx: Context) -> None:
        try:
            look_up(name)
        except KeyError as error:
            raise RuntimeError("no such name") from error

    (line,) = logged(wrapped)
    first, then, last = line.text.partition("\nwhich led to\n")
    assert first.endswith("KeyError: 'missing'")
    assert then
    assert last.endswith("RuntimeError: no such name")


def test_of_a_group_of_errors_the_first_is_told() -> None:
    async def grouped(name: str, ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(awaited(name, ctx))

    assert "in look_up" in logged(grouped)[-1].text


def test_what_a_step_raises_on_purpose_needs_no_place() -> None:
    async def refuses(name: str, ctx: Context) -> None:
        raise Permanent("it is not there")

    assert logged(refuses) == []


def test_what_the_engine_refuses_has_one() -> None:
    async def spawns(name: str, ctx: Context) -> None:
        ctx.spawn("nonesuch", name)

    (line,) = logged(spawns)
    assert 'ctx.spawn("nonesuch", name)' in line.text
    assert ENGINE not in line.text


def test_it_is_bounded_and_can_be_stored() -> None:
    async def shouts(name: str, ctx: Context) -> None:
        try:
            raise ValueError("\x00\udcff" + "x" * 1_000_000)
        except ValueError:
            raise OSError("y" * 1_000_000) from None

    async def sinks(name: str, ctx: Context) -> None:
        def down(depth: int) -> int:
            return down(depth + 1) + 1

        down(0)

    for step in (shouts, sinks):
        (line,) = logged(step)
        assert len(line.text) <= LONGEST
        assert "File " in line.text
        line.text.encode()
        assert "\x00" not in line.text


def test_an_error_that_cannot_be_shown_is_no_obstacle() -> None:
    class Sullen(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    async def sulks(name: str, ctx: Context) -> None:
        raise Sullen

    (line,) = logged(sulks)
    assert line.text.endswith("Sullen: (its message cannot be shown)")


def test_each_of_the_first_tries_is_told_and_the_last() -> None:
    lines = logged(blocking, retry=Retry(attempts=8, base=0.0))
    assert [line.attempt for line in lines] == [1, 2, 3, 4, 5, 8]


def test_values_of_variables_are_not_shown() -> None:
    async def keeps(name: str, ctx: Context) -> None:
        secret = name * 2
        raise InvalidRequest(f"refused {len(secret)} characters")

    assert "missingmissing" not in logged(keeps)[-1].text


def test_a_log_that_is_called_says_how_it_is_used() -> None:
    async def guesses(name: str, ctx: Context) -> None:
        ctx.log("looking")  # type: ignore[operator]

    (line,) = logged(guesses)
    assert "TypeError: ctx.log is a logger: use ctx.log.info(...)" in line.text
