-- Tables carry what the records in record.rs name, under the same names. Nothing here is a rule of the product.
--
-- * Text compares by bytes (COLLATE "C"), so that every order is the same as in SQLite and in memory.
-- * No foreign keys: the engine owns all relations, and checking them would lock rows of strangers.
-- * No index (nor predicate of one) names a column that changes before its row is finished: updates then stay
--   on their page (HOT) and touch no index, as far as there is room on the page. A batch often updates all rows of
--   a page at once, so the two tables that live by updates leave half of it: measured against fillfactor 80, with
--   batches of 256, 75 % instead of 32 % of all updates stayed on their page, and wrote less than half the WAL.
-- * Indexes that contain all columns of their table's primary key, and more, are partial, with a condition that is
--   true for every row and that only listings repeat. Otherwise a plan made while the table is empty, when all
--   indexes cost the same, may take such an index for a search by key, and walk through all rows of a tenant.

CREATE TABLE batch (
    id           uuid     PRIMARY KEY,
    committed_ms bigint   NOT NULL,
    -- 1: by the batch itself. 0: a tombstone that keeps a batch from landing after its fate was settled.
    written      smallint NOT NULL
);
-- Old ones are removed page by page.
CREATE INDEX batch_committed ON batch (committed_ms);

CREATE TABLE tenant (
    id           uuid   PRIMARY KEY,
    slug         text   COLLATE "C" NOT NULL UNIQUE,
    created_ms   bigint NOT NULL,
    version      bigint NOT NULL,
    name         text   COLLATE "C" NOT NULL,
    retention_ms bigint
);

CREATE TABLE worker_token (
    tenant_id  uuid   NOT NULL,
    id         uuid   NOT NULL,
    name       text   COLLATE "C" NOT NULL,
    hash       bytea  NOT NULL UNIQUE,
    created_ms bigint NOT NULL,
    expires_ms bigint,
    version    bigint NOT NULL,
    revoked_ms bigint,
    PRIMARY KEY (tenant_id, id)
);

CREATE TABLE worker (
    tenant_id         uuid   NOT NULL,
    id                uuid   NOT NULL,
    name              text   COLLATE "C" NOT NULL,
    version           bigint NOT NULL,
    build_id          text   COLLATE "C" NOT NULL,
    host              text   COLLATE "C" NOT NULL,
    process_id        text   COLLATE "C" NOT NULL,
    queue             text   COLLATE "C",
    registered_ms     bigint NOT NULL,
    last_heartbeat_ms bigint NOT NULL,
    lease_until_ms    bigint,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 80);

CREATE TABLE worker_capability (
    tenant_id    uuid     NOT NULL,
    worker_id    uuid     NOT NULL,
    class        smallint NOT NULL,
    kind         text     COLLATE "C" NOT NULL,
    kind_version text     COLLATE "C" NOT NULL,
    timeout_ms   bigint,
    input_schema  bytea,
    output_schema bytea,
    PRIMARY KEY (tenant_id, worker_id, class, kind, kind_version)
);

CREATE TABLE paused_queue (
    tenant_id uuid   NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    paused_ms bigint NOT NULL,
    PRIMARY KEY (tenant_id, name)
);

CREATE TABLE workflow_execution (
    tenant_id              uuid     NOT NULL,
    id                     uuid     NOT NULL,
    kind                   text     COLLATE "C" NOT NULL,
    queue                  text     COLLATE "C" NOT NULL,
    workflow_version       text     COLLATE "C",
    priority_seconds       bigint   NOT NULL,
    parent_id              uuid,
    parent_name            text     COLLATE "C",
    retry_of               uuid,
    idempotency_key        text     COLLATE "C",
    traceparent            text     COLLATE "C",
    created_ms             bigint   NOT NULL,
    scheduled_ms           bigint,
    deadline_ms            bigint,
    version                bigint   NOT NULL,
    status                 smallint NOT NULL,
    started_ms             bigint,
    finished_ms            bigint,
    last_sequence          bigint   NOT NULL,
    last_external_sequence bigint   NOT NULL,
    base_sequence          bigint   NOT NULL,
    last_event_ms          bigint   NOT NULL,
    history_bytes          bigint   NOT NULL,
    large                  smallint NOT NULL,
    epoch                  bigint   NOT NULL,
    accepted_epoch         bigint   NOT NULL,
    worker                 text     COLLATE "C",
    session                uuid,
    plain                  smallint NOT NULL,
    lease_until_ms         bigint,
    marked                 smallint NOT NULL,
    cooperative            smallint NOT NULL,
    cancel_requested_ms    bigint,
    not_before_ms          bigint,
    activation_failures    bigint   NOT NULL,
    failure_code           text     COLLATE "C",
    failure_message        text     COLLATE "C",
    failure_build          text     COLLATE "C",
    open_tasks             bigint   NOT NULL,
    open_timers            bigint   NOT NULL,
    open_promises          bigint   NOT NULL,
    open_children          bigint   NOT NULL,
    buffered_signals       bigint   NOT NULL,
    delivered_signals      bigint   NOT NULL,
    state_keys             bigint   NOT NULL,
    alarm_ms               bigint,
    lease_alarm_ms         bigint,
    purging                smallint NOT NULL,
    -- For listing by status: 0 while open, then the status. Not NULL for open ones, because the planner does not
    -- see that IS NULL fixes a column, and would sort.
    outcome                smallint NOT NULL
        GENERATED ALWAYS AS (CASE WHEN status >= 3 THEN status ELSE 0 END) STORED,
    PRIMARY KEY (tenant_id, id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX workflow_execution_created ON workflow_execution (tenant_id, created_ms, id)
    WHERE created_ms > -9000000000000000000;
CREATE INDEX workflow_execution_outcome ON workflow_execution (tenant_id, outcome, created_ms, id)
    WHERE created_ms > -9000000000000000000;
CREATE INDEX workflow_execution_kind ON workflow_execution (tenant_id, kind, created_ms, id)
    WHERE created_ms > -9000000000000000000;
CREATE INDEX workflow_execution_queue ON workflow_execution (tenant_id, queue, created_ms, id)
    WHERE created_ms > -9000000000000000000;
CREATE INDEX workflow_execution_parent ON workflow_execution (tenant_id, parent_id, id)
    WHERE parent_id IS NOT NULL;
CREATE INDEX workflow_execution_finished ON workflow_execution (tenant_id, finished_ms, id)
    WHERE finished_ms IS NOT NULL;

CREATE TABLE execution_label (
    tenant_id    uuid   NOT NULL,
    execution_id uuid   NOT NULL,
    name         text   COLLATE "C" NOT NULL,
    value        text   COLLATE "C" NOT NULL,
    created_ms   bigint NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, name)
);
CREATE INDEX execution_label_value ON execution_label (tenant_id, name, value, created_ms, execution_id)
    WHERE created_ms > -9000000000000000000;

CREATE TABLE workflow_event (
    tenant_id    uuid     NOT NULL,
    execution_id uuid     NOT NULL,
    sequence     bigint   NOT NULL,
    kind         smallint NOT NULL,
    origin       smallint NOT NULL,
    time_ms      bigint   NOT NULL,
    subject      uuid,
    name         text     COLLATE "C",
    number       bigint,
    text         text     COLLATE "C",
    payload      bytea,
    PRIMARY KEY (tenant_id, execution_id, sequence)
);

CREATE TABLE execution_state (
    tenant_id    uuid   NOT NULL,
    execution_id uuid   NOT NULL,
    name         text   COLLATE "C" NOT NULL,
    sequence     bigint NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, name)
);

CREATE TABLE timer (
    tenant_id    uuid     NOT NULL,
    execution_id uuid     NOT NULL,
    name         text     COLLATE "C" NOT NULL,
    fire_ms      bigint   NOT NULL,
    version      bigint   NOT NULL,
    status       smallint NOT NULL,
    PRIMARY KEY (tenant_id, execution_id, name)
) WITH (fillfactor = 80);

CREATE TABLE promise (
    tenant_id    uuid     NOT NULL,
    id           uuid     NOT NULL,
    execution_id uuid     NOT NULL,
    name         text     COLLATE "C" NOT NULL,
    external_key text     COLLATE "C",
    created_ms   bigint   NOT NULL,
    deadline_ms  bigint,
    version      bigint   NOT NULL,
    status       smallint NOT NULL,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 80);
CREATE INDEX promise_execution ON promise (tenant_id, execution_id, id)
    WHERE created_ms > -9000000000000000000;

CREATE TABLE task_execution (
    tenant_id            uuid             NOT NULL,
    id                   uuid             NOT NULL,
    execution_id         uuid,
    task_type            text             COLLATE "C" NOT NULL,
    queue                text             COLLATE "C" NOT NULL,
    priority_seconds     bigint           NOT NULL,
    input                bytea            NOT NULL,
    max_retries          bigint           NOT NULL,
    retry_initial_ms     bigint           NOT NULL,
    retry_factor         double precision NOT NULL,
    retry_cap_ms         bigint           NOT NULL,
    schedule_to_start_ms bigint,
    start_to_close_ms    bigint,
    total_ms             bigint,
    heartbeat_ms         bigint,
    idempotency_key      text             COLLATE "C",
    traceparent          text             COLLATE "C",
    created_ms           bigint           NOT NULL,
    version              bigint           NOT NULL,
    scheduled_ms         bigint,
    status               smallint         NOT NULL,
    announced            smallint         NOT NULL,
    execution_count      bigint           NOT NULL,
    retry_base           bigint           NOT NULL,
    not_before_ms        bigint,
    started_ms           bigint,
    finished_ms          bigint,
    output               bytea,
    error                text             COLLATE "C",
    epoch                bigint           NOT NULL,
    accepted_epoch       bigint           NOT NULL,
    worker               text             COLLATE "C",
    session              uuid,
    plain                smallint         NOT NULL,
    lease_until_ms       bigint,
    cancel_requested     smallint         NOT NULL,
    last_heartbeat_ms    bigint,
    heartbeat_details    bytea,
    progress             double precision NOT NULL,
    progress_details     text             COLLATE "C",
    log_lines            bigint           NOT NULL,
    alarm_ms             bigint,
    lease_alarm_ms       bigint,
    purging              smallint         NOT NULL,
    -- As in workflow_execution.
    outcome              smallint         NOT NULL
        GENERATED ALWAYS AS (CASE WHEN status >= 2 THEN status ELSE 0 END) STORED,
    PRIMARY KEY (tenant_id, id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);
CREATE INDEX task_execution_owner ON task_execution (tenant_id, execution_id, id)
    WHERE execution_id IS NOT NULL;
-- Only standalone tasks are listed by themselves.
CREATE INDEX task_execution_created ON task_execution (tenant_id, created_ms, id)
    WHERE execution_id IS NULL;
CREATE INDEX task_execution_outcome ON task_execution (tenant_id, outcome, created_ms, id)
    WHERE execution_id IS NULL;
CREATE INDEX task_execution_type ON task_execution (tenant_id, task_type, created_ms, id)
    WHERE execution_id IS NULL;
CREATE INDEX task_execution_queue ON task_execution (tenant_id, queue, created_ms, id)
    WHERE execution_id IS NULL;
CREATE INDEX task_execution_finished ON task_execution (tenant_id, finished_ms, id)
    WHERE execution_id IS NULL AND finished_ms IS NOT NULL;

CREATE TABLE task_attempt (
    tenant_id   uuid     NOT NULL,
    task_id     uuid     NOT NULL,
    attempt     bigint   NOT NULL,
    started_ms  bigint   NOT NULL,
    finished_ms bigint   NOT NULL,
    status      smallint NOT NULL,
    error       text     COLLATE "C",
    worker      text     COLLATE "C",
    PRIMARY KEY (tenant_id, task_id, attempt)
);

CREATE TABLE task_state (
    tenant_id uuid  NOT NULL,
    task_id   uuid  NOT NULL,
    name      text  COLLATE "C" NOT NULL,
    value     bytea NOT NULL,
    PRIMARY KEY (tenant_id, task_id, name)
);

CREATE TABLE task_log (
    tenant_id uuid     NOT NULL,
    task_id   uuid     NOT NULL,
    line      bigint   NOT NULL,
    time_ms   bigint   NOT NULL,
    level     smallint NOT NULL,
    message   text     COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, task_id, line)
);

CREATE TABLE idempotency_key (
    tenant_id    uuid     NOT NULL,
    space        smallint NOT NULL,
    name         text     COLLATE "C" NOT NULL,
    version      bigint   NOT NULL,
    holder_class smallint NOT NULL,
    holder_id    uuid     NOT NULL,
    created_ms   bigint   NOT NULL,
    expires_ms   bigint   NOT NULL,
    PRIMARY KEY (tenant_id, space, name)
);
CREATE INDEX idempotency_key_expires ON idempotency_key (expires_ms);

-- The two tables that claims and loops search: every row of them is inserted and soon deleted, so they are
-- vacuumed after a number of rows, not after a part of a table that is nearly always empty.
CREATE TABLE ready (
    tenant_id    uuid     NOT NULL,
    class        smallint NOT NULL,
    queue        text     COLLATE "C" NOT NULL,
    kind         text     COLLATE "C" NOT NULL,
    kind_version text     COLLATE "C" NOT NULL,
    sort_ms      bigint   NOT NULL,
    id           uuid     NOT NULL,
    PRIMARY KEY (tenant_id, class, queue, kind, kind_version, sort_ms, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE TABLE due (
    clock     smallint NOT NULL,
    due_ms    bigint   NOT NULL,
    tenant_id uuid     NOT NULL,
    class     smallint NOT NULL,
    id        uuid     NOT NULL,
    name      text     COLLATE "C" NOT NULL,
    cursor    uuid,
    note      text     COLLATE "C",
    PRIMARY KEY (clock, due_ms, tenant_id, class, id, name)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);
