"""The pages pipeline: its ledger, and views of it by the names that those who ask for it know."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
FLOAT = sa.Float(precision=53)
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

VIEWS = {
    "active_batches": "SELECT b.ledger, COALESCE(c.provider_id, b.call, '') AS batch_id, b.number, b.state, b.size, b.created, b.submitted FROM pages_batches b LEFT JOIN calls c ON c.id = b.call WHERE b.state <> 'ended'",
    "batch_record_keys": "SELECT f.ledger, COALESCE(c.provider_id, b.call, '') AS batch_id, f.key AS record_key FROM pages_flights f JOIN pages_batches b ON b.ledger = f.ledger AND b.number = f.batch LEFT JOIN calls c ON c.id = b.call",
    "inflight_records": "SELECT ledger, key AS record_key FROM pages_flights",
    "failure_counts": "SELECT ledger, key AS record_key, failures FROM pages_failures",
}


def upgrade() -> None:
    op.create_table(
        "pages_attempts",
        sa.Column("id", NUMBER, nullable=False, autoincrement=True),
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("book", TEXT, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("counted", sa.Integer(), nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.Column("type", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("raw", TEXT, nullable=True),
        sa.Column("parsed", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("pages_attempts_page", "pages_attempts", ["ledger", "book", "number", "id"], unique=False)
    op.create_index("pages_attempts_time", "pages_attempts", ["ledger", "id"], unique=False)
    op.create_table(
        "pages_batches",
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("call", TEXT, nullable=True),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("ok", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("created", FLOAT, nullable=False),
        sa.Column("submitted", FLOAT, nullable=True),
        sa.Column("ended", FLOAT, nullable=True),
        sa.Column("outcome", TEXT, nullable=True),
        sa.Column("errors", TEXT, nullable=True),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("prompt", TEXT, nullable=False),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("generation", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("ledger", "number"),
    )
    op.create_index(
        "pages_batches_active",
        "pages_batches",
        ["ledger", "number"],
        unique=False,
        sqlite_where=sa.text("state <> 'ended'"),
        postgresql_where=sa.text("state <> 'ended'"),
    )
    op.create_table(
        "pages_books",
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("book", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("school", TEXT, nullable=False),
        sa.Column("year", sa.Integer(), nullable=False),
        sa.Column("pages", TEXT, nullable=False),
        sa.Column("states", TEXT, nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("flying", sa.Integer(), nullable=False),
        sa.Column("dead", sa.Integer(), nullable=False),
        sa.Column("found", sa.Integer(), nullable=False),
        sa.Column("served", sa.Integer(), nullable=False),
        sa.Column("label_seen", sa.BigInteger(), nullable=False),
        sa.Column("output_seen", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("ledger", "book"),
    )
    op.create_index(
        "pages_books_dead",
        "pages_books",
        ["ledger", "book"],
        unique=False,
        sqlite_where=sa.text("dead > 0"),
        postgresql_where=sa.text("dead > 0"),
    )
    op.create_index(
        "pages_books_flying",
        "pages_books",
        ["ledger", "book"],
        unique=False,
        sqlite_where=sa.text("flying > 0"),
        postgresql_where=sa.text("flying > 0"),
    )
    op.create_index(
        "pages_books_found",
        "pages_books",
        ["ledger", "book"],
        unique=False,
        sqlite_where=sa.text("found > 0"),
        postgresql_where=sa.text("found > 0"),
    )
    op.create_table(
        "pages_failures",
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("book", TEXT, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("batch_failures", sa.Integer(), nullable=False),
        sa.Column("file_failures", sa.Integer(), nullable=False),
        sa.Column("dead", sa.Integer(), nullable=False),
        sa.Column("type", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("ledger", "book", "number"),
    )
    op.create_index("pages_failures_dead", "pages_failures", ["ledger", "dead", "book", "number"], unique=False)
    op.create_table(
        "pages_flights",
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("book", TEXT, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("image", TEXT, nullable=False),
        sa.Column("context", TEXT, nullable=True),
        sa.Column("without", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("ledger", "book", "number"),
    )
    op.create_index("pages_flights_batch", "pages_flights", ["ledger", "batch"], unique=False)
    op.create_table(
        "pages_folders",
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("ledger", "path"),
    )
    op.create_table(
        "pages_ignored",
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("path", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("ledger", "path"),
    )
    op.create_table(
        "pages_ledgers",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("output_dir", TEXT, nullable=False),
        sa.Column("mark", TEXT, nullable=False),
        sa.Column("label_dir", TEXT, nullable=False),
        sa.Column("image_dir", TEXT, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("schema", TEXT, nullable=False),
        sa.Column("on_dead", TEXT, nullable=False),
        sa.Column("most_failures", sa.Integer(), nullable=False),
        sa.Column("batches", sa.Integer(), nullable=False),
        sa.Column("scanned", FLOAT, nullable=True),
        sa.Column("created", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("output_dir"),
    )
    op.create_table(
        "pages_ready",
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("book", TEXT, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("remaining", sa.Integer(), nullable=False),
        sa.Column("served", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("ledger", "book", "number"),
    )
    op.create_index(
        "pages_ready_order",
        "pages_ready",
        ["ledger", sa.text("remaining DESC"), "served", "book", "number"],
        unique=False,
    )
    op.create_table(
        "pages_staged",
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("book", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("file", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("ledger", "book", "name"),
    )
    op.create_table(
        "pages_wishes",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("ledger", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("detail", TEXT, nullable=False),
        sa.Column("actor", TEXT, nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("pages_wishes_ledger", "pages_wishes", ["ledger", "id"], unique=False)
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}")
