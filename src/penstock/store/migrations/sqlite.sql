CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE batches (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    "key" TEXT NOT NULL,
    generation INTEGER NOT NULL,
    "limit" INTEGER,
    "then" TEXT,
    created FLOAT NOT NULL,
    sealed FLOAT,
    finished FLOAT,
    members INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    canceled INTEGER NOT NULL,
    follow_up TEXT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX batches_by_key ON batches (tenant, "key", generation);
CREATE INDEX batches_finished ON batches (finished) WHERE key = id AND finished IS NOT NULL;
CREATE TABLE history (
    id INTEGER NOT NULL,
    job TEXT NOT NULL,
    at FLOAT NOT NULL,
    kind TEXT NOT NULL,
    step TEXT NOT NULL,
    status TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    move INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    took FLOAT,
    worker TEXT,
    note TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX ix_history_job ON history (job);
CREATE TABLE jobs (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    workflow TEXT NOT NULL,
    "key" TEXT NOT NULL,
    run INTEGER NOT NULL,
    queue TEXT NOT NULL,
    digest TEXT NOT NULL,
    parent TEXT,
    fan_in TEXT,
    cleanup TEXT,
    base INTEGER NOT NULL,
    period INTEGER NOT NULL,
    cap INTEGER NOT NULL,
    aged_from FLOAT NOT NULL,
    created FLOAT NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    step TEXT NOT NULL,
    payload TEXT NOT NULL,
    lane TEXT NOT NULL,
    batch TEXT,
    batch_slot TEXT,
    resource TEXT NOT NULL,
    gate TEXT DEFAULT '' NOT NULL,
    result TEXT,
    error TEXT,
    reason TEXT,
    attempt INTEGER DEFAULT '0' NOT NULL,
    throttled INTEGER DEFAULT '0' NOT NULL,
    crashes INTEGER DEFAULT '0' NOT NULL,
    epoch INTEGER DEFAULT '0' NOT NULL,
    moves INTEGER DEFAULT '0' NOT NULL,
    worker TEXT,
    due FLOAT,
    started FLOAT,
    entered FLOAT,
    finished FLOAT,
    counters TEXT,
    progress TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX jobs_batch_slot ON jobs (batch_slot) WHERE batch_slot IS NOT NULL;
CREATE UNIQUE INDEX jobs_by_key ON jobs (tenant, workflow, "key", run);
CREATE INDEX jobs_due ON jobs (due) WHERE due IS NOT NULL AND phase IN ('timed', 'held');
CREATE INDEX jobs_finished ON jobs (finished) WHERE finished IS NOT NULL AND lane <> '';
CREATE INDEX jobs_held ON jobs (worker, lane) WHERE phase = 'held';
CREATE INDEX jobs_ready ON jobs (lane, aged_from, id) WHERE phase = 'ready';
CREATE INDEX jobs_stopped ON jobs (status, id) WHERE status IN ('failed', 'paused', 'canceling');
CREATE TABLE limits (
    "key" TEXT NOT NULL,
    most INTEGER NOT NULL,
    PRIMARY KEY ("key")
);
CREATE TABLE locks (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    job TEXT NOT NULL,
    taken FLOAT NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX ix_locks_job ON locks (job);
CREATE TABLE members (
    batch TEXT NOT NULL,
    job TEXT NOT NULL,
    ended TEXT,
    PRIMARY KEY (batch, job)
);
CREATE INDEX ix_members_job ON members (job);
CREATE TABLE outputs (
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    previous TEXT,
    sha256 TEXT NOT NULL,
    size BIGINT NOT NULL,
    job TEXT NOT NULL,
    published INTEGER NOT NULL,
    PRIMARY KEY (name)
);
CREATE INDEX outputs_unpublished ON outputs (name) WHERE published = 0;
CREATE TABLE schedules (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    next_due FLOAT NOT NULL,
    job TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    last_fired FLOAT,
    PRIMARY KEY (tenant, name)
);
CREATE TABLE workers (
    id TEXT NOT NULL,
    started FLOAT NOT NULL,
    seen FLOAT NOT NULL,
    expires FLOAT NOT NULL,
    info TEXT NOT NULL,
    PRIMARY KEY (id)
);
INSERT INTO alembic_version (version_num) VALUES ('0001') RETURNING version_num;
CREATE TABLE budgets (
    scope TEXT NOT NULL,
    most BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    PRIMARY KEY (scope)
);
CREATE TABLE calls (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    job TEXT NOT NULL,
    workflow TEXT NOT NULL,
    remote TEXT NOT NULL,
    "key" TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    created FLOAT NOT NULL,
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    unwanted INTEGER NOT NULL,
    provider_id TEXT,
    model TEXT NOT NULL,
    place TEXT NOT NULL,
    digest TEXT NOT NULL,
    prepared TEXT NOT NULL,
    holds TEXT NOT NULL,
    submit_before FLOAT,
    submitted FLOAT,
    due FLOAT,
    checked FLOAT,
    looks INTEGER NOT NULL,
    strikes INTEGER NOT NULL,
    finished FLOAT,
    error TEXT,
    result TEXT,
    done BIGINT,
    total BIGINT,
    input BIGINT NOT NULL,
    output BIGINT NOT NULL,
    cached BIGINT NOT NULL,
    thinking BIGINT NOT NULL,
    estimate BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    decided_by TEXT,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX calls_by_key ON calls (job, "key", attempt);
CREATE INDEX calls_by_state ON calls (state, created);
CREATE INDEX calls_by_time ON calls (created, id);
CREATE INDEX calls_due ON calls (due) WHERE due IS NOT NULL;
CREATE TABLE holds (
    name TEXT NOT NULL,
    call TEXT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (name, call)
);
CREATE INDEX ix_holds_call ON holds (call);
UPDATE alembic_version SET version_num='0002' WHERE alembic_version.version_num = '0001';
DROP INDEX ix_history_job;
ALTER TABLE history RENAME TO old_history;
CREATE TABLE history (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, at FLOAT NOT NULL, kind TEXT NOT NULL, step TEXT NOT NULL, status TEXT NOT NULL, epoch INTEGER NOT NULL, move INTEGER NOT NULL, attempt INTEGER NOT NULL, took FLOAT, worker TEXT, note TEXT);
INSERT INTO history SELECT * FROM old_history ORDER BY id;
DROP TABLE old_history;
CREATE INDEX ix_history_job ON history (job);
CREATE TABLE answers (
    scope TEXT NOT NULL,
    "key" TEXT NOT NULL,
    digest TEXT NOT NULL,
    answer TEXT,
    at FLOAT NOT NULL,
    PRIMARY KEY (scope, "key")
);
CREATE INDEX ix_answers_at ON answers (at);
CREATE TABLE audit (
    id TEXT NOT NULL,
    at FLOAT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    tenant TEXT NOT NULL,
    via TEXT NOT NULL,
    address TEXT,
    detail TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX audit_by_target ON audit (target, id);
CREATE INDEX audit_by_tenant ON audit (tenant, id);
CREATE INDEX ix_audit_at ON audit (at);
CREATE TABLE cursors (
    name TEXT NOT NULL,
    place TEXT NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE logs (
    id INTEGER NOT NULL,
    job TEXT NOT NULL,
    at FLOAT NOT NULL,
    step TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    level TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX ix_logs_job ON logs (job);
CREATE TABLE meters (
    name TEXT NOT NULL,
    labels TEXT NOT NULL,
    value FLOAT NOT NULL,
    PRIMARY KEY (name, labels)
);
CREATE TABLE series (
    minute FLOAT NOT NULL,
    name TEXT NOT NULL,
    labels TEXT NOT NULL,
    value FLOAT NOT NULL,
    PRIMARY KEY (minute, name, labels)
);
CREATE TABLE sessions (
    hash TEXT NOT NULL,
    token TEXT NOT NULL,
    csrf TEXT NOT NULL,
    created FLOAT NOT NULL,
    expires FLOAT NOT NULL,
    PRIMARY KEY (hash)
);
CREATE INDEX ix_sessions_expires ON sessions (expires);
CREATE INDEX ix_sessions_token ON sessions (token);
CREATE TABLE tokens (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    scopes TEXT NOT NULL,
    tenant TEXT,
    created FLOAT NOT NULL,
    expires FLOAT,
    used FLOAT,
    revoked FLOAT,
    PRIMARY KEY (id),
    UNIQUE (hash),
    UNIQUE (name)
);
DROP INDEX jobs_stopped;
CREATE INDEX jobs_stopped ON jobs (status, id) WHERE status IN ('failed', 'paused', 'canceling', 'canceled');
CREATE INDEX jobs_children ON jobs (parent, id) WHERE parent IS NOT NULL;
UPDATE alembic_version SET version_num='0003' WHERE alembic_version.version_num = '0002';
CREATE TABLE pages_attempts (
    id INTEGER NOT NULL,
    ledger TEXT NOT NULL,
    book TEXT NOT NULL,
    number INTEGER NOT NULL,
    "key" TEXT NOT NULL,
    batch INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    at FLOAT NOT NULL,
    type TEXT NOT NULL,
    message TEXT NOT NULL,
    raw TEXT,
    parsed TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX pages_attempts_page ON pages_attempts (ledger, book, number, id);
CREATE INDEX pages_attempts_time ON pages_attempts (ledger, id);
CREATE TABLE pages_batches (
    ledger TEXT NOT NULL,
    number INTEGER NOT NULL,
    job TEXT NOT NULL,
    call TEXT,
    state TEXT NOT NULL,
    size INTEGER NOT NULL,
    ok INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cost BIGINT NOT NULL,
    created FLOAT NOT NULL,
    submitted FLOAT,
    ended FLOAT,
    outcome TEXT,
    errors TEXT,
    model TEXT NOT NULL,
    prompt TEXT NOT NULL,
    version TEXT NOT NULL,
    generation TEXT NOT NULL,
    PRIMARY KEY (ledger, number)
);
CREATE INDEX pages_batches_active ON pages_batches (ledger, number) WHERE state <> 'ended';
CREATE TABLE pages_books (
    ledger TEXT NOT NULL,
    book TEXT NOT NULL,
    state TEXT NOT NULL,
    school TEXT NOT NULL,
    year INTEGER NOT NULL,
    pages TEXT NOT NULL,
    states TEXT NOT NULL,
    total INTEGER NOT NULL,
    done INTEGER NOT NULL,
    flying INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    found INTEGER NOT NULL,
    served INTEGER NOT NULL,
    label_seen BIGINT NOT NULL,
    output_seen BIGINT NOT NULL,
    PRIMARY KEY (ledger, book)
);
CREATE INDEX pages_books_dead ON pages_books (ledger, book) WHERE dead > 0;
CREATE INDEX pages_books_flying ON pages_books (ledger, book) WHERE flying > 0;
CREATE INDEX pages_books_found ON pages_books (ledger, book) WHERE found > 0;
CREATE TABLE pages_failures (
    ledger TEXT NOT NULL,
    book TEXT NOT NULL,
    number INTEGER NOT NULL,
    "key" TEXT NOT NULL,
    failures INTEGER NOT NULL,
    batch_failures INTEGER NOT NULL,
    file_failures INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    type TEXT NOT NULL,
    message TEXT NOT NULL,
    at FLOAT NOT NULL,
    PRIMARY KEY (ledger, book, number)
);
CREATE INDEX pages_failures_dead ON pages_failures (ledger, dead, book, number);
CREATE TABLE pages_flights (
    ledger TEXT NOT NULL,
    book TEXT NOT NULL,
    number INTEGER NOT NULL,
    "key" TEXT NOT NULL,
    batch INTEGER NOT NULL,
    image TEXT NOT NULL,
    context TEXT,
    without TEXT,
    PRIMARY KEY (ledger, book, number)
);
CREATE INDEX pages_flights_batch ON pages_flights (ledger, batch);
CREATE TABLE pages_folders (
    ledger TEXT NOT NULL,
    path TEXT NOT NULL,
    seen BIGINT NOT NULL,
    PRIMARY KEY (ledger, path)
);
CREATE TABLE pages_ignored (
    ledger TEXT NOT NULL,
    path TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (ledger, path)
);
CREATE TABLE pages_ledgers (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    output_dir TEXT NOT NULL,
    mark TEXT NOT NULL,
    label_dir TEXT NOT NULL,
    image_dir TEXT NOT NULL,
    job TEXT NOT NULL,
    scope TEXT NOT NULL,
    schema TEXT NOT NULL,
    on_dead TEXT NOT NULL,
    most_failures INTEGER NOT NULL,
    batches INTEGER NOT NULL,
    scanned FLOAT,
    created FLOAT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (output_dir)
);
CREATE TABLE pages_ready (
    ledger TEXT NOT NULL,
    book TEXT NOT NULL,
    number INTEGER NOT NULL,
    remaining INTEGER NOT NULL,
    served INTEGER NOT NULL,
    PRIMARY KEY (ledger, book, number)
);
CREATE INDEX pages_ready_order ON pages_ready (ledger, remaining DESC, served, book, number);
CREATE TABLE pages_staged (
    ledger TEXT NOT NULL,
    book TEXT NOT NULL,
    name TEXT NOT NULL,
    file TEXT NOT NULL,
    PRIMARY KEY (ledger, book, name)
);
CREATE TABLE pages_wishes (
    id TEXT NOT NULL,
    ledger TEXT NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    actor TEXT NOT NULL,
    at FLOAT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX pages_wishes_ledger ON pages_wishes (ledger, id);
CREATE VIEW active_batches AS SELECT b.ledger, COALESCE(c.provider_id, b.call, '') AS batch_id, b.number, b.state, b.size, b.created, b.submitted FROM pages_batches b LEFT JOIN calls c ON c.id = b.call WHERE b.state <> 'ended';
CREATE VIEW batch_record_keys AS SELECT f.ledger, COALESCE(c.provider_id, b.call, '') AS batch_id, f.key AS record_key FROM pages_flights f JOIN pages_batches b ON b.ledger = f.ledger AND b.number = f.batch LEFT JOIN calls c ON c.id = b.call;
CREATE VIEW inflight_records AS SELECT ledger, key AS record_key FROM pages_flights;
CREATE VIEW failure_counts AS SELECT ledger, key AS record_key, failures FROM pages_failures;
UPDATE alembic_version SET version_num='0004' WHERE alembic_version.version_num = '0003';
CREATE TABLE document_breaches (
    id TEXT NOT NULL,
    rule TEXT NOT NULL,
    severity TEXT NOT NULL,
    bound FLOAT NOT NULL,
    value FLOAT NOT NULL,
    worst FLOAT NOT NULL,
    began FLOAT NOT NULL,
    ended FLOAT,
    PRIMARY KEY (id)
);
CREATE INDEX document_breaches_began ON document_breaches (began);
CREATE UNIQUE INDEX document_breaches_open ON document_breaches (rule) WHERE ended IS NULL;
CREATE TABLE document_extractions (
    tenant TEXT NOT NULL,
    cache_key TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    kind TEXT NOT NULL,
    pages INTEGER NOT NULL,
    result TEXT NOT NULL,
    created FLOAT NOT NULL,
    PRIMARY KEY (tenant, cache_key)
);
CREATE INDEX document_extractions_content ON document_extractions (tenant, content_hash);
CREATE TABLE document_locks (
    tenant TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    field TEXT NOT NULL,
    value TEXT NOT NULL,
    actor TEXT NOT NULL,
    at FLOAT NOT NULL,
    PRIMARY KEY (tenant, content_hash, field)
);
CREATE TABLE documents (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    filename TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    kind TEXT,
    pages INTEGER,
    job TEXT NOT NULL,
    earlier TEXT NOT NULL,
    batch TEXT,
    done INTEGER NOT NULL,
    created FLOAT NOT NULL,
    finished FLOAT,
    folder TEXT,
    extraction TEXT,
    data TEXT,
    confidence FLOAT,
    review_status TEXT,
    review_item TEXT,
    twin TEXT,
    revision INTEGER NOT NULL,
    exported INTEGER NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX documents_batch ON documents (batch, id);
CREATE INDEX documents_content ON documents (tenant, content_hash);
CREATE INDEX documents_job ON documents (job);
CREATE INDEX documents_newest ON documents (tenant, id DESC);
CREATE INDEX documents_stale ON documents (tenant, content_hash) WHERE done = 1 AND exported < revision;
CREATE INDEX documents_twin ON documents (tenant, twin) WHERE twin IS NOT NULL;
CREATE INDEX documents_undone ON documents (tenant, id) WHERE done = 0;
CREATE TABLE review_audit (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    item TEXT NOT NULL,
    document TEXT NOT NULL,
    at FLOAT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    field TEXT,
    "before" TEXT,
    "after" TEXT,
    reason TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX review_audit_document ON review_audit (document, id);
CREATE INDEX review_audit_item ON review_audit (item, id);
CREATE TABLE review_items (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    document TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    status TEXT NOT NULL,
    rising INTEGER NOT NULL,
    rank FLOAT NOT NULL,
    turns FLOAT,
    weight FLOAT NOT NULL,
    deadline FLOAT NOT NULL,
    confidence FLOAT NOT NULL,
    line_count INTEGER NOT NULL,
    total FLOAT NOT NULL,
    approvable INTEGER NOT NULL,
    assigned_to TEXT,
    claim_until FLOAT,
    created FLOAT NOT NULL,
    claimed FLOAT,
    decided FLOAT,
    decided_by TEXT,
    reason TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX review_items_assigned ON review_items (assigned_to, status, rising, rank DESC, id) WHERE assigned_to IS NOT NULL;
CREATE INDEX review_items_claims ON review_items (claim_until) WHERE status = 'in_review';
CREATE INDEX review_items_deadline ON review_items (deadline) WHERE status IN ('pending', 'in_review');
CREATE INDEX review_items_decided ON review_items (tenant, decided);
CREATE INDEX review_items_document ON review_items (document);
CREATE INDEX review_items_order ON review_items (status, rising, rank DESC, id);
CREATE INDEX review_items_tenant ON review_items (tenant, status, rising, rank DESC, id);
CREATE INDEX review_items_turns ON review_items (turns) WHERE turns IS NOT NULL;
UPDATE alembic_version SET version_num='0005' WHERE alembic_version.version_num = '0004';
CREATE TABLE kb_bases (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    config TEXT NOT NULL,
    run TEXT,
    edition INTEGER,
    created FLOAT NOT NULL,
    updated FLOAT NOT NULL,
    leaving TEXT,
    "plan" TEXT,
    PRIMARY KEY (tenant, id)
);
CREATE TABLE kb_chunks (
    edition INTEGER NOT NULL,
    n BIGINT NOT NULL,
    content_hash TEXT NOT NULL,
    text TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    run TEXT NOT NULL,
    indexed_at FLOAT NOT NULL,
    PRIMARY KEY (edition, n)
);
CREATE UNIQUE INDEX kb_chunks_content ON kb_chunks (edition, content_hash);
CREATE TABLE kb_documents (
    edition INTEGER NOT NULL,
    n BIGINT NOT NULL,
    source TEXT NOT NULL,
    uri TEXT NOT NULL,
    title TEXT NOT NULL,
    metadata TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    fingerprint TEXT,
    chunks INTEGER NOT NULL,
    state TEXT NOT NULL,
    run TEXT NOT NULL,
    seen TEXT NOT NULL,
    hidden_by TEXT,
    indexed_at FLOAT NOT NULL,
    PRIMARY KEY (edition, n)
);
CREATE UNIQUE INDEX kb_documents_current ON kb_documents (edition, source, uri) WHERE state = 'current';
CREATE INDEX kb_documents_other ON kb_documents (edition, state, n) WHERE state <> 'current';
CREATE INDEX kb_documents_run ON kb_documents (edition, run, n);
CREATE TABLE kb_editions (
    number INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    base TEXT NOT NULL,
    chunker TEXT NOT NULL,
    embedder TEXT NOT NULL,
    model TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    opened_by TEXT,
    gone INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    documents BIGINT NOT NULL,
    chunks BIGINT NOT NULL,
    created FLOAT NOT NULL,
    PRIMARY KEY (number)
);
CREATE INDEX kb_editions_base ON kb_editions (tenant, base);
CREATE TABLE kb_errors (
    id TEXT NOT NULL,
    edition INTEGER NOT NULL,
    run TEXT NOT NULL,
    source TEXT NOT NULL,
    uri TEXT NOT NULL,
    cursor TEXT,
    document BIGINT,
    seq INTEGER,
    position TEXT,
    text TEXT,
    error TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at FLOAT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX kb_errors_document ON kb_errors (edition, document);
CREATE INDEX kb_errors_run ON kb_errors (run, id);
CREATE TABLE kb_frontier (
    run TEXT NOT NULL,
    source INTEGER NOT NULL,
    n INTEGER NOT NULL,
    uri TEXT NOT NULL,
    PRIMARY KEY (run, source, n)
);
CREATE UNIQUE INDEX kb_frontier_uri ON kb_frontier (run, source, uri);
CREATE TABLE kb_pieces (
    edition INTEGER NOT NULL,
    document BIGINT NOT NULL,
    seq INTEGER NOT NULL,
    chunk BIGINT NOT NULL,
    position TEXT NOT NULL,
    PRIMARY KEY (edition, document, seq)
);
CREATE INDEX kb_pieces_chunk ON kb_pieces (edition, chunk);
CREATE TABLE kb_retried (
    taken_by TEXT NOT NULL,
    id TEXT NOT NULL,
    edition INTEGER NOT NULL,
    run TEXT NOT NULL,
    source TEXT NOT NULL,
    uri TEXT NOT NULL,
    cursor TEXT,
    document BIGINT,
    seq INTEGER,
    position TEXT,
    text TEXT,
    error TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    at FLOAT NOT NULL,
    PRIMARY KEY (taken_by, id)
);
CREATE TABLE kb_runs (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    base TEXT NOT NULL,
    edition INTEGER,
    job TEXT NOT NULL,
    config TEXT NOT NULL,
    began FLOAT NOT NULL,
    finished FLOAT,
    last_error TEXT,
    "plan" TEXT,
    outcome TEXT,
    state TEXT,
    PRIMARY KEY (id)
);
CREATE INDEX kb_runs_base ON kb_runs (tenant, base, id);
CREATE INDEX kb_runs_job ON kb_runs (job);
CREATE TABLE kb_staged (
    run TEXT NOT NULL,
    n INTEGER NOT NULL,
    document BIGINT NOT NULL,
    seq INTEGER NOT NULL,
    last INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    text TEXT NOT NULL,
    position TEXT NOT NULL,
    PRIMARY KEY (run, n)
);
UPDATE alembic_version SET version_num='0006' WHERE alembic_version.version_num = '0005';
