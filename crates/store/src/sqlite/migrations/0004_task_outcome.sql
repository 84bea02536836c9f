-- Standalone tasks are listed by status as executions are: by a column that is NULL until the task has ended, so that
-- an entry moves once in a task's life and not whenever it is claimed.
ALTER TABLE task_execution ADD COLUMN outcome INTEGER;
UPDATE task_execution SET outcome = status WHERE status >= 2;
DROP INDEX task_by_status;
CREATE INDEX task_by_outcome ON task_execution (tenant_id, outcome, created_ms, id) WHERE execution_id IS NULL;
