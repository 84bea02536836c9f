-- Who changed what. Rows are only inserted, and deleted when they are old.
CREATE TABLE audit (
    tenant_id  uuid     NOT NULL,
    time_ms    bigint   NOT NULL,
    id         uuid     NOT NULL,
    actor      text     COLLATE "C" NOT NULL,
    credential smallint NOT NULL,
    action     smallint NOT NULL,
    target     text     COLLATE "C" NOT NULL,
    details    text     COLLATE "C",
    PRIMARY KEY (tenant_id, time_ms, id)
);
CREATE INDEX audit_target ON audit (tenant_id, target, time_ms, id);
CREATE INDEX audit_time ON audit (time_ms);
