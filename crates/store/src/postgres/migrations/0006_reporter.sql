-- Whose report counts when it carries no claim token (lifecycle/reporter.rs in the engine): what was accepted last, who made
-- the claim, and when one of a client without tokens ended last without a report.
ALTER TABLE workflow_execution
    ADD COLUMN accepted_digest bigint,
    ADD COLUMN claim_credential bigint,
    ADD COLUMN claim_connection bigint,
    ADD COLUMN claim_lost_ms bigint;
ALTER TABLE task_execution
    ADD COLUMN accepted_digest bigint,
    ADD COLUMN claim_credential bigint,
    ADD COLUMN claim_connection bigint,
    ADD COLUMN claim_lost_ms bigint;
