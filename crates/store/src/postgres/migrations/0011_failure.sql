-- The type of a failure, its details, and how often its task ran. NULL: nothing is known but the error.
ALTER TABLE task_execution ADD COLUMN failure bytea;
ALTER TABLE task_attempt ADD COLUMN failure bytea;
