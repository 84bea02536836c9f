-- An execution that was started by signal-with-start holds its key while it is open, and for `ttl_after_end_ms` longer. NULL: an
-- idempotency key, which is free at `expires_ms`.
ALTER TABLE idempotency_key ADD COLUMN ttl_after_end_ms bigint;
-- Executions are found by their key, also those that no longer have it. None of its columns changes after the start.
CREATE INDEX workflow_execution_key ON workflow_execution (tenant_id, idempotency_key, created_ms, id)
    WHERE idempotency_key IS NOT NULL;
-- What is open gets its key back, if nobody else has taken it: signal-with-start wrote the signal (24) beside the start.
INSERT INTO idempotency_key
    (tenant_id, space, name, version, holder_class, holder_id, created_ms, expires_ms, ttl_after_end_ms)
SELECT e.tenant_id, 0, e.idempotency_key, 1, 0, e.id, e.created_ms, 9223372036854775807, 86400000
FROM workflow_execution e
JOIN workflow_event s ON s.tenant_id = e.tenant_id AND s.execution_id = e.id AND s.sequence = 2
WHERE e.idempotency_key IS NOT NULL AND e.status < 3 AND s.kind = 24 AND s.time_ms = e.created_ms
    AND NOT EXISTS (
        SELECT 1 FROM workflow_execution n
        WHERE n.tenant_id = e.tenant_id AND n.idempotency_key = e.idempotency_key AND n.status < 3
            AND (n.created_ms, n.id) > (e.created_ms, e.id)
    )
ON CONFLICT (tenant_id, space, name) DO UPDATE SET
    version = idempotency_key.version + 1,
    ttl_after_end_ms = idempotency_key.expires_ms - idempotency_key.created_ms,
    expires_ms = 9223372036854775807
WHERE idempotency_key.holder_class = 0 AND idempotency_key.holder_id = excluded.holder_id;
