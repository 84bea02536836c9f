//! What happens when the report of a claim's holder is refused. Otherwise the worker's session would keep the claim for
//! as long as the worker lives, so the refusal ends the claim in the same decision. An activation counts as failed,
//! with the refusal's code, and is retried after a delay; a task fails. A report of another sender changes nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::batch::panic_message;
use crate::check;
use crate::code::{Code, Refusal};
use crate::cure::Cure;
use crate::event::Origin;
use crate::failure::Failure;
use crate::ids::{ExecutionId, TaskId, TenantId, Text};
use crate::lifecycle::execution::{self, End};
use crate::lifecycle::reporter::{self, ClaimOf, Verdict};
use crate::lifecycle::task::{self, Next};
use crate::limits::Limits;
use crate::note::Noted;
use crate::planted::{Bug, planted};
use crate::reply::Reply;
use crate::request::{Outcome, RefuseActivation, RefuseTaskResult, SubmitActivation};
use crate::rules::{Rule, Work};
use crate::state::{AttemptStatus, Execution, TaskStatus, WorkClass};
use crate::working_set::Needs;

/// The longest message of a refusal that is stored with an execution or a task. It may quote what was sent.
const MESSAGE_BYTES: usize = 4_000;
/// How many characters of an error that is too long are quoted.
const BEGINNING_CHARS: usize = 200;

impl Rule for RefuseActivation {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        if let Some(execution) = needs.execution((tenant_id, self.execution_id)) {
            needs_end(needs, execution);
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let execution = execution::find(work, self.execution_id)?;
        let claim = ClaimOf::from(&execution);
        match reporter::judge(claim, self.token, work.peer, None, work.now.lease_ms) {
            Verdict::Holder if self.refusal.code.cure().ends_claim() => {
                let build = self.build_id.as_ref();
                Err(activation(work, self.execution_id, build, self.refusal.clone())?)
            }
            _ => Err(self.refusal.clone()),
        }
    }
}

impl Rule for RefuseTaskResult {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        task::needs_with_end(needs, tenant_id, self.task_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        Err(result(work, self.task_id, self.token, self.refusal.clone()))
    }
}

/// Loads the rows that a refused activation may change. The first of several equal refusals never ends an execution.
pub(super) fn needs_end(needs: &mut Needs<'_>, execution: &Execution) {
    if execution.equal_refusals > 0 {
        execution::needs_end(needs, execution);
    }
}

/// Carries out a report of the holder of an execution's claim. If it is refused or panics, and the claim must end, then
/// its writes are undone and only a failed activation remains.
pub(super) fn carry_out(
    work: &mut Work<'_>,
    report: &SubmitActivation,
    act: impl FnOnce(&mut Work<'_>) -> Result<Reply, Refusal>,
) -> Result<Reply, Refusal> {
    guarded(work, "SubmitActivation", act).or_else(|refusal| {
        if work.keep_on_refusal || !refusal.code.cure().ends_claim() {
            return Err(refusal);
        }
        Err(activation(work, report.execution_id, report.build_id.as_ref(), refusal)?)
    })
}

/// Carries out the result of a task. If it is refused or panics, and the claim must end, the task fails.
pub(super) fn carry_out_result(
    work: &mut Work<'_>,
    (task_id, token): (TaskId, Option<i64>),
    act: impl FnOnce(&mut Work<'_>) -> Result<Reply, Refusal>,
) -> Result<Reply, Refusal> {
    guarded(work, "the result", act).map_err(|refusal| result(work, task_id, token, refusal))
}

/// Undoes the writes of a step that is refused or panics, unless the refusal has effects of its own.
fn guarded(
    work: &mut Work<'_>,
    what: &str,
    act: impl FnOnce(&mut Work<'_>) -> Result<Reply, Refusal>,
) -> Result<Reply, Refusal> {
    let (mark, noted) = (work.set.mark(), work.notes.len());
    let outcome = catch_unwind(AssertUnwindSafe(|| act(work))).unwrap_or_else(|panic| {
        work.keep_on_refusal = false;
        let message = format!("{what} failed: {}", panic_message(panic.as_ref()));
        Err(Refusal::new(Code::Internal, message))
    });
    if outcome.is_err() && !work.keep_on_refusal {
        work.set.undo_to(&mark);
        work.notes.truncate(noted);
    }
    outcome
}

/// Records a refused activation of the claim's holder as failed. Returns the refusal for the sender, with what happens
/// next.
fn activation(
    work: &mut Work<'_>,
    execution_id: ExecutionId,
    build_id: Option<&Text>,
    refusal: Refusal,
) -> Result<Refusal, Refusal> {
    if planted(Bug::RefusalHangs) {
        return Ok(refusal);
    }
    let mut execution = execution::find(work, execution_id)?;
    let (code, message) = (Text::from(refusal.code.to_string()), kept(&refusal.message, work.limits));
    let build_id = build_id.filter(|build| check::name("build id", build, work.limits).is_ok());
    let failed = SubmitActivation {
        execution_id,
        token: None,
        base_sequence: None,
        commands: Vec::new(),
        outcome: Outcome::ActivationFailed { code: code.clone(), message: message.clone() },
        first_number: None,
        unread_signals: 0,
        clean_up: None,
        build_id: build_id.cloned(),
    };
    failed.activation_failed(work, &mut execution, &code, &message)?;
    let (count, limit) = (execution.equal_refusals, limit(work.limits));
    let delay_ms = execution.not_before_ms.unwrap_or(work.now.ms).saturating_sub(work.now.ms);
    let told = if execution.status.is_terminal() {
        format!("refusal {count} of {limit}, the execution has failed")
    } else if refusal.code.cure() == Cure::Nothing {
        format!("refusal {count} of {limit}, retry in {delay_ms} ms")
    } else {
        format!("retry in {delay_ms} ms")
    };
    work.set.executions.put(execution);
    work.note(Noted::ReportRefused { class: WorkClass::Workflow, code: refusal.code });
    work.keep_on_refusal = true;
    Ok(with(refusal, &told))
}

/// Counts an activation that failed with this code. After too many equal refusals in a row the execution fails: returns
/// `true`, and the caller has nothing left to do. Only refusals of this server count. Failures that a worker reports
/// are retried without a limit.
pub(super) fn fail_after_equal(
    work: &mut Work<'_>,
    execution: &mut Execution,
    code: &Text,
    message: &Text,
) -> bool {
    let equal = execution.failure_code.as_ref() == Some(code);
    let counts = Code::parse(code).is_some_and(|code| code.cure() == Cure::Nothing);
    execution.equal_refusals = match (counts, equal) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => execution.equal_refusals + 1,
    };
    if execution.equal_refusals < limit(work.limits) {
        return false;
    }
    execution.failure_code = Some(code.clone());
    execution.failure_message = Some(message.clone());
    let (error, failure) = (Text::from(format!("{code}: {message}")), Failure::of_kind(code));
    let end = End::Failed { error, failure, stack_trace: None, unread_signals: 0 };
    execution::finish(work, execution, Origin::External, end);
    true
}

/// At least 2: for the first refusal, the rows that an end needs are not loaded.
pub(crate) fn limit(limits: &Limits) -> i64 {
    limits.equal_refusals.max(2)
}

/// Handles the refused result of a task: if it was the holder's, the task fails. Returns the refusal for the sender.
pub(super) fn result(work: &mut Work<'_>, task_id: TaskId, token: Option<i64>, refusal: Refusal) -> Refusal {
    if !refusal.code.cure().ends_claim() || work.keep_on_refusal || planted(Bug::RefusalHangs) {
        return refusal;
    }
    let Ok(mut row) = task::find_claimed(work, task_id, token) else { return refusal };
    let status = if row.cancel_requested { AttemptStatus::Cancelled } else { AttemptStatus::Failed };
    let error = Text::from(format!("{}: {}", refusal.code, kept(&refusal.message, work.limits)));
    let failure = Failure::of_kind(&refusal.code.to_string());
    task::end_attempt(work, &mut row, status, error, failure, Next::Never);
    let told = match row.status {
        TaskStatus::Cancelled => "the task is cancelled",
        _ => "the task has failed",
    };
    work.set.tasks.put(row);
    work.note(Noted::ReportRefused { class: WorkClass::Task, code: refusal.code });
    work.keep_on_refusal = true;
    with(refusal, told)
}

/// Adds the beginning of the refused error to the refusal's message.
pub(super) fn quote(refusal: Refusal, error: &str) -> Refusal {
    if refusal.code != Code::InvalidText {
        return refusal;
    }
    let beginning: String = error.chars().take(BEGINNING_CHARS).collect();
    Refusal::new(refusal.code, format!("{}; it begins with: {beginning}", refusal.message))
}

/// What happens next comes first: a transport cuts long messages.
fn with(refusal: Refusal, told: &str) -> Refusal {
    Refusal { message: format!("{told}: {}", refusal.message), ..refusal }
}

/// The message, cut to the length that is stored.
fn kept(message: &str, limits: &Limits) -> Text {
    check::beginning(message, MESSAGE_BYTES.min(limits.text_bytes)).map_or_else(|| message.into(), Text::from)
}
