//! The programs of [`crate::programs`] for the public protocol: each reads the whole history in every activation.

use bytes::Bytes;
use flovyn_proto::v1;
use serde_json::{Value, json};

use super::turn::Turn;
use crate::programs::{self, CHAIN, FAN_OUT, STEP, number_of};

/// `Ok(None)`: the program waits.
pub(super) fn run(turn: &mut Turn, kind: &str, input: &Value) -> Result<Option<Value>, String> {
    let number = number_of(input);
    let result = match kind {
        "noop" => Some(number),
        "chain" => {
            let mut number = number;
            for _ in 0..CHAIN {
                match step(turn, number, input)? {
                    Some(next) => number = next,
                    None => return Ok(None),
                }
            }
            Some(number)
        }
        "fanout" => {
            let steps: Result<Vec<_>, _> =
                (0..FAN_OUT).map(|index| step(turn, number + index, input)).collect();
            let numbers: Option<Vec<u64>> = steps?.into_iter().collect();
            numbers.map(|numbers| numbers.iter().sum())
        }
        "timer" => {
            let work_ms = input["work_ms"].as_i64().unwrap_or_default();
            turn.timer(work_ms + 50).map(|()| number)
        }
        "signal" => return Ok(turn.signal("go")),
        "promise" => {
            return turn.promise(v1::CreatePromiseCommand {
                promise_id: "answer".to_owned(),
                idempotency_key: Some(programs::promise_key(number)),
                ..v1::CreatePromiseCommand::default()
            });
        }
        "parent" => return turn.child("child", "child", input),
        "child" => step(turn, number, input)?,
        other => return Err(format!("there is no program for {other:?}")),
    };
    Ok(result.map(|number| json!(number)))
}

fn step(turn: &mut Turn, number: u64, input: &Value) -> Result<Option<u64>, String> {
    let retry = programs::soon();
    let initial_ms = i64::try_from(retry.initial.as_millis()).unwrap_or(i64::MAX);
    let task = v1::ScheduleTaskCommand {
        kind: STEP.to_owned(),
        input: Bytes::from(programs::step_input(number, input).to_string()),
        max_retries: Some(programs::PATIENCE.cast_signed()),
        retry_policy: Some(v1::RetryPolicy { initial_ms, factor: retry.factor, cap_ms: initial_ms }),
        ..v1::ScheduleTaskCommand::default()
    };
    Ok(turn.task(task)?.map(|output| number_of(&output)))
}
