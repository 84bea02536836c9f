-- An update stays on its page and touches no index (HOT) unless it changes a column that some index names, be it a
-- partial one in which the row has no entry. The task of a workflow ends as often as it begins, and is in none of the
-- indexes for listing: these now have columns of their own, which it leaves NULL. `outcome` stays for processes of the
-- version before.
ALTER TABLE task_execution
    ADD COLUMN listed_outcome smallint
        GENERATED ALWAYS AS (CASE WHEN execution_id IS NULL THEN CASE WHEN status >= 2 THEN status ELSE 0 END END) STORED,
    ADD COLUMN listed_finished_ms bigint
        GENERATED ALWAYS AS (CASE WHEN execution_id IS NULL THEN finished_ms END) STORED;
DROP INDEX task_execution_outcome;
DROP INDEX task_execution_finished;
CREATE INDEX task_execution_outcome ON task_execution (tenant_id, listed_outcome, created_ms, id)
    WHERE execution_id IS NULL;
CREATE INDEX task_execution_finished ON task_execution (tenant_id, listed_finished_ms, id)
    WHERE listed_finished_ms IS NOT NULL;
