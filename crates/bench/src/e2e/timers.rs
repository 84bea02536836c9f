//! How late timers fired, as the log has it: from the moment a timer was due to its `TIMER_FIRED`.
//!
//! What a workflow sees of its own sleep begins earlier, at its start: that also holds the way to the worker and back.

use flovyn_sdk::WorkflowHandle;
use flovyn_sdk::client::HistoryEvent;
use futures::{StreamExt, TryStreamExt};
use serde_json::Value;
use uuid::Uuid;

use crate::figures::{Latencies, Line};

/// Histories that are read: all of a run of some seconds.
const MOST: usize = 20_000;
const AT_ONCE: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Fired {
    late: Latencies,
    early: usize,
}

/// Looks into histories. To be called after the load: reading would take from it.
pub(super) async fn read(executions: Vec<WorkflowHandle<Value>>) -> Result<Fired, String> {
    let executions = drawn(executions, MOST, WorkflowHandle::id);
    let histories =
        futures::stream::iter(&executions).map(|execution| execution.history()).buffer_unordered(AT_ONCE);
    let histories: Vec<_> = histories.try_collect().await.map_err(|error| error.to_string())?;
    let mut fired = Fired::default();
    for history in histories {
        fired.add(late_ms(&history).ok_or("a workflow with a timer has none in its log")?);
    }
    Ok(fired)
}

/// As many as that, by the part of their ids that is random. Not every so-manieth: clients go in step, so that of each the
/// same rounds would be taken, and a moment in which all timers were late be missed.
fn drawn<T>(mut all: Vec<T>, most: usize, id: impl Fn(&T) -> Uuid) -> Vec<T> {
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

/// Of the only timer of a workflow; negative if it fired too early.
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
    fn some_of_every_round_are_drawn_of_clients_that_go_in_step() {
        const ROUNDS: u64 = 45;
        let ids = (0..256 * ROUNDS)
            .map(|number| Uuid::from_u64_pair(number % ROUNDS, number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let drawn = drawn(ids.collect(), 2_000, |id| *id);
        let rounds: std::collections::BTreeSet<u64> = drawn.iter().map(|id| id.as_u64_pair().0).collect();
        assert_eq!((drawn.len(), rounds.len()), (2_000, 45));
    }

    #[test]
    fn a_timer_is_late_by_its_own_time_and_not_by_its_workflows_start() {
        assert_eq!(late_ms(&history(1_110)), Some(3));
        assert_eq!(late_ms(&history(1_110)[..2]), None, "it has not fired");
    }

    #[test]
    fn a_timer_that_fires_too_early_is_seen_although_its_workflow_slept_long_enough() {
        let mut fired = Fired::default();
        for fired_ms in [1_106, 1_107] {
            fired.add(late_ms(&history(fired_ms)).unwrap());
        }
        assert_eq!((fired.early, fired.late.count()), (1, 1));
    }
}
