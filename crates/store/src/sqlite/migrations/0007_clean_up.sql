-- Clean-up after a cancel request: the time it may take in all, and when the execution is force-stopped.
ALTER TABLE workflow_execution ADD COLUMN cancel_grace_ms INTEGER;
ALTER TABLE workflow_execution ADD COLUMN clean_up_until_ms INTEGER;
-- The time that is left while the clock does not run: the execution waits for a worker, or runs.
ALTER TABLE workflow_execution ADD COLUMN clean_up_left_ms INTEGER;
UPDATE workflow_execution SET clean_up_until_ms = max(alarm_ms, cancel_requested_ms + 60000)
    WHERE cancel_requested_ms IS NOT NULL AND status = 2;
UPDATE workflow_execution SET clean_up_left_ms = 60000 WHERE cancel_requested_ms IS NOT NULL AND status < 2;
