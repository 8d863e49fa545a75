"""What ingestion keeps beside its jobs: knowledge bases, their editions and runs, and what is in them.

An edition is one filling of a knowledge base with one chunker and one embedder; a rebuild makes the next. Its search
index lies in tables of its own (see `index`), so that leaving it means dropping them.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from penstock.store.schema import metadata

_Text = Text().with_variant(Text(collation="C"), "postgresql")

bases = Table(
    "kb_bases", metadata,
    Column("tenant", _Text, nullable=False),
    Column("id", _Text, nullable=False),
    Column("config", _Text, nullable=False),
    # The run that filled it last, or does; and the edition that is searched.
    Column("run", _Text),
    Column("edition", Integer),
    Column("created", Float(53), nullable=False),
    Column("updated", Float(53), nullable=False),
    # The job that deletes it: from then on nobody sees it.
    Column("leaving", _Text),
    Column("plan", _Text),
    PrimaryKeyConstraint("tenant", "id"),
)  # fmt: skip

editions = Table(
    "kb_editions", metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("tenant", _Text, nullable=False),
    Column("base", _Text, nullable=False),
    Column("chunker", _Text, nullable=False),
    Column("embedder", _Text, nullable=False),
    Column("model", _Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    # The run that opened it, while it is not complete; `gone` once its tables are dropped: no number is used twice.
    Column("opened_by", _Text),
    Column("gone", Integer, nullable=False),
    # Rises when something is removed: what was read of the index before is then out of date.
    Column("generation", Integer, nullable=False),
    Column("documents", BigInteger, nullable=False),
    Column("chunks", BigInteger, nullable=False),
    Column("created", Float(53), nullable=False),
)  # fmt: skip
Index("kb_editions_base", editions.c.tenant, editions.c.base)

runs = Table(
    "kb_runs", metadata,
    Column("id", _Text, primary_key=True),
    Column("tenant", _Text, nullable=False),
    Column("base", _Text, nullable=False),
    Column("edition", Integer),
    # The job that works on it now: another one after a failed run was resumed.
    Column("job", _Text, nullable=False),
    Column("config", _Text, nullable=False),
    Column("began", Float(53), nullable=False),
    Column("finished", Float(53)),
    Column("last_error", _Text),
    Column("plan", _Text),
    # What it came to, once it has ended: its job may be forgotten by then.
    Column("outcome", _Text),
    Column("state", _Text),
    Index("kb_runs_base", "tenant", "base", "id"),
    Index("kb_runs_job", "job"),
)  # fmt: skip

documents = Table(
    "kb_documents", metadata,
    Column("edition", Integer, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("source", _Text, nullable=False),
    Column("uri", _Text, nullable=False),
    Column("title", _Text, nullable=False),
    Column("metadata", _Text, nullable=False),
    Column("content_hash", _Text, nullable=False),
    Column("fingerprint", _Text),
    Column("chunks", Integer, nullable=False),
    # `writing` (not whole yet), `current` (searchable), `hidden` (replaced or vanished; gone when the run completes).
    Column("state", _Text, nullable=False),
    Column("run", _Text, nullable=False),
    Column("seen", _Text, nullable=False),
    Column("hidden_by", _Text),
    Column("indexed_at", Float(53), nullable=False),
    PrimaryKeyConstraint("edition", "n"),
)  # fmt: skip
_where = text("state = 'current'")
Index(
    "kb_documents_current", documents.c.edition, documents.c.source, documents.c.uri, unique=True,
    sqlite_where=_where, postgresql_where=_where,
)  # fmt: skip
_where = text("state <> 'current'")
Index(
    "kb_documents_other", documents.c.edition, documents.c.state, documents.c.n,
    sqlite_where=_where, postgresql_where=_where,
)  # fmt: skip
Index("kb_documents_run", documents.c.edition, documents.c.run, documents.c.n)

chunks = Table(
    "kb_chunks", metadata,
    Column("edition", Integer, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("content_hash", _Text, nullable=False),
    Column("text", _Text, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("run", _Text, nullable=False),
    Column("indexed_at", Float(53), nullable=False),
    PrimaryKeyConstraint("edition", "n"),
    Index("kb_chunks_content", "edition", "content_hash", unique=True),
)  # fmt: skip

pieces = Table(
    "kb_pieces", metadata,
    Column("edition", Integer, nullable=False),
    Column("document", BigInteger, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("chunk", BigInteger, nullable=False),
    Column("position", _Text, nullable=False),
    PrimaryKeyConstraint("edition", "document", "seq"),
    Index("kb_pieces_chunk", "edition", "chunk"),
)  # fmt: skip

errors = Table(
    "kb_errors", metadata,
    Column("id", _Text, primary_key=True),
    Column("edition", Integer, nullable=False),
    Column("run", _Text, nullable=False),
    # A document that could not be loaded (then without a place), or a chunk that could not be embedded, with its text.
    Column("source", _Text, nullable=False),
    Column("uri", _Text, nullable=False),
    Column("cursor", _Text),
    Column("document", BigInteger),
    Column("seq", Integer),
    Column("position", _Text),
    Column("text", _Text),
    Column("error", _Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("at", Float(53), nullable=False),
    Index("kb_errors_run", "run", "id"),
    Index("kb_errors_document", "edition", "document"),
)  # fmt: skip

# Errors that a run has taken up again: listed no more, and gone for good when it completes.
retried = Table(
    "kb_retried", metadata,
    Column("taken_by", _Text, nullable=False),
    *(Column(column.name, column.type, nullable=column.nullable) for column in errors.columns),
    PrimaryKeyConstraint("taken_by", "id"),
)  # fmt: skip

frontier = Table(
    "kb_frontier", metadata,
    Column("run", _Text, nullable=False),
    Column("source", Integer, nullable=False),
    Column("n", Integer, nullable=False),
    Column("uri", _Text, nullable=False),
    PrimaryKeyConstraint("run", "source", "n"),
    Index("kb_frontier_uri", "run", "source", "uri", unique=True),
)  # fmt: skip

staged = Table(
    "kb_staged", metadata,
    Column("run", _Text, nullable=False),
    Column("n", Integer, nullable=False),
    Column("document", BigInteger, nullable=False),
    Column("seq", Integer, nullable=False),
    # The last of its document: with it the document is whole.
    Column("last", Integer, nullable=False),
    Column("content_hash", _Text, nullable=False),
    Column("text", _Text, nullable=False),
    Column("position", _Text, nullable=False),
    PrimaryKeyConstraint("run", "n"),
)  # fmt: skip
