"""The tables of the pages pipeline. A book is one row, and each of its pages one letter of that row's `states`, so that
a million pages are a few thousand rows; only what is in flight, has failed or can run now has rows of its own.

Only the tick of the run that holds a ledger's lock writes here; everybody else leaves a wish (`pages_wishes`).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from penstock.store.schema import metadata

_Text = Text().with_variant(Text(collation="C"), "postgresql")
_Number = BigInteger().with_variant(Integer, "sqlite")

ledgers = Table(
    "pages_ledgers", metadata,
    Column("id", _Text, primary_key=True),
    Column("tenant", _Text, nullable=False),
    Column("output_dir", _Text, nullable=False, unique=True),
    Column("mark", _Text, nullable=False),
    Column("label_dir", _Text, nullable=False),
    Column("image_dir", _Text, nullable=False),
    Column("job", _Text, nullable=False),
    Column("scope", _Text, nullable=False),
    Column("schema", _Text, nullable=False),
    Column("on_dead", _Text, nullable=False),
    Column("most_failures", Integer, nullable=False),
    Column("batches", Integer, nullable=False),
    Column("scanned", Float(53)),
    Column("created", Float(53), nullable=False),
)  # fmt: skip

folders = Table(
    "pages_folders", metadata,
    Column("ledger", _Text, nullable=False),
    Column("path", _Text, nullable=False),
    Column("seen", BigInteger, nullable=False),
    PrimaryKeyConstraint("ledger", "path"),
)  # fmt: skip

books = Table(
    "pages_books", metadata,
    Column("ledger", _Text, nullable=False),
    Column("book", _Text, nullable=False),
    Column("state", _Text, nullable=False),
    Column("school", _Text, nullable=False),
    Column("year", Integer, nullable=False),
    Column("pages", _Text, nullable=False),
    Column("states", _Text, nullable=False),
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("flying", Integer, nullable=False),
    Column("dead", Integer, nullable=False),
    Column("found", Integer, nullable=False),
    Column("served", Integer, nullable=False),
    Column("label_seen", BigInteger, nullable=False),
    Column("output_seen", BigInteger, nullable=False),
    PrimaryKeyConstraint("ledger", "book"),
)  # fmt: skip
for _name in ("dead", "found", "flying"):
    _where = text(f"{_name} > 0")
    Index(f"pages_books_{_name}", books.c.ledger, books.c.book, sqlite_where=_where, postgresql_where=_where)

ready = Table(
    "pages_ready", metadata,
    Column("ledger", _Text, nullable=False),
    Column("book", _Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("remaining", Integer, nullable=False),
    Column("served", Integer, nullable=False),
    PrimaryKeyConstraint("ledger", "book", "number"),
)  # fmt: skip
Index("pages_ready_order", ready.c.ledger, ready.c.remaining.desc(), ready.c.served, ready.c.book, ready.c.number)

batches = Table(
    "pages_batches", metadata,
    Column("ledger", _Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("job", _Text, nullable=False),
    Column("call", _Text),
    Column("state", _Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("ok", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("submitted", Float(53)),
    Column("ended", Float(53)),
    Column("outcome", _Text),
    Column("errors", _Text),
    Column("model", _Text, nullable=False),
    Column("prompt", _Text, nullable=False),
    Column("version", _Text, nullable=False),
    Column("generation", _Text, nullable=False),
    PrimaryKeyConstraint("ledger", "number"),
    Index(
        "pages_batches_active",
        "ledger",
        "number",
        sqlite_where=text("state <> 'ended'"),
        postgresql_where=text("state <> 'ended'"),
    ),
)  # fmt: skip

flights = Table(
    "pages_flights", metadata,
    Column("ledger", _Text, nullable=False),
    Column("book", _Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("key", _Text, nullable=False),
    Column("batch", Integer, nullable=False),
    Column("image", _Text, nullable=False),
    Column("context", _Text),
    Column("without", _Text),
    PrimaryKeyConstraint("ledger", "book", "number"),
    Index("pages_flights_batch", "ledger", "batch"),
)  # fmt: skip

failures = Table(
    "pages_failures", metadata,
    Column("ledger", _Text, nullable=False),
    Column("book", _Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("key", _Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("batch_failures", Integer, nullable=False),
    Column("file_failures", Integer, nullable=False),
    Column("dead", Integer, nullable=False),
    Column("type", _Text, nullable=False),
    Column("message", _Text, nullable=False),
    Column("at", Float(53), nullable=False),
    PrimaryKeyConstraint("ledger", "book", "number"),
    Index("pages_failures_dead", "ledger", "dead", "book", "number"),
)  # fmt: skip

attempts = Table(
    "pages_attempts", metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("ledger", _Text, nullable=False),
    Column("book", _Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("key", _Text, nullable=False),
    Column("batch", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("counted", Integer, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("type", _Text, nullable=False),
    Column("message", _Text, nullable=False),
    Column("raw", _Text),
    Column("parsed", _Text),
    Index("pages_attempts_page", "ledger", "book", "number", "id"),
    Index("pages_attempts_time", "ledger", "id"),
)  # fmt: skip

staged = Table(
    "pages_staged", metadata,
    Column("ledger", _Text, nullable=False),
    Column("book", _Text, nullable=False),
    Column("name", _Text, nullable=False),
    Column("file", _Text, nullable=False),
    PrimaryKeyConstraint("ledger", "book", "name"),
)  # fmt: skip

wishes = Table(
    "pages_wishes", metadata,
    Column("id", _Text, primary_key=True),
    Column("ledger", _Text, nullable=False),
    Column("kind", _Text, nullable=False),
    Column("detail", _Text, nullable=False),
    Column("actor", _Text, nullable=False),
    Column("at", Float(53), nullable=False),
    Index("pages_wishes_ledger", "ledger", "id"),
)  # fmt: skip

ignored = Table(
    "pages_ignored", metadata,
    Column("ledger", _Text, nullable=False),
    Column("path", _Text, nullable=False),
    Column("reason", _Text, nullable=False),
    PrimaryKeyConstraint("ledger", "path"),
)  # fmt: skip

VIEWS = {
    "active_batches": (
        "SELECT b.ledger, COALESCE(c.provider_id, b.call, '') AS batch_id, b.number, b.state, b.size, b.created,"
        " b.submitted FROM pages_batches b LEFT JOIN calls c ON c.id = b.call WHERE b.state <> 'ended'"
    ),
    "batch_record_keys": (
        "SELECT f.ledger, COALESCE(c.provider_id, b.call, '') AS batch_id, f.key AS record_key FROM pages_flights f"
        " JOIN pages_batches b ON b.ledger = f.ledger AND b.number = f.batch LEFT JOIN calls c ON c.id = b.call"
    ),
    "inflight_records": "SELECT ledger, key AS record_key FROM pages_flights",
    "failure_counts": "SELECT ledger, key AS record_key, failures FROM pages_failures",
}
"""The state as SQL, by the names that those who ask for it know."""
