//! Durations that are read from the database at the end of a run.

use std::collections::BTreeMap;

use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::{Attempt, AttemptStatus, EventKind};
use uuid::Uuid;

/// For each claim whose worker fell silent: how long until another worker had the task. If a task was handed to a
/// worker that was silent already, its time counts from that claim: two silent workers in a row are two claims.
pub(crate) fn redeliveries_ms(snapshot: &Snapshot, silenced: &[(u32, u64)]) -> Vec<u64> {
    let mut waits = Vec::new();
    let mut by_task: BTreeMap<Uuid, Vec<Attempt>> = BTreeMap::new();
    for attempt in &snapshot.attempts {
        by_task.entry(attempt.task_id).or_default().push(attempt.clone());
    }
    for task in &snapshot.tasks {
        // A snapshot has its rows in key order.
        let attempts = task.ended_attempts(by_task.remove(&task.id).unwrap_or_default());
        for pair in attempts.windows(2) {
            let [lost, next] = pair else { continue };
            if let Some(silent_ms) = silent_since_ms(lost, silenced) {
                waits.push(u64::try_from(next.started_ms - silent_ms).unwrap_or_default());
            }
        }
    }
    waits
}

/// Since when the worker of a claim that timed out had been silent during the claim. `None`: it was not silent.
fn silent_since_ms(lost: &Attempt, silenced: &[(u32, u64)]) -> Option<i64> {
    let worker: u32 = lost.worker.as_deref()?.parse().ok()?;
    let of_worker = silenced.iter().filter(|(id, _)| *id == worker).map(|(_, at_ms)| *at_ms as i64);
    let last = of_worker.filter(|at_ms| *at_ms <= lost.finished_ms).max()?;
    (lost.status == AttemptStatus::Timeout).then(|| last.max(lost.started_ms))
}

/// How late timers fired.
pub(crate) fn timers_late_ms(snapshot: &Snapshot) -> Vec<u64> {
    let due: BTreeMap<_, _> =
        snapshot.timers.iter().map(|timer| ((timer.execution_id, &*timer.name), timer.fire_ms)).collect();
    let fired = snapshot.events.iter().filter(|event| event.kind == EventKind::TimerFired);
    fired
        .filter_map(|event| {
            let fire_ms = due.get(&(event.execution_id, event.name.as_deref()?))?;
            // Never early: a timer that fires early is reported as a violation.
            Some(u64::try_from(event.time_ms - fire_ms).unwrap_or_default())
        })
        .collect()
}
