"""What several rooms of tests share: a PostgreSQL, started once for each test process when a test first needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import Missing, PostgresServer


@pytest.fixture(scope="session")
def _postgres() -> Iterator[PostgresServer | Missing]:
    try:
        server = PostgresServer()
    except Missing as why:
        yield why
        return
    yield server
    server.stop()


@pytest.fixture
def postgres_server(_postgres: PostgresServer | Missing) -> PostgresServer:
    if isinstance(_postgres, Missing):
        pytest.skip(f"needs PostgreSQL: {_postgres}")
    return _postgres


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """A fresh, empty database."""
    return postgres_server.fresh_database()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The ten thousand seeds go first: begun last, they would go on for minutes after everything else is done."""
    items.sort(key=lambda item: item.name != "test_every_rule_holds_for_every_seed")
