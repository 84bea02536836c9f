-- What tenants may use, and what they have used of it. Few tenants have a row, and it changes at every start and end:
-- room on its page, and a vacuum after a number of changes, keep it where it is.
CREATE TABLE quota (
    tenant_id             uuid   PRIMARY KEY,
    version               bigint NOT NULL,
    monthly_workflow_runs bigint,
    concurrent_workflows  bigint,
    requests_per_second   bigint,
    burst                 bigint,
    month                 bigint NOT NULL,
    runs                  bigint NOT NULL,
    open_workflows        bigint NOT NULL,
    bucket                bigint NOT NULL,
    refilled_ms           bigint NOT NULL
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

-- Whether the execution is counted in its tenant's quota. Those that were there before have not been.
ALTER TABLE workflow_execution ADD COLUMN counted smallint NOT NULL DEFAULT 0;
