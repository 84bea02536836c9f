-- Who changed what. Rows are only inserted, and deleted when they are old.
CREATE TABLE audit (
    tenant_id BLOB NOT NULL,
    time_ms INTEGER NOT NULL,
    id BLOB NOT NULL,
    actor TEXT NOT NULL,
    credential INTEGER NOT NULL,
    action INTEGER NOT NULL,
    target TEXT NOT NULL,
    details TEXT,
    PRIMARY KEY (tenant_id, time_ms, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_by_target ON audit (tenant_id, target, time_ms, id);
CREATE INDEX audit_by_time ON audit (time_ms);
