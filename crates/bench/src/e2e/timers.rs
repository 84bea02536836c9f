//! How late timers fired according to the log: the time from when a timer was due to its `TIMER_FIRED` event.
//!
//! The sleep that a workflow observes starts earlier, at the start of the workflow. So it also contains the way to the
//! worker and back.

use flovyn_sdk::WorkflowHandle;
use flovyn_sdk::client::HistoryEvent;
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;
use uuid::Uuid;

use crate::figures::{Latencies, Line};

/// The most histories that are read. A run of a few seconds has fewer.
const MOST: usize = 20_000;
const AT_ONCE: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Fired {
    late: Latencies,
    early: usize,
}

/// Reads the histories of the executions. Call this after the load, because reading would disturb it.
pub(super) async fn read(executions: Vec<WorkflowHandle<Value>>) -> Result<Fired, String> {
    let executions = sample(executions, MOST, WorkflowHandle::id);
    let histories =
        futures::stream::iter(&executions).map(|execution| execution.history()).buffer_unordered(AT_ONCE);
    let histories: Vec<_> = histories.try_collect().await.map_err(|error| error.to_string())?;
    let mut fired = Fired::default();
    for history in histories {
        fired.add(late_ms(&history).ok_or("the log of a timer workflow has no fired timer")?);
    }
    Ok(fired)
}

/// A sample of at most `most` items, chosen by the random part of their ids. Taking every n-th item would be wrong: the
/// clients run in step, so only certain rounds of each client would be sampled. A moment in which all timers were late
/// could be missed.
fn sample<T>(mut all: Vec<T>, most: usize, id: impl Fn(&T) -> Uuid) -> Vec<T> {
    all.sort_by_key(|one| id(one).as_u64_pair().1);
    all.truncate(most);
    all
}

impl Fired {
    fn add(&mut self, late_ms: i64) {
        match u64::try_from(late_ms) {
            Ok(late_ms) => self.late.add(std::time::Duration::from_millis(late_ms)),
            Err(_) => self.early += 1,
        }
    }

    pub(super) fn figures(&self, line: Line) -> Line {
        line.number("fired_late_p50_ms", self.late.percentile_ms(50.0))
            .number("fired_late_p99_ms", self.late.percentile_ms(99.0))
            .number("fired_early", self.early as f64)
    }
}

/// How late the only timer of a workflow fired, in milliseconds. Negative if it fired too early. `None` if it has not
/// fired.
fn late_ms(history: &[HistoryEvent]) -> Option<i64> {
    let event = |kind: &str| history.iter().find(|event| event.kind == kind);
    let (started, fired) = (event("TIMER_STARTED")?, event("TIMER_FIRED")?);
    let due_ms = started.time_ms + started.data.get("durationMs")?.as_i64()?;
    Some(fired.time_ms - due_ms)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn history(fired_ms: i64) -> Vec<HistoryEvent> {
        let event = |sequence, kind: &str, time_ms, data| HistoryEvent {
            sequence,
            kind: kind.to_owned(),
            time_ms,
            data,
        };
        vec![
            event(1, "WORKFLOW_STARTED", 1_000, json!({})),
            event(2, "TIMER_STARTED", 1_007, json!({ "timerId": "sleep", "durationMs": 100 })),
            event(3, "TIMER_FIRED", fired_ms, json!({ "timerId": "sleep" })),
        ]
    }

    #[test]
    fn a_sample_has_every_round_of_clients_that_run_in_step() {
        const ROUNDS: u64 = 45;
        let ids = (0..256 * ROUNDS)
            .map(|number| Uuid::from_u64_pair(number % ROUNDS, number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let sample = sample(ids.collect(), 2_000, |id| *id);
        let rounds: std::collections::BTreeSet<u64> = sample.iter().map(|id| id.as_u64_pair().0).collect();
        assert_eq!((sample.len(), rounds.len()), (2_000, 45));
    }

    #[test]
    fn lateness_counts_from_the_timers_due_time_and_not_from_the_workflows_start() {
        assert_eq!(late_ms(&history(1_110)), Some(3));
        assert_eq!(late_ms(&history(1_110)[..2]), None, "the timer has not fired");
    }

    #[test]
    fn an_early_timer_is_detected_even_if_the_workflow_slept_long_enough() {
        let mut fired = Fired::default();
        for fired_ms in [1_106, 1_107] {
            fired.add(late_ms(&history(fired_ms)).unwrap());
        }
        assert_eq!((fired.early, fired.late.count()), (1, 1));
    }
}
