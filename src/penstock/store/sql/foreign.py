"""`ctx.write`: statements of a pipeline's own, compiled for the store they join."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import Executable, text
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql import ClauseElement


@lru_cache(maxsize=4)
def _dialect(name: str) -> Dialect:
    if name == "sqlite":
        from sqlalchemy.dialects.sqlite import pysqlite

        return pysqlite.dialect()
    from sqlalchemy.dialects.postgresql import asyncpg

    return asyncpg.dialect()  # type: ignore[no-untyped-call]


def compiled(statement: Executable | str | tuple[str, dict[str, Any]], dialect: str) -> tuple[str, tuple[Any, ...]]:
    """SQL text and its positional values, as the driver takes them. Plain text takes `:name` parameters beside it."""
    clause: Any = statement
    if isinstance(statement, str):
        clause = text(statement)
    elif isinstance(statement, tuple):
        clause = text(statement[0]).bindparams(**statement[1])
    assert isinstance(clause, ClauseElement)
    options = {} if isinstance(clause, ExecutableDDLElement) else {"compile_kwargs": {"render_postcompile": True}}
    done: Any = clause.compile(dialect=_dialect(dialect), **options)  # type: ignore[arg-type]
    if isinstance(clause, ExecutableDDLElement):
        return str(done), ()
    values = {**done.construct_params(), **_defaults(done)}
    processors = done._bind_processors
    order = done.positiontup or []
    return str(done), tuple(processors[name](values[name]) if name in processors else values[name] for name in order)


def _defaults(done: Any) -> dict[str, Any]:
    """What Python gives to columns that the statement does not name: a compiled statement leaves them empty."""
    columns = [(column, column.default) for column in getattr(done, "insert_prefetch", ())]
    columns += [(column, column.onupdate) for column in getattr(done, "update_prefetch", ())]
    return {column.key: default.arg(None) if default.is_callable else default.arg for column, default in columns}
