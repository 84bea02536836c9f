-- Clean-up after a cancel request: the time it may take in all, and when the execution is force-stopped.
ALTER TABLE workflow_execution
    ADD COLUMN cancel_grace_ms bigint,
    ADD COLUMN clean_up_until_ms bigint,
    -- The time that is left while the clock does not run: the execution waits for a worker, or runs.
    ADD COLUMN clean_up_left_ms bigint;
UPDATE workflow_execution SET clean_up_until_ms = greatest(alarm_ms, cancel_requested_ms + 60000)
    WHERE cancel_requested_ms IS NOT NULL AND status = 2;
UPDATE workflow_execution SET clean_up_left_ms = 60000 WHERE cancel_requested_ms IS NOT NULL AND status < 2;
