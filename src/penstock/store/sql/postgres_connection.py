"""A connection to PostgreSQL, with a time limit on everything, and what its errors mean for us: translated once, here.

No message of ours contains a password.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import asyncpg

from penstock.engine.errors import (
    InvalidConfiguration,
    PenstockError,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from asyncpg import Record

    Connection = asyncpg.Connection[Record]
else:
    Connection = asyncpg.Connection

CONNECT_PATIENCE = 10.0
STATEMENT_PATIENCE = 60.0
CLOSE_PATIENCE = 2.0

LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, asyncpg.InterfaceError)
"""The connection is gone or of no more use. `OSError` includes a statement that ran out of time."""

CANNOT_WAIT = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,
)
"""Another transaction was in the way: the same work may well succeed the next time."""


async def connect(dsn: str, *, known: bool = False) -> Connection:
    """`known`: it has let us in before, so a refusal now (a password being changed, a fail-over) may pass."""
    url = without_password(dsn)
    try:
        return await asyncpg.connect(
            dsn, timeout=CONNECT_PATIENCE, command_timeout=STATEMENT_PATIENCE, max_cached_statement_lifetime=0,
            # The plans are all short; compiling one would take longer than a thousand of them.
            server_settings={"application_name": "penstock", "jit": "off"},
        )  # fmt: skip
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        if known:
            raise StoreUnavailable(f"{url} lets nobody in at the moment ({error})") from None
        raise InvalidConfiguration(f"{url} lets nobody in ({error}): check the user, password and database") from None
    except (OSError, asyncpg.PostgresError) as error:
        raise our_error(error, url) from None
    except (asyncpg.InterfaceError, ValueError):
        # What the driver says here may quote a part of the address that is the password.
        raise InvalidConfiguration(
            f"{url} cannot be understood: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, other characters as %XX"
        ) from None


async def quietly_close(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSE_PATIENCE)
    except (asyncpg.PostgresError, *LOST):
        connection.terminate()


def our_error(error: BaseException, url: str) -> PenstockError:
    """Which of our errors this is, in one sentence with the way out."""
    state = getattr(error, "sqlstate", None) or ""
    if state == "53100":
        return StoreFull(f"{url}: the server's disk is full; free some space and try again, nothing was lost")
    if state in ("25006", "42501"):
        return StoreReadOnly(f"{url} cannot be written ({error}): check the user's rights, and that it is the primary")
    if state == "53300":
        return StoreUnavailable(f"{url} has no connection left ({error}): raise max_connections or run fewer workers")
    if state == "57P03":
        return StoreUnavailable(f"{url} is starting up or shutting down: try again in a moment")
    if state.startswith("57"):
        return StoreUnavailable(f"{url} ended the connection ({error}): try again")
    if isinstance(error, TimeoutError):
        return StoreUnavailable(f"{url} does not answer: check that the server is up and can be reached")
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        return StoreUnavailable(f"{url} cannot be reached ({reason}): check that PostgreSQL is running there")
    if isinstance(error, LOST) or state.startswith(("08", "53")):
        return StoreUnavailable(f"{url}: the connection was lost ({error}): try again")
    return StoreError(f"{url}: {error}")


def without_password(url: str) -> str:
    """The address as it may be shown, even where it is mistyped."""
    shown = re.sub(r"^(\w+://[^:/?@]*):.*@", r"\1@", url)
    return re.sub(r"([?&]password=)[^&]*", r"\1***", shown)
