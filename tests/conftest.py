"""What several rooms of tests share: a PostgreSQL, started once for each test process when a test first needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pgvector import PgvectorServer
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


@pytest.fixture(scope="session")
def _pgvector() -> Iterator[PgvectorServer | Missing]:
    try:
        server = PgvectorServer()
    except Missing as why:
        yield why
        return
    yield server
    server.stop()


@pytest.fixture
def pgvector_server(_pgvector: PgvectorServer | Missing) -> PgvectorServer:
    """For knowledge bases: the other PostgreSQL may lack the extension."""
    if isinstance(_pgvector, Missing):
        pytest.skip(f"needs PostgreSQL with pgvector: {_pgvector}")
    return _pgvector


@pytest.fixture
def pgvector_url(pgvector_server: PgvectorServer) -> str:
    """A fresh, empty database, where `CREATE EXTENSION vector` is possible."""
    return pgvector_server.fresh_database()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The ten thousand seeds go first: begun last, they would go on for minutes after everything else is done."""
    items.sort(key=lambda item: item.name != "test_every_rule_holds_for_every_seed")
