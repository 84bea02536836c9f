-- Every table is clustered by its key: ids are time-ordered, so rows that are made together lie together.
-- UUIDs are 16-byte blobs, times are milliseconds, small numbers are the engine's enumerations.
-- No foreign keys: what belongs together is written and purged together by the engine.
-- Each index is paid for at every insert, and again at every update of one of its columns: there are few.

CREATE TABLE tenant (
    id BLOB NOT NULL,
    slug TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    version INTEGER NOT NULL,
    name TEXT NOT NULL,
    retention_ms INTEGER,
    PRIMARY KEY (id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tenant_by_slug ON tenant (slug);

CREATE TABLE worker_token (
    tenant_id BLOB NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    hash BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    version INTEGER NOT NULL,
    revoked_ms INTEGER,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX worker_token_by_hash ON worker_token (hash);

CREATE TABLE worker (
    tenant_id BLOB NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    build_id TEXT NOT NULL,
    host TEXT NOT NULL,
    process_id TEXT NOT NULL,
    queue TEXT,
    registered_ms INTEGER NOT NULL,
    last_heartbeat_ms INTEGER NOT NULL,
    lease_until_ms INTEGER,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE worker_capability (
    tenant_id BLOB NOT NULL,
    worker_id BLOB NOT NULL,
    class INTEGER NOT NULL,
    kind TEXT NOT NULL,
    kind_version TEXT NOT NULL,
    timeout_ms INTEGER,
    input_schema BLOB,
    output_schema BLOB,
    PRIMARY KEY (tenant_id, worker_id, class, kind, kind_version)
) STRICT, WITHOUT ROWID;

CREATE TABLE paused_queue (
    tenant_id BLOB NOT NULL,
    name TEXT NOT NULL,
    paused_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow_execution (
    tenant_id BLOB NOT NULL,
    id BLOB NOT NULL,
    kind TEXT NOT NULL,
    queue TEXT NOT NULL,
    workflow_version TEXT,
    priority_seconds INTEGER NOT NULL,
    parent_id BLOB,
    parent_name TEXT,
    retry_of BLOB,
    idempotency_key TEXT,
    traceparent TEXT,
    created_ms INTEGER NOT NULL,
    scheduled_ms INTEGER,
    deadline_ms INTEGER,
    version INTEGER NOT NULL,
    status INTEGER NOT NULL,
    started_ms INTEGER,
    finished_ms INTEGER,
    last_sequence INTEGER NOT NULL,
    last_external_sequence INTEGER NOT NULL,
    base_sequence INTEGER NOT NULL,
    last_event_ms INTEGER NOT NULL,
    history_bytes INTEGER NOT NULL,
    large INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    accepted_epoch INTEGER NOT NULL,
    worker TEXT,
    session BLOB,
    plain INTEGER NOT NULL,
    lease_until_ms INTEGER,
    marked INTEGER NOT NULL,
    cooperative INTEGER NOT NULL,
    cancel_requested_ms INTEGER,
    not_before_ms INTEGER,
    activation_failures INTEGER NOT NULL,
    failure_code TEXT,
    failure_message TEXT,
    failure_build TEXT,
    open_tasks INTEGER NOT NULL,
    open_timers INTEGER NOT NULL,
    open_promises INTEGER NOT NULL,
    open_children INTEGER NOT NULL,
    buffered_signals INTEGER NOT NULL,
    delivered_signals INTEGER NOT NULL,
    state_keys INTEGER NOT NULL,
    alarm_ms INTEGER,
    lease_alarm_ms INTEGER,
    purging INTEGER NOT NULL,
    -- For the index only: the status once it is terminal, NULL before (see sql.rs). A generated column would do,
    -- but SQLite would rewrite its entry in the index whenever `status` is set; this one moves once in a life.
    outcome INTEGER,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX execution_by_created ON workflow_execution (tenant_id, created_ms, id);
CREATE INDEX execution_by_kind ON workflow_execution (tenant_id, kind, created_ms, id);
CREATE INDEX execution_by_queue ON workflow_execution (tenant_id, queue, created_ms, id);
CREATE INDEX execution_by_outcome ON workflow_execution (tenant_id, outcome, created_ms, id);
-- Two for children, since follow-ups walk them by id and people list them by age.
CREATE INDEX execution_child ON workflow_execution (tenant_id, parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX execution_by_parent ON workflow_execution (tenant_id, parent_id, created_ms, id)
    WHERE parent_id IS NOT NULL;
CREATE INDEX execution_by_finished ON workflow_execution (tenant_id, finished_ms, id)
    WHERE finished_ms IS NOT NULL;

CREATE TABLE execution_label (
    tenant_id BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX label_by_value ON execution_label (tenant_id, name, value, created_ms, execution_id);

CREATE TABLE workflow_event (
    tenant_id BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    sequence INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    subject BLOB,
    name TEXT,
    number INTEGER,
    text TEXT,
    payload BLOB,
    PRIMARY KEY (tenant_id, execution_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE execution_state (
    tenant_id BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    name TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE timer (
    tenant_id BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    name TEXT NOT NULL,
    fire_ms INTEGER NOT NULL,
    version INTEGER NOT NULL,
    status INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE promise (
    tenant_id BLOB NOT NULL,
    id BLOB NOT NULL,
    execution_id BLOB NOT NULL,
    name TEXT NOT NULL,
    external_key TEXT,
    created_ms INTEGER NOT NULL,
    deadline_ms INTEGER,
    version INTEGER NOT NULL,
    status INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX promise_of_execution ON promise (tenant_id, execution_id, id);

CREATE TABLE task_execution (
    tenant_id BLOB NOT NULL,
    id BLOB NOT NULL,
    execution_id BLOB,
    task_type TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority_seconds INTEGER NOT NULL,
    input BLOB NOT NULL,
    max_retries INTEGER NOT NULL,
    retry_initial_ms INTEGER NOT NULL,
    retry_factor REAL NOT NULL,
    retry_cap_ms INTEGER NOT NULL,
    schedule_to_start_ms INTEGER,
    start_to_close_ms INTEGER,
    total_ms INTEGER,
    heartbeat_ms INTEGER,
    idempotency_key TEXT,
    traceparent TEXT,
    created_ms INTEGER NOT NULL,
    scheduled_ms INTEGER,
    version INTEGER NOT NULL,
    status INTEGER NOT NULL,
    announced INTEGER NOT NULL,
    execution_count INTEGER NOT NULL,
    retry_base INTEGER NOT NULL,
    not_before_ms INTEGER,
    started_ms INTEGER,
    finished_ms INTEGER,
    output BLOB,
    error TEXT,
    epoch INTEGER NOT NULL,
    accepted_epoch INTEGER NOT NULL,
    worker TEXT,
    session BLOB,
    plain INTEGER NOT NULL,
    lease_until_ms INTEGER,
    cancel_requested INTEGER NOT NULL,
    last_heartbeat_ms INTEGER,
    heartbeat_details BLOB,
    progress REAL NOT NULL,
    progress_details TEXT,
    log_lines INTEGER NOT NULL,
    alarm_ms INTEGER,
    lease_alarm_ms INTEGER,
    purging INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_of_execution ON task_execution (tenant_id, execution_id, id) WHERE execution_id IS NOT NULL;
-- People list standalone tasks only; the tasks of workflows pay for none of these.
CREATE INDEX task_by_created ON task_execution (tenant_id, created_ms, id) WHERE execution_id IS NULL;
CREATE INDEX task_by_status ON task_execution (tenant_id, status, created_ms, id) WHERE execution_id IS NULL;
CREATE INDEX task_by_type ON task_execution (tenant_id, task_type, created_ms, id) WHERE execution_id IS NULL;
CREATE INDEX task_by_queue ON task_execution (tenant_id, queue, created_ms, id) WHERE execution_id IS NULL;
CREATE INDEX task_by_finished ON task_execution (tenant_id, finished_ms, id)
    WHERE execution_id IS NULL AND finished_ms IS NOT NULL;

CREATE TABLE task_attempt (
    tenant_id BLOB NOT NULL,
    task_id BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    finished_ms INTEGER NOT NULL,
    status INTEGER NOT NULL,
    error TEXT,
    worker TEXT,
    PRIMARY KEY (tenant_id, task_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE task_state (
    tenant_id BLOB NOT NULL,
    task_id BLOB NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (tenant_id, task_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE task_log (
    tenant_id BLOB NOT NULL,
    task_id BLOB NOT NULL,
    line INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    level INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (tenant_id, task_id, line)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_key (
    tenant_id BLOB NOT NULL,
    space INTEGER NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    holder_class INTEGER NOT NULL,
    holder_id BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, space, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_by_expiry ON idempotency_key (expires_ms);

CREATE TABLE ready (
    tenant_id BLOB NOT NULL,
    class INTEGER NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    kind_version TEXT NOT NULL,
    sort_ms INTEGER NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (tenant_id, class, queue, kind, kind_version, sort_ms, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE due (
    clock INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    tenant_id BLOB NOT NULL,
    class INTEGER NOT NULL,
    id BLOB NOT NULL,
    name TEXT NOT NULL,
    cursor BLOB,
    note TEXT,
    PRIMARY KEY (clock, due_ms, tenant_id, class, id, name)
) STRICT, WITHOUT ROWID;
