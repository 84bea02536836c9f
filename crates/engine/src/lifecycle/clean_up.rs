//! How long an execution may continue after a cancel request.
//!
//! The request gives an execution without a grace of its own the idle limit. A clock uses it up:
//!
//! | the execution | the clock |
//! |---|---|
//! | is PENDING: it waits for a worker, for a paused queue, or is held back for its code | stands still |
//! | is RUNNING, while its claim holds | stands still |
//! | has an activation that fails, or whose worker is lost | a [`FAILURES`]th of the limit is used |
//! | is WAITING for a task, timer or child of its clean-up | no limit, and the whole limit afterwards |
//! | is WAITING after another kind of progress | runs, with the whole limit |
//! | is WAITING after no progress | runs, with what is left |
//!
//! A grace of its own counts from the first activation after the request, whatever the workflow does. If only the
//! workflow's definition has one, it counts from the first report that names it.
//!
//! Time runs out at `clean_up_until_ms`; the alarm then force-stops the execution. `clean_up_left_ms` is the time that is
//! left while the clock stands still. After a request, exactly one of the two is set.

use crate::ids::Text;
use crate::state::{Execution, ExecutionStatus};

/// How many activations may fail in a row before an execution without a grace of its own is force-stopped.
const FAILURES: i64 = 10;

/// The effect of an accepted activation on the clean-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The workflow waits for work of its clean-up.
    Waits,
    /// The workflow made progress, and waits for something outside.
    Advanced,
    /// The workflow made no progress.
    Idle,
}

/// Records a cancel request. The clock starts later.
pub(crate) fn ask(row: &mut Execution, idle_ms: i64, now_ms: i64) {
    row.cancel_requested_ms = Some(now_ms);
    row.clean_up_left_ms = Some(row.cancel_grace_ms.unwrap_or(idle_ms));
}

/// A worker receives the execution: a grace of its own begins.
pub(crate) fn delivered(row: &mut Execution, now_ms: i64) {
    if row.cancel_grace_ms.is_some() {
        start(row, now_ms);
    }
}

/// A worker reports the grace of the workflow's definition.
pub(crate) fn learn(row: &mut Execution, grace_ms: i64, now_ms: i64) {
    if row.cancel_requested_ms.is_some() && row.cancel_grace_ms.is_none() {
        row.cancel_grace_ms = Some(grace_ms);
        (row.clean_up_until_ms, row.clean_up_left_ms) = (Some(now_ms.saturating_add(grace_ms)), None);
    }
}

/// An activation was accepted, and the workflow waits.
pub(crate) fn accepted(row: &mut Execution, idle_ms: i64, now_ms: i64, step: Step) {
    if row.cancel_requested_ms.is_none() || row.cancel_grace_ms.is_some() {
        return;
    }
    if step != Step::Idle {
        (row.clean_up_until_ms, row.clean_up_left_ms) = (None, Some(idle_ms));
    }
    if step != Step::Waits {
        start(row, now_ms);
    }
}

/// An activation failed, or its worker was lost. The alarm force-stops an execution that has no time left.
pub(crate) fn failed(row: &mut Execution, idle_ms: i64, now_ms: i64) {
    let Some(left_ms) = row.clean_up_left_ms.filter(|_| row.cancel_grace_ms.is_none()) else { return };
    let left_ms = left_ms - (idle_ms / FAILURES).max(1);
    row.clean_up_left_ms = Some(left_ms.max(0));
    if left_ms <= 0 {
        start(row, now_ms);
    }
}

/// The execution waits for a worker. A limit that is over stays over.
pub(crate) fn stop(row: &mut Execution, now_ms: i64) {
    if row.cancel_grace_ms.is_none()
        && let Some(until_ms) = row.clean_up_until_ms.filter(|until| *until > now_ms)
    {
        (row.clean_up_until_ms, row.clean_up_left_ms) = (None, Some(until_ms - now_ms));
    }
}

fn start(row: &mut Execution, now_ms: i64) {
    if let Some(left_ms) = row.clean_up_left_ms.take() {
        row.clean_up_until_ms = Some(now_ms.saturating_add(left_ms));
    }
}

/// Whether the execution has no time limit now: it waits for work of its own clean-up.
pub(crate) fn is_unlimited(row: &Execution) -> bool {
    row.status == ExecutionStatus::Waiting && row.clean_up_until_ms.is_none()
}

/// The reason of a force-stop.
pub(crate) fn force_stopped(row: &Execution, idle_ms: i64) -> Text {
    match (row.cancel_grace_ms, &row.failure_code) {
        (Some(ms), _) => format!("force-stopped: clean-up did not end within {}", span(ms)),
        (None, Some(code)) => {
            format!("force-stopped: its activations failed after the cancel request, the last with {code}")
        }
        (None, None) => format!("force-stopped: no clean-up for {} after the cancel request", span(idle_ms)),
    }
    .into()
}

fn span(ms: i64) -> String {
    match ms % 1_000 {
        0 => format!("{} s", ms / 1_000),
        _ => format!("{ms} ms"),
    }
}
