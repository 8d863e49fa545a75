"""Remote calls, what they hold, and budgets."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
FLOAT = sa.Float(precision=53)


def upgrade() -> None:
    op.create_table(
        "budgets",
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("most", sa.BigInteger(), nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope"),
    )
    op.create_table(
        "calls",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("workflow", TEXT, nullable=False),
        sa.Column("remote", TEXT, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("created", FLOAT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("unwanted", sa.Integer(), nullable=False),
        sa.Column("provider_id", TEXT, nullable=True),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("place", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("prepared", TEXT, nullable=False),
        sa.Column("holds", TEXT, nullable=False),
        sa.Column("submit_before", FLOAT, nullable=True),
        sa.Column("submitted", FLOAT, nullable=True),
        sa.Column("due", FLOAT, nullable=True),
        sa.Column("checked", FLOAT, nullable=True),
        sa.Column("looks", sa.Integer(), nullable=False),
        sa.Column("strikes", sa.Integer(), nullable=False),
        sa.Column("finished", FLOAT, nullable=True),
        sa.Column("error", TEXT, nullable=True),
        sa.Column("result", TEXT, nullable=True),
        sa.Column("done", sa.BigInteger(), nullable=True),
        sa.Column("total", sa.BigInteger(), nullable=True),
        sa.Column("input", sa.BigInteger(), nullable=False),
        sa.Column("output", sa.BigInteger(), nullable=False),
        sa.Column("cached", sa.BigInteger(), nullable=False),
        sa.Column("thinking", sa.BigInteger(), nullable=False),
        sa.Column("estimate", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("decided_by", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("calls_by_key", "calls", ["job", "key", "attempt"], unique=True)
    op.create_index("calls_by_state", "calls", ["state", "created"], unique=False)
    op.create_index("calls_by_time", "calls", ["created", "id"], unique=False)
    op.create_index(
        "calls_due",
        "calls",
        ["due"],
        unique=False,
        sqlite_where=sa.text("due IS NOT NULL"),
        postgresql_where=sa.text("due IS NOT NULL"),
    )
    op.create_table(
        "holds",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("call", TEXT, nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "call"),
    )
    op.create_index("ix_holds_call", "holds", ["call"], unique=False)
