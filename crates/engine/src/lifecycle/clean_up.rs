//! How long an execution may continue after a cancel request.
//!
//! | the execution | is force-stopped |
//! |---|---|
//! | has its own grace | when the grace is over, counted from the request, whatever the workflow does |
//! | waits for a task, timer or child of its clean-up | never: clean-up has the time it needs |
//! | makes another kind of progress | the idle limit after its last progress |
//! | ignores the request | the idle limit after the request |
//!
//! A failed activation is no progress, but removes none: clean-up that waited for its own work still has no limit.

use crate::ids::Text;

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

/// When an execution is force-stopped that receives a cancel request now.
pub(crate) fn asked(grace_ms: Option<i64>, idle_ms: i64, now_ms: i64) -> i64 {
    now_ms.saturating_add(grace_ms.unwrap_or(idle_ms))
}

/// When the execution is force-stopped after this step. `None`, before or after: it has no limit.
pub(crate) fn until(
    before_ms: Option<i64>,
    grace_ms: Option<i64>,
    idle_ms: i64,
    now_ms: i64,
    step: Step,
) -> Option<i64> {
    let from_now_ms = Some(now_ms.saturating_add(idle_ms));
    match step {
        _ if grace_ms.is_some() => before_ms,
        Step::Waits => None,
        Step::Advanced => from_now_ms,
        // The clean-up had no limit, because it waited for its own work until now.
        Step::Idle => before_ms.or(from_now_ms),
    }
}

/// The reason of a force-stop.
pub(crate) fn force_stopped(grace_ms: Option<i64>, idle_ms: i64) -> Text {
    match grace_ms {
        Some(ms) => format!("force-stopped: it did not end within {} of the cancel request", span(ms)),
        None => format!("force-stopped: no clean-up for {} after the cancel request", span(idle_ms)),
    }
    .into()
}

fn span(ms: i64) -> String {
    match ms % 1_000 {
        0 => format!("{} s", ms / 1_000),
        _ => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE_MS: i64 = 60_000;
    const NOW_MS: i64 = 1_000_000;

    #[test]
    fn a_request_counts_from_now() {
        for (grace_ms, expected_ms) in
            [(None, NOW_MS + IDLE_MS), (Some(5), NOW_MS + 5), (Some(i64::MAX), i64::MAX)]
        {
            assert_eq!(asked(grace_ms, IDLE_MS, NOW_MS), expected_ms, "{grace_ms:?}");
        }
    }

    #[test]
    fn only_progress_moves_the_moment_and_a_grace_of_its_own_never_does() {
        let later = Some(NOW_MS + IDLE_MS);
        let table = [
            // before, grace, step, after
            (Some(7), None, Step::Waits, None),
            (None, None, Step::Waits, None),
            (Some(7), None, Step::Advanced, later),
            (None, None, Step::Advanced, later),
            (Some(7), None, Step::Idle, Some(7)),
            (None, None, Step::Idle, later),
            (Some(7), Some(9), Step::Waits, Some(7)),
            (Some(7), Some(9), Step::Advanced, Some(7)),
            (Some(7), Some(9), Step::Idle, Some(7)),
        ];
        for (before, grace, step, after) in table {
            assert_eq!(until(before, grace, IDLE_MS, NOW_MS, step), after, "{before:?} {grace:?} {step:?}");
        }
    }

    #[test]
    fn the_reason_names_the_limit_and_not_that_it_was_cancelled() {
        let idle = force_stopped(None, IDLE_MS);
        assert_eq!(&*idle, "force-stopped: no clean-up for 60 s after the cancel request");
        let own = force_stopped(Some(1_500), IDLE_MS);
        assert_eq!(&*own, "force-stopped: it did not end within 1500 ms of the cancel request");
    }
}
