"""What the service keeps: steps' log lines, the audit log, answers, tokens, sessions, meters, cursors."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
FLOAT = sa.Float(precision=53)
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

HISTORY = (
    "id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT",
    "job TEXT NOT NULL",
    "at FLOAT NOT NULL",
    "kind TEXT NOT NULL",
    "step TEXT NOT NULL",
    "status TEXT NOT NULL",
    "epoch INTEGER NOT NULL",
    "move INTEGER NOT NULL",
    "attempt INTEGER NOT NULL",
    "took FLOAT",
    "worker TEXT",
    "note TEXT",
)


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        # SQLite gives the number of a deleted last row again, unless the table was made to remember.
        op.execute("DROP INDEX ix_history_job")
        op.execute("ALTER TABLE history RENAME TO old_history")
        op.execute(f"CREATE TABLE history ({', '.join(HISTORY)})")
        op.execute("INSERT INTO history SELECT * FROM old_history ORDER BY id")
        op.execute("DROP TABLE old_history")
        op.execute("CREATE INDEX ix_history_job ON history (job)")
    op.create_table(
        "answers",
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("answer", TEXT, nullable=True),
        sa.Column("at", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("scope", "key"),
    )
    op.create_index("ix_answers_at", "answers", ["at"], unique=False)
    op.create_table(
        "audit",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.Column("actor", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("target", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("via", TEXT, nullable=False),
        sa.Column("address", TEXT, nullable=True),
        sa.Column("detail", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("audit_by_target", "audit", ["target", "id"], unique=False)
    op.create_index("audit_by_tenant", "audit", ["tenant", "id"], unique=False)
    op.create_index("ix_audit_at", "audit", ["at"], unique=False)
    op.create_table(
        "cursors",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("place", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "logs",
        sa.Column("id", NUMBER, autoincrement=True, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.Column("step", TEXT, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("level", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_logs_job", "logs", ["job"], unique=False)
    op.create_table(
        "meters",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("labels", TEXT, nullable=False),
        sa.Column("value", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("name", "labels"),
    )
    op.create_table(
        "series",
        sa.Column("minute", FLOAT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("labels", TEXT, nullable=False),
        sa.Column("value", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("minute", "name", "labels"),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", TEXT, nullable=False),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("csrf", TEXT, nullable=False),
        sa.Column("created", FLOAT, nullable=False),
        sa.Column("expires", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index("ix_sessions_expires", "sessions", ["expires"], unique=False)
    op.create_index("ix_sessions_token", "sessions", ["token"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("hash", TEXT, nullable=False),
        sa.Column("scopes", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=True),
        sa.Column("created", FLOAT, nullable=False),
        sa.Column("expires", FLOAT, nullable=True),
        sa.Column("used", FLOAT, nullable=True),
        sa.Column("revoked", FLOAT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
        sa.UniqueConstraint("name"),
    )
    # Lists of cancelled jobs, and of a job's children, are asked for by people.
    op.drop_index("jobs_stopped", table_name="jobs")
    stopped = sa.text("status IN ('failed', 'paused', 'canceling', 'canceled')")
    children = sa.text("parent IS NOT NULL")
    op.create_index("jobs_stopped", "jobs", ["status", "id"], sqlite_where=stopped, postgresql_where=stopped)
    op.create_index("jobs_children", "jobs", ["parent", "id"], sqlite_where=children, postgresql_where=children)
