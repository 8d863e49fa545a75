CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE batches (
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    generation INTEGER NOT NULL,
    "limit" INTEGER,
    "then" TEXT COLLATE "C",
    created FLOAT(53) NOT NULL,
    sealed FLOAT(53),
    finished FLOAT(53),
    members INTEGER NOT NULL,
    completed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    canceled INTEGER NOT NULL,
    follow_up TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX batches_by_key ON batches (tenant, key, generation);
CREATE INDEX batches_finished ON batches (finished) WHERE key = id AND finished IS NOT NULL;
CREATE TABLE history (
    id BIGSERIAL NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    at FLOAT(53) NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    step TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    epoch INTEGER NOT NULL,
    move INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    took FLOAT(53),
    worker TEXT COLLATE "C",
    note TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE INDEX ix_history_job ON history (job);
CREATE TABLE jobs (
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    workflow TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    run INTEGER NOT NULL,
    queue TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    parent TEXT COLLATE "C",
    fan_in TEXT COLLATE "C",
    cleanup TEXT COLLATE "C",
    base INTEGER NOT NULL,
    period INTEGER NOT NULL,
    cap INTEGER NOT NULL,
    aged_from FLOAT(53) NOT NULL,
    created FLOAT(53) NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    phase TEXT COLLATE "C" NOT NULL,
    step TEXT COLLATE "C" NOT NULL,
    payload TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    batch TEXT COLLATE "C",
    batch_slot TEXT COLLATE "C",
    resource TEXT COLLATE "C" NOT NULL,
    gate TEXT COLLATE "C" DEFAULT '' NOT NULL,
    result TEXT COLLATE "C",
    error TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    attempt INTEGER DEFAULT '0' NOT NULL,
    throttled INTEGER DEFAULT '0' NOT NULL,
    crashes INTEGER DEFAULT '0' NOT NULL,
    epoch INTEGER DEFAULT '0' NOT NULL,
    moves INTEGER DEFAULT '0' NOT NULL,
    worker TEXT COLLATE "C",
    due FLOAT(53),
    started FLOAT(53),
    entered FLOAT(53),
    finished FLOAT(53),
    counters TEXT COLLATE "C",
    progress TEXT COLLATE "C",
    PRIMARY KEY (id)
);
ALTER TABLE jobs SET (fillfactor = 70);
CREATE INDEX jobs_batch_slot ON jobs (batch_slot) WHERE batch_slot IS NOT NULL;
CREATE UNIQUE INDEX jobs_by_key ON jobs (tenant, workflow, key, run);
CREATE INDEX jobs_due ON jobs (due) WHERE due IS NOT NULL AND phase IN ('timed', 'held');
CREATE INDEX jobs_finished ON jobs (finished) WHERE finished IS NOT NULL AND lane <> '';
CREATE INDEX jobs_held ON jobs (worker, lane) WHERE phase = 'held';
CREATE INDEX jobs_ready ON jobs (lane, aged_from, id) WHERE phase = 'ready';
CREATE INDEX jobs_stopped ON jobs (status, id) WHERE status IN ('failed', 'paused', 'canceling');
CREATE TABLE limits (
    key TEXT COLLATE "C" NOT NULL,
    most INTEGER NOT NULL,
    PRIMARY KEY (key)
);
CREATE TABLE locks (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    taken FLOAT(53) NOT NULL,
    PRIMARY KEY (tenant, name)
);
CREATE INDEX ix_locks_job ON locks (job);
CREATE TABLE members (
    batch TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    ended TEXT COLLATE "C",
    PRIMARY KEY (batch, job)
);
CREATE INDEX ix_members_job ON members (job);
CREATE TABLE outputs (
    name TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    previous TEXT COLLATE "C",
    sha256 TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    published INTEGER NOT NULL,
    PRIMARY KEY (name)
);
CREATE INDEX outputs_unpublished ON outputs (name) WHERE published = 0;
CREATE TABLE schedules (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    cron TEXT COLLATE "C" NOT NULL,
    timezone TEXT COLLATE "C" NOT NULL,
    next_due FLOAT(53) NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    enabled BOOLEAN NOT NULL,
    last_fired FLOAT(53),
    PRIMARY KEY (tenant, name)
);
CREATE TABLE workers (
    id TEXT COLLATE "C" NOT NULL,
    started FLOAT(53) NOT NULL,
    seen FLOAT(53) NOT NULL,
    expires FLOAT(53) NOT NULL,
    info TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
);
INSERT INTO alembic_version (version_num) VALUES ('0001') RETURNING alembic_version.version_num;
CREATE TABLE budgets (
    scope TEXT COLLATE "C" NOT NULL,
    most BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    PRIMARY KEY (scope)
);
CREATE TABLE calls (
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    workflow TEXT COLLATE "C" NOT NULL,
    remote TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    attempt INTEGER NOT NULL,
    created FLOAT(53) NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    epoch INTEGER NOT NULL,
    unwanted INTEGER NOT NULL,
    provider_id TEXT COLLATE "C",
    model TEXT COLLATE "C" NOT NULL,
    place TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    prepared TEXT COLLATE "C" NOT NULL,
    holds TEXT COLLATE "C" NOT NULL,
    submit_before FLOAT(53),
    submitted FLOAT(53),
    due FLOAT(53),
    checked FLOAT(53),
    looks INTEGER NOT NULL,
    strikes INTEGER NOT NULL,
    finished FLOAT(53),
    error TEXT COLLATE "C",
    result TEXT COLLATE "C",
    done BIGINT,
    total BIGINT,
    input BIGINT NOT NULL,
    output BIGINT NOT NULL,
    cached BIGINT NOT NULL,
    thinking BIGINT NOT NULL,
    estimate BIGINT NOT NULL,
    cost BIGINT NOT NULL,
    decided_by TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX calls_by_key ON calls (job, key, attempt);
CREATE INDEX calls_by_state ON calls (state, created);
CREATE INDEX calls_by_time ON calls (created, id);
CREATE INDEX calls_due ON calls (due) WHERE due IS NOT NULL;
CREATE TABLE holds (
    name TEXT COLLATE "C" NOT NULL,
    call TEXT COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (name, call)
);
CREATE INDEX ix_holds_call ON holds (call);
UPDATE alembic_version SET version_num='0002' WHERE alembic_version.version_num = '0001';
CREATE TABLE answers (
    scope TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C",
    at FLOAT(53) NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX ix_answers_at ON answers (at);
CREATE TABLE audit (
    id TEXT COLLATE "C" NOT NULL,
    at FLOAT(53) NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    via TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C",
    detail TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE INDEX audit_by_target ON audit (target, id);
CREATE INDEX audit_by_tenant ON audit (tenant, id);
CREATE INDEX ix_audit_at ON audit (at);
CREATE TABLE cursors (
    name TEXT COLLATE "C" NOT NULL,
    place TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE logs (
    id BIGSERIAL NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    at FLOAT(53) NOT NULL,
    step TEXT COLLATE "C" NOT NULL,
    attempt INTEGER NOT NULL,
    level TEXT COLLATE "C" NOT NULL,
    text TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX ix_logs_job ON logs (job);
CREATE TABLE meters (
    name TEXT COLLATE "C" NOT NULL,
    labels TEXT COLLATE "C" NOT NULL,
    value FLOAT(53) NOT NULL,
    PRIMARY KEY (name, labels)
);
CREATE TABLE series (
    minute FLOAT(53) NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    labels TEXT COLLATE "C" NOT NULL,
    value FLOAT(53) NOT NULL,
    PRIMARY KEY (minute, name, labels)
);
CREATE TABLE sessions (
    hash TEXT COLLATE "C" NOT NULL,
    token TEXT COLLATE "C" NOT NULL,
    csrf TEXT COLLATE "C" NOT NULL,
    created FLOAT(53) NOT NULL,
    expires FLOAT(53) NOT NULL,
    PRIMARY KEY (hash)
);
CREATE INDEX ix_sessions_expires ON sessions (expires);
CREATE INDEX ix_sessions_token ON sessions (token);
CREATE TABLE tokens (
    id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    scopes TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C",
    created FLOAT(53) NOT NULL,
    expires FLOAT(53),
    used FLOAT(53),
    revoked FLOAT(53),
    PRIMARY KEY (id),
    UNIQUE (hash),
    UNIQUE (name)
);
DROP INDEX jobs_stopped;
CREATE INDEX jobs_stopped ON jobs (status, id) WHERE status IN ('failed', 'paused', 'canceling', 'canceled');
CREATE INDEX jobs_children ON jobs (parent, id) WHERE parent IS NOT NULL;
UPDATE alembic_version SET version_num='0003' WHERE alembic_version.version_num = '0002';
CREATE TABLE pages_attempts (
    id BIGSERIAL NOT NULL,
    ledger TEXT COLLATE "C" NOT NULL,
    book TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    batch INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    at FLOAT(53) NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    raw TEXT COLLATE "C",
    parsed TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE INDEX pages_attempts_page ON pages_attempts (ledger, book, number, id);
CREATE INDEX pages_attempts_time ON pages_attempts (ledger, id);
CREATE TABLE pages_batches (
    ledger TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    call TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL,
    size INTEGER NOT NULL,
    ok INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cost BIGINT NOT NULL,
    created FLOAT(53) NOT NULL,
    submitted FLOAT(53),
    ended FLOAT(53),
    outcome TEXT COLLATE "C",
    errors TEXT COLLATE "C",
    model TEXT COLLATE "C" NOT NULL,
    prompt TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    generation TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (ledger, number)
);
CREATE INDEX pages_batches_active ON pages_batches (ledger, number) WHERE state <> 'ended';
CREATE TABLE pages_books (
    ledger TEXT COLLATE "C" NOT NULL,
    book TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    school TEXT COLLATE "C" NOT NULL,
    year INTEGER NOT NULL,
    pages TEXT COLLATE "C" NOT NULL,
    states TEXT COLLATE "C" NOT NULL,
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
    ledger TEXT COLLATE "C" NOT NULL,
    book TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    failures INTEGER NOT NULL,
    batch_failures INTEGER NOT NULL,
    file_failures INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    message TEXT COLLATE "C" NOT NULL,
    at FLOAT(53) NOT NULL,
    PRIMARY KEY (ledger, book, number)
);
CREATE INDEX pages_failures_dead ON pages_failures (ledger, dead, book, number);
CREATE TABLE pages_flights (
    ledger TEXT COLLATE "C" NOT NULL,
    book TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    batch INTEGER NOT NULL,
    image TEXT COLLATE "C" NOT NULL,
    context TEXT COLLATE "C",
    without TEXT COLLATE "C",
    PRIMARY KEY (ledger, book, number)
);
CREATE INDEX pages_flights_batch ON pages_flights (ledger, batch);
CREATE TABLE pages_folders (
    ledger TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    seen BIGINT NOT NULL,
    PRIMARY KEY (ledger, path)
);
CREATE TABLE pages_ignored (
    ledger TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (ledger, path)
);
CREATE TABLE pages_ledgers (
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    output_dir TEXT COLLATE "C" NOT NULL,
    mark TEXT COLLATE "C" NOT NULL,
    label_dir TEXT COLLATE "C" NOT NULL,
    image_dir TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    schema TEXT COLLATE "C" NOT NULL,
    on_dead TEXT COLLATE "C" NOT NULL,
    most_failures INTEGER NOT NULL,
    batches INTEGER NOT NULL,
    scanned FLOAT(53),
    created FLOAT(53) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (output_dir)
);
CREATE TABLE pages_ready (
    ledger TEXT COLLATE "C" NOT NULL,
    book TEXT COLLATE "C" NOT NULL,
    number INTEGER NOT NULL,
    remaining INTEGER NOT NULL,
    served INTEGER NOT NULL,
    PRIMARY KEY (ledger, book, number)
);
CREATE INDEX pages_ready_order ON pages_ready (ledger, remaining DESC, served, book, number);
CREATE TABLE pages_staged (
    ledger TEXT COLLATE "C" NOT NULL,
    book TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    file TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (ledger, book, name)
);
CREATE TABLE pages_wishes (
    id TEXT COLLATE "C" NOT NULL,
    ledger TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    at FLOAT(53) NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX pages_wishes_ledger ON pages_wishes (ledger, id);
CREATE VIEW active_batches AS SELECT b.ledger, COALESCE(c.provider_id, b.call, '') AS batch_id, b.number, b.state, b.size, b.created, b.submitted FROM pages_batches b LEFT JOIN calls c ON c.id = b.call WHERE b.state <> 'ended';
CREATE VIEW batch_record_keys AS SELECT f.ledger, COALESCE(c.provider_id, b.call, '') AS batch_id, f.key AS record_key FROM pages_flights f JOIN pages_batches b ON b.ledger = f.ledger AND b.number = f.batch LEFT JOIN calls c ON c.id = b.call;
CREATE VIEW inflight_records AS SELECT ledger, key AS record_key FROM pages_flights;
CREATE VIEW failure_counts AS SELECT ledger, key AS record_key, failures FROM pages_failures;
UPDATE alembic_version SET version_num='0004' WHERE alembic_version.version_num = '0003';
CREATE TABLE document_breaches (
    id TEXT COLLATE "C" NOT NULL,
    rule TEXT COLLATE "C" NOT NULL,
    severity TEXT COLLATE "C" NOT NULL,
    bound FLOAT(53) NOT NULL,
    value FLOAT(53) NOT NULL,
    worst FLOAT(53) NOT NULL,
    began FLOAT(53) NOT NULL,
    ended FLOAT(53),
    PRIMARY KEY (id)
);
CREATE INDEX document_breaches_began ON document_breaches (began);
CREATE UNIQUE INDEX document_breaches_open ON document_breaches (rule) WHERE ended IS NULL;
CREATE TABLE document_extractions (
    tenant TEXT COLLATE "C" NOT NULL,
    cache_key TEXT COLLATE "C" NOT NULL,
    content_hash TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    pages INTEGER NOT NULL,
    result TEXT COLLATE "C" NOT NULL,
    created FLOAT(53) NOT NULL,
    PRIMARY KEY (tenant, cache_key)
);
CREATE INDEX document_extractions_content ON document_extractions (tenant, content_hash);
CREATE TABLE document_locks (
    tenant TEXT COLLATE "C" NOT NULL,
    content_hash TEXT COLLATE "C" NOT NULL,
    field TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    at FLOAT(53) NOT NULL,
    PRIMARY KEY (tenant, content_hash, field)
);
CREATE TABLE documents (
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    filename TEXT COLLATE "C" NOT NULL,
    content_hash TEXT COLLATE "C" NOT NULL,
    size INTEGER NOT NULL,
    kind TEXT COLLATE "C",
    pages INTEGER,
    job TEXT COLLATE "C" NOT NULL,
    earlier TEXT COLLATE "C" NOT NULL,
    batch TEXT COLLATE "C",
    done INTEGER NOT NULL,
    created FLOAT(53) NOT NULL,
    finished FLOAT(53),
    folder TEXT COLLATE "C",
    extraction TEXT COLLATE "C",
    data TEXT COLLATE "C",
    confidence FLOAT(53),
    review_status TEXT COLLATE "C",
    review_item TEXT COLLATE "C",
    twin TEXT COLLATE "C",
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
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    item TEXT COLLATE "C" NOT NULL,
    document TEXT COLLATE "C" NOT NULL,
    at FLOAT(53) NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    field TEXT COLLATE "C",
    before TEXT COLLATE "C",
    after TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE INDEX review_audit_document ON review_audit (document, id);
CREATE INDEX review_audit_item ON review_audit (item, id);
CREATE TABLE review_items (
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    document TEXT COLLATE "C" NOT NULL,
    content_hash TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    rising INTEGER NOT NULL,
    rank FLOAT(53) NOT NULL,
    turns FLOAT(53),
    weight FLOAT(53) NOT NULL,
    deadline FLOAT(53) NOT NULL,
    confidence FLOAT(53) NOT NULL,
    line_count INTEGER NOT NULL,
    total FLOAT(53) NOT NULL,
    approvable INTEGER NOT NULL,
    assigned_to TEXT COLLATE "C",
    claim_until FLOAT(53),
    created FLOAT(53) NOT NULL,
    claimed FLOAT(53),
    decided FLOAT(53),
    decided_by TEXT COLLATE "C",
    reason TEXT COLLATE "C",
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
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    config TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C",
    edition INTEGER,
    created FLOAT(53) NOT NULL,
    updated FLOAT(53) NOT NULL,
    leaving TEXT COLLATE "C",
    plan TEXT COLLATE "C",
    PRIMARY KEY (tenant, id)
);
CREATE TABLE kb_chunks (
    edition INTEGER NOT NULL,
    n BIGINT NOT NULL,
    content_hash TEXT COLLATE "C" NOT NULL,
    text TEXT COLLATE "C" NOT NULL,
    tokens INTEGER NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    indexed_at FLOAT(53) NOT NULL,
    PRIMARY KEY (edition, n)
);
CREATE UNIQUE INDEX kb_chunks_content ON kb_chunks (edition, content_hash);
CREATE TABLE kb_documents (
    edition INTEGER NOT NULL,
    n BIGINT NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    uri TEXT COLLATE "C" NOT NULL,
    title TEXT COLLATE "C" NOT NULL,
    metadata TEXT COLLATE "C" NOT NULL,
    content_hash TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C",
    chunks INTEGER NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    seen TEXT COLLATE "C" NOT NULL,
    hidden_by TEXT COLLATE "C",
    indexed_at FLOAT(53) NOT NULL,
    PRIMARY KEY (edition, n)
);
CREATE UNIQUE INDEX kb_documents_current ON kb_documents (edition, source, uri) WHERE state = 'current';
CREATE INDEX kb_documents_other ON kb_documents (edition, state, n) WHERE state <> 'current';
CREATE INDEX kb_documents_run ON kb_documents (edition, run, n);
CREATE TABLE kb_editions (
    number INTEGER NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    base TEXT COLLATE "C" NOT NULL,
    chunker TEXT COLLATE "C" NOT NULL,
    embedder TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    dimension INTEGER NOT NULL,
    opened_by TEXT COLLATE "C",
    gone INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    documents BIGINT NOT NULL,
    chunks BIGINT NOT NULL,
    created FLOAT(53) NOT NULL,
    PRIMARY KEY (number)
);
CREATE INDEX kb_editions_base ON kb_editions (tenant, base);
CREATE TABLE kb_errors (
    id TEXT COLLATE "C" NOT NULL,
    edition INTEGER NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    uri TEXT COLLATE "C" NOT NULL,
    cursor TEXT COLLATE "C",
    document BIGINT,
    seq INTEGER,
    position TEXT COLLATE "C",
    text TEXT COLLATE "C",
    error TEXT COLLATE "C" NOT NULL,
    attempts INTEGER NOT NULL,
    at FLOAT(53) NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX kb_errors_document ON kb_errors (edition, document);
CREATE INDEX kb_errors_run ON kb_errors (run, id);
CREATE TABLE kb_frontier (
    run TEXT COLLATE "C" NOT NULL,
    source INTEGER NOT NULL,
    n INTEGER NOT NULL,
    uri TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (run, source, n)
);
CREATE UNIQUE INDEX kb_frontier_uri ON kb_frontier (run, source, uri);
CREATE TABLE kb_pieces (
    edition INTEGER NOT NULL,
    document BIGINT NOT NULL,
    seq INTEGER NOT NULL,
    chunk BIGINT NOT NULL,
    position TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (edition, document, seq)
);
CREATE INDEX kb_pieces_chunk ON kb_pieces (edition, chunk);
CREATE TABLE kb_retried (
    taken_by TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    edition INTEGER NOT NULL,
    run TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    uri TEXT COLLATE "C" NOT NULL,
    cursor TEXT COLLATE "C",
    document BIGINT,
    seq INTEGER,
    position TEXT COLLATE "C",
    text TEXT COLLATE "C",
    error TEXT COLLATE "C" NOT NULL,
    attempts INTEGER NOT NULL,
    at FLOAT(53) NOT NULL,
    PRIMARY KEY (taken_by, id)
);
CREATE TABLE kb_runs (
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    base TEXT COLLATE "C" NOT NULL,
    edition INTEGER,
    job TEXT COLLATE "C" NOT NULL,
    config TEXT COLLATE "C" NOT NULL,
    began FLOAT(53) NOT NULL,
    finished FLOAT(53),
    last_error TEXT COLLATE "C",
    plan TEXT COLLATE "C",
    outcome TEXT COLLATE "C",
    state TEXT COLLATE "C",
    PRIMARY KEY (id)
);
CREATE INDEX kb_runs_base ON kb_runs (tenant, base, id);
CREATE INDEX kb_runs_job ON kb_runs (job);
CREATE TABLE kb_staged (
    run TEXT COLLATE "C" NOT NULL,
    n INTEGER NOT NULL,
    document BIGINT NOT NULL,
    seq INTEGER NOT NULL,
    last INTEGER NOT NULL,
    content_hash TEXT COLLATE "C" NOT NULL,
    text TEXT COLLATE "C" NOT NULL,
    position TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (run, n)
);
UPDATE alembic_version SET version_num='0006' WHERE alembic_version.version_num = '0005';
