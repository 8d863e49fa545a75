"""The embedded delivery keeps the contract that every delivery keeps, on both databases, with real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.delivery.contract import CHECKS, Harness
from tests.support.embedded_harness import EmbeddedHarness


def keep(check: Callable[[Harness], Awaitable[None]], store_url: str) -> None:
    async def main() -> None:
        harness = EmbeddedHarness(store_url)
        try:
            await check(harness)
        finally:
            await harness.close()

    asyncio.run(main())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_sqlite(check: Callable[[Harness], Awaitable[None]], tmp_path: Path) -> None:
    keep(check, f"sqlite:///{tmp_path}/jobs.db")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_postgresql(check: Callable[[Harness], Awaitable[None]], postgres_url: str) -> None:
    keep(check, postgres_url)
