-- Activations that the server has refused in a row with one code: after some of them the execution has failed.
ALTER TABLE workflow_execution ADD COLUMN equal_refusals INTEGER NOT NULL DEFAULT 0;
