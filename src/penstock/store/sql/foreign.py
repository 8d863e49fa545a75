"""`ctx.write`: statements of a pipeline's own, compiled for the store they join."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import Executable, text
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql import ClauseElement

from penstock.engine.errors import InvalidRequest, Outdated
from penstock.store.protocol import Expect


@lru_cache(maxsize=4)
def _dialect(name: str) -> Dialect:
    if name == "sqlite":
        from sqlalchemy.dialects.sqlite import pysqlite

        return pysqlite.dialect()
    from sqlalchemy.dialects.postgresql import asyncpg

    return asyncpg.dialect()  # type: ignore[no-untyped-call]


def compiled(
    statement: Executable | str | tuple[str, dict[str, Any]] | Expect, dialect: str
) -> tuple[str, tuple[Any, ...]]:
    """SQL text and its positional values, as the driver takes them. Plain text takes `:name` parameters beside it."""
    if isinstance(statement, Expect):
        return compiled(statement.statement, dialect)
    if isinstance(statement, str | tuple):
        written, given = (statement, {}) if isinstance(statement, str) else statement
        sql, names = _prepared(written, dialect)
        if missing := [name for name in names if name not in given]:
            raise InvalidRequest(f"the statement has no value for :{missing[0]}")
        return sql, tuple([given[name] for name in names])
    clause: Any = statement
    assert isinstance(clause, ClauseElement)
    options = {} if isinstance(clause, ExecutableDDLElement) else {"compile_kwargs": {"render_postcompile": True}}
    done: Any = clause.compile(dialect=_dialect(dialect), **options)  # type: ignore[arg-type]
    if isinstance(clause, ExecutableDDLElement):
        return str(done), ()
    values = {**done.construct_params(), **_defaults(done)}
    processors = done._bind_processors
    order = done.positiontup or []
    return str(done), tuple(processors[name](values[name]) if name in processors else values[name] for name in order)


def checked(statement: Any, changed: int | str) -> None:
    """`Outdated` where the statement changed other than what is expected of it."""
    if isinstance(statement, Expect) and str(changed) != str(statement.rows):
        raise Outdated(statement.otherwise)


@lru_cache(maxsize=500)
def _prepared(written: str, dialect: str) -> tuple[str, tuple[str, ...]]:
    """Plain text as the driver takes it, and the names of its values in their order. The same text comes again and
    again."""
    done: Any = text(written).compile(dialect=_dialect(dialect))
    return str(done), tuple(done.positiontup or ())


def _defaults(done: Any) -> dict[str, Any]:
    """What Python gives to columns that the statement does not name: a compiled statement leaves them empty."""
    columns = [(column, column.default) for column in getattr(done, "insert_prefetch", ())]
    columns += [(column, column.onupdate) for column in getattr(done, "update_prefetch", ())]
    return {column.key: default.arg(None) if default.is_callable else default.arg for column, default in columns}
