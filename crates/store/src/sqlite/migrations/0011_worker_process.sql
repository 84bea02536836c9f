-- Whether a worker has sent a heartbeat since it registered. Those that do send the next one soon.
ALTER TABLE worker ADD COLUMN heartbeats INTEGER NOT NULL DEFAULT 0;
-- Several processes may have one name.
CREATE INDEX worker_by_name ON worker (tenant_id, name);
