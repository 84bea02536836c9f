-- An execution does not end over a signal that it has not seen. What has signals waiting just now is taken to have seen none.
ALTER TABLE workflow_execution ADD COLUMN last_signal_sequence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflow_execution ADD COLUMN runs_again INTEGER NOT NULL DEFAULT 0;
UPDATE workflow_execution SET last_signal_sequence = last_external_sequence WHERE buffered_signals > 0 AND status < 3;
