-- What tenants may use, and what they have used of it. Few tenants have a row.
CREATE TABLE quota (
    tenant_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    monthly_workflow_runs INTEGER,
    concurrent_workflows INTEGER,
    requests_per_second INTEGER,
    burst INTEGER,
    month INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    open_workflows INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    refilled_ms INTEGER NOT NULL,
    PRIMARY KEY (tenant_id)
) STRICT, WITHOUT ROWID;

-- Whether the execution is counted in its tenant's quota. Those that were there before have not been.
ALTER TABLE workflow_execution ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
