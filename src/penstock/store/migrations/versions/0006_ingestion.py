"""Ingestion: knowledge bases, their editions and runs, and what is in them."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
FLOAT = sa.Float(precision=53)


def upgrade() -> None:
    op.create_table(
        "kb_bases",
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("config", TEXT, nullable=False),
        sa.Column("run", TEXT, nullable=True),
        sa.Column("edition", sa.Integer(), nullable=True),
        sa.Column("created", FLOAT, nullable=False),
        sa.Column("updated", FLOAT, nullable=False),
        sa.Column("leaving", TEXT, nullable=True),
        sa.Column("plan", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("tenant", "id"),
    )
    op.create_table(
        "kb_chunks",
        sa.Column("edition", sa.Integer(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("run", TEXT, nullable=False),
        sa.Column("indexed_at", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("edition", "n"),
    )
    op.create_index("kb_chunks_content", "kb_chunks", ["edition", "content_hash"], unique=True)
    op.create_table(
        "kb_documents",
        sa.Column("edition", sa.Integer(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("uri", TEXT, nullable=False),
        sa.Column("title", TEXT, nullable=False),
        sa.Column("metadata", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("fingerprint", TEXT, nullable=True),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("run", TEXT, nullable=False),
        sa.Column("seen", TEXT, nullable=False),
        sa.Column("hidden_by", TEXT, nullable=True),
        sa.Column("indexed_at", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("edition", "n"),
    )
    op.create_index(
        "kb_documents_current",
        "kb_documents",
        ["edition", "source", "uri"],
        unique=True,
        sqlite_where=sa.text("state = 'current'"),
        postgresql_where=sa.text("state = 'current'"),
    )
    op.create_index(
        "kb_documents_other",
        "kb_documents",
        ["edition", "state", "n"],
        unique=False,
        sqlite_where=sa.text("state <> 'current'"),
        postgresql_where=sa.text("state <> 'current'"),
    )
    op.create_index("kb_documents_run", "kb_documents", ["edition", "run", "n"], unique=False)
    op.create_table(
        "kb_editions",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("base", TEXT, nullable=False),
        sa.Column("chunker", TEXT, nullable=False),
        sa.Column("embedder", TEXT, nullable=False),
        sa.Column("model", TEXT, nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("opened_by", TEXT, nullable=True),
        sa.Column("gone", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.Column("chunks", sa.BigInteger(), nullable=False),
        sa.Column("created", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("kb_editions_base", "kb_editions", ["tenant", "base"], unique=False)
    op.create_table(
        "kb_errors",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("edition", sa.Integer(), nullable=False),
        sa.Column("run", TEXT, nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("uri", TEXT, nullable=False),
        sa.Column("cursor", TEXT, nullable=True),
        sa.Column("document", sa.BigInteger(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=True),
        sa.Column("position", TEXT, nullable=True),
        sa.Column("text", TEXT, nullable=True),
        sa.Column("error", TEXT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("kb_errors_document", "kb_errors", ["edition", "document"], unique=False)
    op.create_index("kb_errors_run", "kb_errors", ["run", "id"], unique=False)
    op.create_table(
        "kb_frontier",
        sa.Column("run", TEXT, nullable=False),
        sa.Column("source", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("uri", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("run", "source", "n"),
    )
    op.create_index("kb_frontier_uri", "kb_frontier", ["run", "source", "uri"], unique=True)
    op.create_table(
        "kb_pieces",
        sa.Column("edition", sa.Integer(), nullable=False),
        sa.Column("document", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("chunk", sa.BigInteger(), nullable=False),
        sa.Column("position", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("edition", "document", "seq"),
    )
    op.create_index("kb_pieces_chunk", "kb_pieces", ["edition", "chunk"], unique=False)
    op.create_table(
        "kb_retried",
        sa.Column("taken_by", TEXT, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("edition", sa.Integer(), nullable=False),
        sa.Column("run", TEXT, nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("uri", TEXT, nullable=False),
        sa.Column("cursor", TEXT, nullable=True),
        sa.Column("document", sa.BigInteger(), nullable=True),
        sa.Column("seq", sa.Integer(), nullable=True),
        sa.Column("position", TEXT, nullable=True),
        sa.Column("text", TEXT, nullable=True),
        sa.Column("error", TEXT, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("taken_by", "id"),
    )
    op.create_table(
        "kb_runs",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("base", TEXT, nullable=False),
        sa.Column("edition", sa.Integer(), nullable=True),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("config", TEXT, nullable=False),
        sa.Column("began", FLOAT, nullable=False),
        sa.Column("finished", FLOAT, nullable=True),
        sa.Column("last_error", TEXT, nullable=True),
        sa.Column("plan", TEXT, nullable=True),
        sa.Column("outcome", TEXT, nullable=True),
        sa.Column("state", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("kb_runs_base", "kb_runs", ["tenant", "base", "id"], unique=False)
    op.create_index("kb_runs_job", "kb_runs", ["job"], unique=False)
    op.create_table(
        "kb_staged",
        sa.Column("run", TEXT, nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("document", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("position", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("run", "n"),
    )
