"""From a URL to the store it names. Drivers are imported only when their store is asked for."""

from __future__ import annotations

from penstock.engine.clock import Clock
from penstock.engine.errors import InvalidConfiguration
from penstock.store.protocol import Store

FORMS = "sqlite:///file.db, sqlite:////absolute/file.db, postgresql://user:password@host/database or memory://"


def store_from_url(url: str, *, clock: Clock | None = None) -> Store:
    """The store at `url`, not yet open."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite":
        return _sqlite(rest, clock)
    if separator and scheme in ("postgresql", "postgres"):
        return _postgres(url, clock)
    if url == "memory://":
        from penstock.store.memory import MemoryStore

        return MemoryStore(clock)
    raise InvalidConfiguration(f"the store's URL starts with {scheme!r}: use {FORMS}")


def _sqlite(rest: str, clock: Clock | None) -> Store:
    from penstock.store.sql.sqlite import SqliteStore

    path = rest.removeprefix("/")
    if not rest.startswith("/") or not path or path.endswith("/") or path == ":memory:":
        raise InvalidConfiguration(f"sqlite://{rest} names no file: use {FORMS}")
    return SqliteStore(path, clock=clock)


def _postgres(url: str, clock: Clock | None) -> Store:
    try:
        from penstock.store.sql.postgres import PostgresStore
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise InvalidConfiguration(
            "a PostgreSQL store needs the asyncpg package: pip install 'penstock[postgres]'"
        ) from None
    return PostgresStore(url, clock=clock)
