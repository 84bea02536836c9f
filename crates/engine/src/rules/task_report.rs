//! Progress and log lines of a task: accepted late, and never a reason to fail the task.

use crate::check;
use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::lifecycle::task;
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::{AppendLogLine, ReportProgress};
use crate::rules::{Rule, Work};
use crate::state::{Task, TaskLog};
use crate::working_set::Needs;

impl Rule for ReportProgress {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        if !(0.0..=1.0).contains(&self.progress) {
            let message = format!("progress {} is outside 0..=1", self.progress);
            return Err(Refusal::new(Code::InvalidPayload, message));
        }
        check::text("details", self.details.as_deref().unwrap_or(""), limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.row::<Task>((tenant_id, self.task_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        if task::find(work, self.task_id)?.status.is_terminal() {
            // The task has ended since, so the progress is obsolete.
            return Ok(Reply::Done);
        }
        let mut row = task::find_claimed(work, self.task_id, self.token)?;
        row.progress = self.progress;
        row.progress_details = self.details.clone();
        work.set.tasks.put(row);
        Ok(Reply::Done)
    }
}

impl Rule for AppendLogLine {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::text("message", &self.message, limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.row::<Task>((tenant_id, self.task_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut row = task::find_logged(work, self.task_id, self.token)?;
        // Log lines beyond the limit are dropped; the task does not fail.
        if row.log_lines < work.limits.log_lines {
            row.log_lines += 1;
            work.set.task_logs.put(TaskLog {
                tenant_id: row.tenant_id,
                task_id: row.id,
                line: row.log_lines,
                time_ms: work.now.ms,
                level: self.level,
                message: self.message.clone(),
            });
            work.set.tasks.put(row);
        }
        Ok(Reply::Done)
    }
}
