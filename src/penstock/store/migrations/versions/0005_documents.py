"""The documents pipeline: documents, extractions by content, locked fields, and the review queue."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
FLOAT = sa.Float(precision=53)


def upgrade() -> None:
    op.create_table(
        "document_breaches",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("rule", TEXT, nullable=False),
        sa.Column("severity", TEXT, nullable=False),
        sa.Column("bound", FLOAT, nullable=False),
        sa.Column("value", FLOAT, nullable=False),
        sa.Column("worst", FLOAT, nullable=False),
        sa.Column("began", FLOAT, nullable=False),
        sa.Column("ended", FLOAT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("document_breaches_began", "document_breaches", ["began"], unique=False)
    op.create_index(
        "document_breaches_open",
        "document_breaches",
        ["rule"],
        unique=True,
        sqlite_where=sa.text("ended IS NULL"),
        postgresql_where=sa.text("ended IS NULL"),
    )
    op.create_table(
        "document_extractions",
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("cache_key", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("pages", sa.Integer(), nullable=False),
        sa.Column("result", TEXT, nullable=False),
        sa.Column("created", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "cache_key"),
    )
    op.create_index("document_extractions_content", "document_extractions", ["tenant", "content_hash"], unique=False)
    op.create_table(
        "document_locks",
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("field", TEXT, nullable=False),
        sa.Column("value", TEXT, nullable=False),
        sa.Column("actor", TEXT, nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "content_hash", "field"),
    )
    op.create_table(
        "documents",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("filename", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("kind", TEXT, nullable=True),
        sa.Column("pages", sa.Integer(), nullable=True),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("earlier", TEXT, nullable=False),
        sa.Column("batch", TEXT, nullable=True),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("created", FLOAT, nullable=False),
        sa.Column("finished", FLOAT, nullable=True),
        sa.Column("folder", TEXT, nullable=True),
        sa.Column("extraction", TEXT, nullable=True),
        sa.Column("data", TEXT, nullable=True),
        sa.Column("confidence", FLOAT, nullable=True),
        sa.Column("review_status", TEXT, nullable=True),
        sa.Column("review_item", TEXT, nullable=True),
        sa.Column("twin", TEXT, nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("exported", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("documents_batch", "documents", ["batch", "id"], unique=False)
    op.create_index("documents_content", "documents", ["tenant", "content_hash"], unique=False)
    op.create_index("documents_job", "documents", ["job"], unique=False)
    op.create_index("documents_newest", "documents", ["tenant", sa.text("id DESC")], unique=False)
    op.create_index(
        "documents_stale",
        "documents",
        ["tenant", "content_hash"],
        unique=False,
        sqlite_where=sa.text("done = 1 AND exported < revision"),
        postgresql_where=sa.text("done = 1 AND exported < revision"),
    )
    op.create_index(
        "documents_twin",
        "documents",
        ["tenant", "twin"],
        unique=False,
        sqlite_where=sa.text("twin IS NOT NULL"),
        postgresql_where=sa.text("twin IS NOT NULL"),
    )
    op.create_index(
        "documents_undone",
        "documents",
        ["tenant", "id"],
        unique=False,
        sqlite_where=sa.text("done = 0"),
        postgresql_where=sa.text("done = 0"),
    )
    op.create_table(
        "review_audit",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("item", TEXT, nullable=False),
        sa.Column("document", TEXT, nullable=False),
        sa.Column("at", FLOAT, nullable=False),
        sa.Column("actor", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("field", TEXT, nullable=True),
        sa.Column("before", TEXT, nullable=True),
        sa.Column("after", TEXT, nullable=True),
        sa.Column("reason", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("review_audit_document", "review_audit", ["document", "id"], unique=False)
    op.create_index("review_audit_item", "review_audit", ["item", "id"], unique=False)
    op.create_table(
        "review_items",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("tenant", TEXT, nullable=False),
        sa.Column("document", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("rising", sa.Integer(), nullable=False),
        sa.Column("rank", FLOAT, nullable=False),
        sa.Column("turns", FLOAT, nullable=True),
        sa.Column("weight", FLOAT, nullable=False),
        sa.Column("deadline", FLOAT, nullable=False),
        sa.Column("confidence", FLOAT, nullable=False),
        sa.Column("line_count", sa.Integer(), nullable=False),
        sa.Column("total", FLOAT, nullable=False),
        sa.Column("approvable", sa.Integer(), nullable=False),
        sa.Column("assigned_to", TEXT, nullable=True),
        sa.Column("claim_until", FLOAT, nullable=True),
        sa.Column("created", FLOAT, nullable=False),
        sa.Column("claimed", FLOAT, nullable=True),
        sa.Column("decided", FLOAT, nullable=True),
        sa.Column("decided_by", TEXT, nullable=True),
        sa.Column("reason", TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "review_items_assigned",
        "review_items",
        ["assigned_to", "status", "rising", sa.text("rank DESC"), "id"],
        unique=False,
        sqlite_where=sa.text("assigned_to IS NOT NULL"),
        postgresql_where=sa.text("assigned_to IS NOT NULL"),
    )
    op.create_index(
        "review_items_claims",
        "review_items",
        ["claim_until"],
        unique=False,
        sqlite_where=sa.text("status = 'in_review'"),
        postgresql_where=sa.text("status = 'in_review'"),
    )
    op.create_index(
        "review_items_deadline",
        "review_items",
        ["deadline"],
        unique=False,
        sqlite_where=sa.text("status IN ('pending', 'in_review')"),
        postgresql_where=sa.text("status IN ('pending', 'in_review')"),
    )
    op.create_index("review_items_decided", "review_items", ["tenant", "decided"], unique=False)
    op.create_index("review_items_document", "review_items", ["document"], unique=False)
    op.create_index(
        "review_items_order", "review_items", ["status", "rising", sa.text("rank DESC"), "id"], unique=False
    )
    op.create_index(
        "review_items_tenant", "review_items", ["tenant", "status", "rising", sa.text("rank DESC"), "id"], unique=False
    )
    op.create_index(
        "review_items_turns",
        "review_items",
        ["turns"],
        unique=False,
        sqlite_where=sa.text("turns IS NOT NULL"),
        postgresql_where=sa.text("turns IS NOT NULL"),
    )
