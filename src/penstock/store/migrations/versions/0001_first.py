"""The first schema: jobs and their history, batches, locks, workers, schedules and limits."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
FLOAT = sa.Float(precision=53)
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "batches",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=True),
        sa.Column("then", TEXT, nullable=True),
        sa.Column("created", FLOAT, nullable=False),
        sa.Column("sealed", FLOAT, nullable=True),
        sa.Column("finished", FLOAT, nullable=True),
        sa.Column("members", sa.Integer(), nullable=False),
        sa.Column("completed", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("canceled", sa.Integer(), nullable=False),
        sa.Column("follow_up", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("batches_by_key", "batches", ["tenant", "key", "generation"], unique=True)
    op.create_index(
        "batches_finished",
        "batches",
        ["finished"],
        unique=False,
        sqlite_where=sa.text("key = id AND finished IS NOT NULL"),
        postgresql_where=sa.text("key = id AND finished IS NOT NULL"),
    )
    op.create_table(
        "history",
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("step", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("move", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("took", FLOAT, nullable=True),
        sa.Column("worker", TEXT, nullable=True),
        sa.Column("note", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_history_job"), "history", ["job"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("workflow", TEXT, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("queue", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("parent", TEXT, nullable=True),
        sa.Column("fan_in", TEXT, nullable=True),
        sa.Column("cleanup", TEXT, nullable=True),
        sa.Column("base", sa.Integer(), nullable=False),
        sa.Column("period", sa.Integer(), nullable=False),
        sa.Column("cap", sa.Integer(), nullable=False),
        sa.Column("aged_from", FLOAT, nullable=False),
        sa.Column("created", FLOAT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("phase", TEXT, nullable=False),
        sa.Column("step", TEXT, nullable=False),
        sa.Column("payload", TEXT, nullable=False),
        sa.Column("lane", TEXT, nullable=False),
        sa.Column("batch", TEXT, nullable=True),
        sa.Column("batch_slot", TEXT, nullable=True),
        sa.Column("resource", TEXT, nullable=False),
        sa.Column("gate", TEXT, server_default="", nullable=False),
        sa.Column("result", TEXT, nullable=True),
        sa.Column("error", TEXT, nullable=True),
        sa.Column("reason", TEXT, nullable=True),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("throttled", sa.Integer(), server_default="0", nullable=False),
        sa.Column("crashes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("moves", sa.Integer(), server_default="0", nullable=False),
        sa.Column("worker", TEXT, nullable=True),
        sa.Column("due", FLOAT, nullable=True),
        sa.Column("started", FLOAT, nullable=True),
        sa.Column("entered", FLOAT, nullable=True),
        sa.Column("finished", FLOAT, nullable=True),
        sa.Column("counters", TEXT, nullable=True),
        sa.Column("progress", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    if op.get_context().dialect.name == "postgresql":
        # Room on each page for the next versions of its rows: a step changes no index then.
        op.execute("ALTER TABLE jobs SET (fillfactor = 70)")
    op.create_index(
        "jobs_batch_slot",
        "jobs",
        ["batch_slot"],
        unique=False,
        sqlite_where=sa.text("batch_slot IS NOT NULL"),
        postgresql_where=sa.text("batch_slot IS NOT NULL"),
    )
    op.create_index("jobs_by_key", "jobs", ["tenant", "workflow", "key", "run"], unique=True)
    op.create_index(
        "jobs_due",
        "jobs",
        ["due"],
        unique=False,
        sqlite_where=sa.text("due IS NOT NULL AND phase IN ('timed', 'held')"),
        postgresql_where=sa.text("due IS NOT NULL AND phase IN ('timed', 'held')"),
    )
    op.create_index(
        "jobs_finished",
        "jobs",
        ["finished"],
        unique=False,
        sqlite_where=sa.text("finished IS NOT NULL AND lane <> ''"),
        postgresql_where=sa.text("finished IS NOT NULL AND lane <> ''"),
    )
    op.create_index(
        "jobs_held",
        "jobs",
        ["worker", "lane"],
        unique=False,
        sqlite_where=sa.text("phase = 'held'"),
        postgresql_where=sa.text("phase = 'held'"),
    )
    op.create_index(
        "jobs_ready",
        "jobs",
        ["lane", "aged_from", "id"],
        unique=False,
        sqlite_where=sa.text("phase = 'ready'"),
        postgresql_where=sa.text("phase = 'ready'"),
    )
    op.create_index(
        "jobs_stopped",
        "jobs",
        ["status", "id"],
        unique=False,
        sqlite_where=sa.text("status IN ('failed', 'paused', 'canceling')"),
        postgresql_where=sa.text("status IN ('failed', 'paused', 'canceling')"),
    )
    op.create_table(
        "limits",
        sa.Column("key", TEXT, nullable=False),
        sa.Column("most", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "locks",
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("taken", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name"),
    )
    op.create_index(op.f("ix_locks_job"), "locks", ["job"], unique=False)
    op.create_table(
        "members",
        sa.Column("batch", TEXT, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("ended", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("batch", "job"),
    )
    op.create_index(op.f("ix_members_job"), "members", ["job"], unique=False)
    op.create_table(
        "outputs",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("version", TEXT, nullable=False),
        sa.Column("previous", TEXT, nullable=True),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("published", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_index(
        "outputs_unpublished",
        "outputs",
        ["name"],
        unique=False,
        sqlite_where=sa.text("published = 0"),
        postgresql_where=sa.text("published = 0"),
    )
    op.create_table(
        "schedules",
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("cron", TEXT, nullable=False),
        sa.Column("timezone", TEXT, nullable=False),
        sa.Column("next_due", FLOAT, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("last_fired", FLOAT, nullable=True),
        sa.PrimaryKeyConstraint("tenant", "name"),
    )
    op.create_table(
        "workers",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("started", FLOAT, nullable=False),
        sa.Column("seen", FLOAT, nullable=False),
        sa.Column("expires", FLOAT, nullable=False),
        sa.Column("info", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
