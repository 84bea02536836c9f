//! Random commands of an activation.

use flovyn_engine::ids::TenantId;
use flovyn_engine::request::{Command, KeySpec, ScheduleChild};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::Execution;

use crate::generate::{Generator, KINDS, json, key, name};

pub(crate) fn command(
    generator: &mut Generator,
    world: &Snapshot,
    row: &Execution,
    _tenant: TenantId,
) -> Command {
    let own_task = world.tasks.iter().filter(|task| task.execution_id == Some(row.id)).map(|task| task.id);
    let own_tasks: Vec<_> = own_task.collect();
    let own_promises: Vec<_> = world
        .promises
        .iter()
        .filter(|promise| promise.execution_id == row.id)
        .map(|promise| promise.id)
        .collect();
    let children: Vec<_> = world
        .executions
        .iter()
        .filter(|child| child.parent_id == Some(row.id))
        .map(|child| child.id)
        .collect();
    let fresh = generator.uuid();
    match generator.rng.below(22) {
        0..2 => Command::RecordOperation {
            name: name(&mut generator.rng, "op", 3),
            result: json(&mut generator.rng),
        },
        2..4 => {
            Command::SetState { name: name(&mut generator.rng, "state", 3), value: json(&mut generator.rng) }
        }
        4 => Command::ClearState { name: name(&mut generator.rng, "state", 3) },
        5..10 => {
            // Sometimes a repeated id: of this execution, or of another one.
            let any: Vec<_> = world.tasks.iter().map(|task| task.id).collect();
            let task_id = match generator.rng.below(12) {
                0 => generator.rng.pick(&own_tasks).copied().unwrap_or(fresh),
                1 => generator.rng.pick(&any).copied().unwrap_or(fresh),
                _ => fresh,
            };
            Command::ScheduleTask { task_id, spec: generator.spec() }
        }
        10 => Command::CancelTask { task_id: generator.rng.pick(&own_tasks).copied().unwrap_or(fresh) },
        11..14 => Command::StartTimer {
            timer_id: name(&mut generator.rng, "timer", 30),
            duration_ms: generator.rng.of([0, 10, 500, 5_000, -1]),
        },
        14 => Command::CancelTimer { timer_id: name(&mut generator.rng, "timer", 30) },
        15..17 => Command::CreatePromise {
            name: name(&mut generator.rng, "promise", 3),
            timeout_ms: generator.rng.of([None, Some(800), Some(0)]),
            key: key(&mut generator.rng, 40),
        },
        17 => Command::ResolvePromise {
            promise_id: generator.rng.pick(&own_promises).copied().unwrap_or(fresh),
            value: json(&mut generator.rng),
        },
        18..21 => Command::ScheduleChild(ScheduleChild {
            child_id: fresh,
            name: name(&mut generator.rng, "child", 5),
            kind: generator.rng.of(KINDS).into(),
            input: json(&mut generator.rng),
            queue: None,
            priority_seconds: 0,
            workflow_version: None,
            execution_timeout_ms: None,
            cancel_grace_ms: None,
            // From the id, so that a seed yields the same programs as before children had keys.
            key: fresh.as_u128().is_multiple_of(5).then(|| KeySpec { name: "key-1".into(), ttl_ms: None }),
            labels: Vec::new(),
        }),
        _ => Command::RequestCancelChild {
            child_id: generator.rng.pick(&children).copied().unwrap_or(fresh),
            reason: "not needed".into(),
        },
    }
}
