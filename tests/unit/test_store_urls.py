"""A store is named by a URL; a wrong one is told what would be right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.engine.errors import InvalidConfiguration
from penstock.store.conformance import ManualClock
from penstock.store.connect import store_from_url
from penstock.store.memory import MemoryStore
from penstock.store.sql.postgres import PostgresStore
from penstock.store.sql.sqlite import SqliteStore


def test_each_form_names_its_store() -> None:
    clock = ManualClock()
    relative = store_from_url("sqlite:///some/work.db", clock=clock)
    assert isinstance(relative, SqliteStore) and relative.path == Path("some/work.db") and relative.clock is clock
    absolute = store_from_url("sqlite:////var/work.db")
    assert isinstance(absolute, SqliteStore) and absolute.path == Path("/var/work.db")
    memory = store_from_url("memory://", clock=clock)
    assert isinstance(memory, MemoryStore) and memory.clock is clock
    postgres = store_from_url("postgresql://me:secret@db.example/work?sslmode=require")
    assert isinstance(postgres, PostgresStore) and postgres.url == "postgresql://me@db.example/work?sslmode=require"


@pytest.mark.parametrize("url", ["", "work.db", "mysql://x", "sqlite://", "sqlite:///", "sqlite:///:memory:", "memory"])
def test_any_other_is_refused_with_the_forms_there_are(url: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"sqlite:///file\.db"):
        store_from_url(url)


def test_a_missing_driver_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for module in ("penstock.store.sql.postgres", "penstock.store.sql.postgres_connection"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(InvalidConfiguration, match=r"pip install 'penstock\[postgres\]'"):
        store_from_url("postgresql://db.example/work")


def test_no_driver_is_imported_before_its_store_is_asked_for() -> None:
    program = "import sys, penstock.store.connect; print({'asyncpg', 'sqlite3', 'alembic'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "set()\n"
