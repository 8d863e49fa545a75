"""What the documents pipeline keeps beside its jobs: documents, extractions by content, locked fields, the review
queue, what reviewers did, and when a promise of the service was broken."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from penstock.store.schema import metadata

_Text = Text().with_variant(Text(collation="C"), "postgresql")

documents = Table(
    "documents", metadata,
    Column("id", _Text, primary_key=True),
    Column("tenant", _Text, nullable=False),
    Column("filename", _Text, nullable=False),
    Column("content_hash", _Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("kind", _Text),
    Column("pages", Integer),
    # The key of the jobs that work on it, and of those that did before it was extracted anew.
    Column("job", _Text, nullable=False),
    Column("earlier", _Text, nullable=False),
    Column("batch", _Text),
    Column("done", Integer, nullable=False),
    Column("created", Float(53), nullable=False),
    Column("finished", Float(53)),
    Column("folder", _Text),
    Column("extraction", _Text),
    Column("data", _Text),
    Column("confidence", Float(53)),
    Column("review_status", _Text),
    Column("review_item", _Text),
    Column("twin", _Text),
    Column("revision", Integer, nullable=False),
    Column("exported", Integer, nullable=False),
)  # fmt: skip
Index("documents_newest", documents.c.tenant, documents.c.id.desc())
Index("documents_content", documents.c.tenant, documents.c.content_hash)
Index("documents_job", documents.c.job)
Index("documents_batch", documents.c.batch, documents.c.id)
_where = text("done = 0")
Index("documents_undone", documents.c.tenant, documents.c.id, sqlite_where=_where, postgresql_where=_where)
_where = text("done = 1 AND exported < revision")
Index("documents_stale", documents.c.tenant, documents.c.content_hash, sqlite_where=_where, postgresql_where=_where)
_where = text("twin IS NOT NULL")
Index("documents_twin", documents.c.tenant, documents.c.twin, sqlite_where=_where, postgresql_where=_where)

extractions = Table(
    "document_extractions", metadata,
    Column("tenant", _Text, nullable=False),
    Column("cache_key", _Text, nullable=False),
    Column("content_hash", _Text, nullable=False),
    Column("kind", _Text, nullable=False),
    Column("pages", Integer, nullable=False),
    Column("result", _Text, nullable=False),
    Column("created", Float(53), nullable=False),
    PrimaryKeyConstraint("tenant", "cache_key"),
    Index("document_extractions_content", "tenant", "content_hash"),
)  # fmt: skip

locks = Table(
    "document_locks", metadata,
    Column("tenant", _Text, nullable=False),
    Column("content_hash", _Text, nullable=False),
    Column("field", _Text, nullable=False),
    Column("value", _Text, nullable=False),
    Column("actor", _Text, nullable=False),
    Column("at", Float(53), nullable=False),
    PrimaryKeyConstraint("tenant", "content_hash", "field"),
)  # fmt: skip

review = Table(
    "review_items", metadata,
    Column("id", _Text, primary_key=True),
    Column("tenant", _Text, nullable=False),
    Column("document", _Text, nullable=False),
    Column("content_hash", _Text, nullable=False),
    Column("status", _Text, nullable=False),
    # What its priority is now: `rank`, and where it is rising 30/86400 more each second. `turns`: when that changes.
    Column("rising", Integer, nullable=False),
    Column("rank", Float(53), nullable=False),
    Column("turns", Float(53)),
    Column("weight", Float(53), nullable=False),
    Column("deadline", Float(53), nullable=False),
    Column("confidence", Float(53), nullable=False),
    Column("line_count", Integer, nullable=False),
    Column("total", Float(53), nullable=False),
    Column("approvable", Integer, nullable=False),
    Column("assigned_to", _Text),
    Column("claim_until", Float(53)),
    Column("created", Float(53), nullable=False),
    Column("claimed", Float(53)),
    Column("decided", Float(53)),
    Column("decided_by", _Text),
    Column("reason", _Text),
)  # fmt: skip
Index("review_items_order", review.c.status, review.c.rising, review.c.rank.desc(), review.c.id)
Index("review_items_tenant", review.c.tenant, review.c.status, review.c.rising, review.c.rank.desc(), review.c.id)
_where = text("assigned_to IS NOT NULL")
Index(
    "review_items_assigned",
    review.c.assigned_to, review.c.status, review.c.rising, review.c.rank.desc(), review.c.id,
    sqlite_where=_where, postgresql_where=_where,
)  # fmt: skip
Index("review_items_document", review.c.document)
Index("review_items_decided", review.c.tenant, review.c.decided)
_where = text("turns IS NOT NULL")
Index("review_items_turns", review.c.turns, sqlite_where=_where, postgresql_where=_where)
_where = text("status = 'in_review'")
Index("review_items_claims", review.c.claim_until, sqlite_where=_where, postgresql_where=_where)
_where = text("status IN ('pending', 'in_review')")
Index("review_items_deadline", review.c.deadline, sqlite_where=_where, postgresql_where=_where)

audit = Table(
    "review_audit", metadata,
    Column("id", _Text, primary_key=True),
    Column("tenant", _Text, nullable=False),
    Column("item", _Text, nullable=False),
    Column("document", _Text, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("actor", _Text, nullable=False),
    Column("action", _Text, nullable=False),
    Column("field", _Text),
    Column("before", _Text),
    Column("after", _Text),
    Column("reason", _Text),
    Index("review_audit_item", "item", "id"),
    Index("review_audit_document", "document", "id"),
)  # fmt: skip

breaches = Table(
    "document_breaches", metadata,
    Column("id", _Text, primary_key=True),
    Column("rule", _Text, nullable=False),
    Column("severity", _Text, nullable=False),
    Column("bound", Float(53), nullable=False),
    # What was measured last, and what was furthest from the bound.
    Column("value", Float(53), nullable=False),
    Column("worst", Float(53), nullable=False),
    Column("began", Float(53), nullable=False),
    Column("ended", Float(53)),
)  # fmt: skip
Index("document_breaches_began", breaches.c.began)
_where = text("ended IS NULL")
Index("document_breaches_open", breaches.c.rule, unique=True, sqlite_where=_where, postgresql_where=_where)
