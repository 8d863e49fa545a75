"""The tables, described once. Alembic compares its migrations with this; the hot statements are written by hand
beside it."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

metadata = MetaData()

# Python and the database must sort ids, keys and lanes alike, whatever the server's locale.
_Text = Text().with_variant(Text(collation="C"), "postgresql")

jobs = Table(
    "jobs", metadata,
    Column("id", _Text, primary_key=True),
    Column("tenant", _Text, nullable=False),
    Column("workflow", _Text, nullable=False),
    Column("key", _Text, nullable=False),
    Column("run", Integer, nullable=False),
    Column("queue", _Text, nullable=False),
    Column("digest", _Text, nullable=False),
    Column("parent", _Text),
    Column("fan_in", _Text),
    Column("cleanup", _Text),
    Column("base", Integer, nullable=False),
    Column("period", Integer, nullable=False),
    Column("cap", Integer, nullable=False),
    Column("aged_from", Float(53), nullable=False),
    Column("created", Float(53), nullable=False),
    Column("status", _Text, nullable=False),
    Column("phase", _Text, nullable=False),
    Column("step", _Text, nullable=False),
    Column("payload", _Text, nullable=False),
    Column("lane", _Text, nullable=False),
    Column("batch", _Text),
    Column("batch_slot", _Text),
    Column("resource", _Text, nullable=False),
    Column("gate", _Text, nullable=False, server_default=""),
    Column("result", _Text),
    Column("error", _Text),
    Column("reason", _Text),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("throttled", Integer, nullable=False, server_default="0"),
    Column("crashes", Integer, nullable=False, server_default="0"),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("moves", Integer, nullable=False, server_default="0"),
    Column("worker", _Text),
    Column("due", Float(53)),
    Column("started", Float(53)),
    Column("entered", Float(53)),
    Column("finished", Float(53)),
    Column("counters", _Text),
    Column("progress", _Text),
)  # fmt: skip


def _partial(name: str, columns: tuple[str, ...], where: str, *, unique: bool = False) -> Index:
    """An index of the rows that are in one place only, so that it stays as small as what is there."""
    return Index(
        name, *(jobs.c[c] for c in columns), unique=unique, sqlite_where=text(where), postgresql_where=text(where)
    )


Index("jobs_by_key", jobs.c.tenant, jobs.c.workflow, jobs.c.key, jobs.c.run, unique=True)
_partial("jobs_ready", ("lane", "aged_from", "id"), "phase = 'ready'")
_partial("jobs_held", ("worker", "lane"), "phase = 'held'")
_partial("jobs_due", ("due",), "due IS NOT NULL AND phase IN ('timed', 'held')")
_partial("jobs_batch_slot", ("batch_slot",), "batch_slot IS NOT NULL")
_partial("jobs_stopped", ("status", "id"), "status IN ('failed', 'paused', 'canceling', 'canceled')")
_partial("jobs_children", ("parent", "id"), "parent IS NOT NULL")
_partial("jobs_finished", ("finished",), "finished IS NOT NULL AND lane <> ''")

history = Table(
    "history", metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("job", _Text, nullable=False, index=True),
    Column("at", Float(53), nullable=False),
    Column("kind", _Text, nullable=False),
    Column("step", _Text, nullable=False),
    Column("status", _Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("move", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("took", Float(53)),
    Column("worker", _Text),
    Column("note", _Text),
    # A number must never come again: readers keep how far they have come.
    sqlite_autoincrement=True,
)  # fmt: skip

batches = Table(
    "batches", metadata,
    Column("id", _Text, primary_key=True),
    Column("tenant", _Text, nullable=False),
    Column("key", _Text, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("limit", Integer),
    Column("then", _Text),
    Column("created", Float(53), nullable=False),
    Column("sealed", Float(53)),
    Column("finished", Float(53)),
    Column("members", Integer, nullable=False),
    Column("completed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("canceled", Integer, nullable=False),
    Column("follow_up", _Text),
    Index("batches_by_key", "tenant", "key", "generation", unique=True),
    Index(
        "batches_finished",
        "finished",
        sqlite_where=text("key = id AND finished IS NOT NULL"),
        postgresql_where=text("key = id AND finished IS NOT NULL"),
    ),
)  # fmt: skip

members = Table(
    "members", metadata,
    Column("batch", _Text, nullable=False),
    Column("job", _Text, nullable=False, index=True),
    Column("ended", _Text),
    PrimaryKeyConstraint("batch", "job"),
)  # fmt: skip

locks = Table(
    "locks", metadata,
    Column("tenant", _Text, nullable=False),
    Column("name", _Text, nullable=False),
    Column("job", _Text, nullable=False, index=True),
    Column("taken", Float(53), nullable=False),
    PrimaryKeyConstraint("tenant", "name"),
)  # fmt: skip

workers = Table(
    "workers", metadata,
    Column("id", _Text, primary_key=True),
    Column("started", Float(53), nullable=False),
    Column("seen", Float(53), nullable=False),
    Column("expires", Float(53), nullable=False),
    Column("info", _Text, nullable=False),
)  # fmt: skip

schedules = Table(
    "schedules", metadata,
    Column("tenant", _Text, nullable=False),
    Column("name", _Text, nullable=False),
    Column("cron", _Text, nullable=False),
    Column("timezone", _Text, nullable=False),
    Column("next_due", Float(53), nullable=False),
    Column("job", _Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("last_fired", Float(53)),
    PrimaryKeyConstraint("tenant", "name"),
)  # fmt: skip

limits = Table(
    "limits", metadata,
    Column("key", _Text, primary_key=True),
    Column("most", Integer, nullable=False),
)  # fmt: skip

calls = Table(
    "calls", metadata,
    Column("id", _Text, primary_key=True),
    Column("tenant", _Text, nullable=False),
    Column("job", _Text, nullable=False),
    Column("workflow", _Text, nullable=False),
    Column("remote", _Text, nullable=False),
    Column("key", _Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("state", _Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("unwanted", Integer, nullable=False),
    Column("provider_id", _Text),
    Column("model", _Text, nullable=False),
    Column("place", _Text, nullable=False),
    Column("digest", _Text, nullable=False),
    Column("prepared", _Text, nullable=False),
    Column("holds", _Text, nullable=False),
    Column("submit_before", Float(53)),
    Column("submitted", Float(53)),
    Column("due", Float(53)),
    Column("checked", Float(53)),
    Column("looks", Integer, nullable=False),
    Column("strikes", Integer, nullable=False),
    Column("finished", Float(53)),
    Column("error", _Text),
    Column("result", _Text),
    Column("done", BigInteger),
    Column("total", BigInteger),
    Column("input", BigInteger, nullable=False),
    Column("output", BigInteger, nullable=False),
    Column("cached", BigInteger, nullable=False),
    Column("thinking", BigInteger, nullable=False),
    Column("estimate", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("decided_by", _Text),
    Index("calls_by_key", "job", "key", "attempt", unique=True),
    Index("calls_by_time", "created", "id"),
    Index("calls_by_state", "state", "created"),
    Index("calls_due", "due", sqlite_where=text("due IS NOT NULL"), postgresql_where=text("due IS NOT NULL")),
)  # fmt: skip

holds = Table(
    "holds", metadata,
    Column("name", _Text, nullable=False),
    Column("call", _Text, nullable=False, index=True),
    Column("amount", BigInteger, nullable=False),
    PrimaryKeyConstraint("name", "call"),
)  # fmt: skip

budgets = Table(
    "budgets", metadata,
    Column("scope", _Text, primary_key=True),
    Column("most", BigInteger, nullable=False),
    Column("spent", BigInteger, nullable=False),
)  # fmt: skip

outputs = Table(
    "outputs", metadata,
    Column("name", _Text, primary_key=True),
    Column("version", _Text, nullable=False),
    Column("previous", _Text),
    Column("sha256", _Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("job", _Text, nullable=False),
    Column("published", Integer, nullable=False),
)  # fmt: skip
Index("outputs_unpublished", outputs.c.name, sqlite_where=text("published = 0"), postgresql_where=text("published = 0"))

logs = Table(
    "logs", metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("job", _Text, nullable=False, index=True),
    Column("at", Float(53), nullable=False),
    Column("step", _Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("level", _Text, nullable=False),
    Column("text", _Text, nullable=False),
)  # fmt: skip

audit = Table(
    "audit", metadata,
    Column("id", _Text, primary_key=True),
    Column("at", Float(53), nullable=False, index=True),
    Column("actor", _Text, nullable=False),
    Column("action", _Text, nullable=False),
    Column("target", _Text, nullable=False),
    Column("tenant", _Text, nullable=False),
    Column("via", _Text, nullable=False),
    Column("address", _Text),
    Column("detail", _Text),
    Index("audit_by_tenant", "tenant", "id"),
    Index("audit_by_target", "target", "id"),
)  # fmt: skip

answers = Table(
    "answers", metadata,
    Column("scope", _Text, nullable=False),
    Column("key", _Text, nullable=False),
    Column("digest", _Text, nullable=False),
    Column("answer", _Text),
    Column("at", Float(53), nullable=False, index=True),
    PrimaryKeyConstraint("scope", "key"),
)  # fmt: skip

tokens = Table(
    "tokens", metadata,
    Column("id", _Text, primary_key=True),
    Column("name", _Text, nullable=False, unique=True),
    Column("hash", _Text, nullable=False, unique=True),
    Column("scopes", _Text, nullable=False),
    Column("tenant", _Text),
    Column("created", Float(53), nullable=False),
    Column("expires", Float(53)),
    Column("used", Float(53)),
    Column("revoked", Float(53)),
)  # fmt: skip

sessions = Table(
    "sessions", metadata,
    Column("hash", _Text, primary_key=True),
    Column("token", _Text, nullable=False, index=True),
    Column("csrf", _Text, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("expires", Float(53), nullable=False, index=True),
)  # fmt: skip

meters = Table(
    "meters", metadata,
    Column("name", _Text, nullable=False),
    Column("labels", _Text, nullable=False),
    Column("value", Float(53), nullable=False),
    PrimaryKeyConstraint("name", "labels"),
)  # fmt: skip

series = Table(
    "series", metadata,
    Column("minute", Float(53), nullable=False),
    Column("name", _Text, nullable=False),
    Column("labels", _Text, nullable=False),
    Column("value", Float(53), nullable=False),
    PrimaryKeyConstraint("minute", "name", "labels"),
)  # fmt: skip

cursors = Table(
    "cursors", metadata,
    Column("name", _Text, primary_key=True),
    Column("place", _Text, nullable=False),
)  # fmt: skip
