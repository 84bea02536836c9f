//! Ids come from the log: a history whose ids come from another formula or another SDK replays like any other.

use flovyn_sdk::testing::{Replay, recorded_commands};
use flovyn_sdk::{Either, WorkflowContext};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::corpus_workflows::find;
use crate::runs::{environment_in_order, replay_strictly};

/// The same history with different ids of tasks, children, promises and timers.
fn with_foreign_ids(history: &Value) -> (Value, usize) {
    let mut text = history["events"].to_string();
    let mut changed = 0;
    for event in history["events"].as_array().unwrap() {
        for key in ["taskExecutionId", "childExecutionId", "promiseId", "timerId"] {
            let is_first = matches!(
                event["eventType"].as_str().unwrap(),
                "TASK_SCHEDULED" | "CHILD_WORKFLOW_INITIATED" | "PROMISE_CREATED" | "TIMER_STARTED"
            );
            let Some(own) = event["data"][key].as_str().filter(|_| is_first) else { continue };
            changed += 1;
            let foreign = match key {
                "timerId" => format!("sleep-{}", changed * 7),
                _ => Uuid::from_u128(0xF0E1_0000_0000_4000_8000_0000_0000_0000 + changed as u128).to_string(),
            };
            text = text.replace(&format!("\"{own}\""), &format!("\"{foreign}\""));
        }
    }
    let mut foreign = history.clone();
    foreign["events"] = serde_json::from_str(&text).unwrap();
    (foreign, changed)
}

async fn recorded(name: &str) -> Value {
    let mut run = environment_in_order().start_fn("corpus", find(name).unwrap(), Value::Null);
    run.settle().await.unwrap();
    // A workflow ignores the events that it does not need.
    let _ = run.signal("go", &1).await;
    let _ = run.resolve_promise("p", &2).await;
    run.finish().await.unwrap();
    run.recording()
}

#[tokio::test]
async fn foreign_histories_replay_as_a_whole_and_cut_at_every_event() {
    let mut all = 0;
    let names = [
        "task",
        "failing-task",
        "timer",
        "timers-together",
        "promise",
        "child",
        "mix",
        "loop",
        "task-cancelled",
    ];
    for name in names.into_iter().chain(["timer-cancelled", "child-cancelled"]) {
        let (history, changed) = with_foreign_ids(&recorded(name).await);
        all += changed;
        assert!(changed > 0, "{name}");
        replay_strictly("corpus", find(name).unwrap(), &history)
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        // Emitted before its row is read, as on a worker that has the workflow in its cache.
        let count = history["events"].as_array().unwrap().len();
        for first in 1..count {
            let mut replay = Replay::new("corpus", find(name).unwrap(), &history).unwrap().strict();
            for events in [first, count - first] {
                replay.feed(events).await.unwrap_or_else(|e| panic!("{name} cut at {first}: {e}"));
            }
            assert!(replay.ended().is_some(), "{name} cut at {first}");
        }
    }
    assert!(all > 15, "{all}");
}

#[tokio::test]
async fn kind_order_and_type_still_have_to_match() {
    for (name, history) in
        [("task-other-type", "task"), ("child-other-kind", "child"), ("promise-renamed", "promise")]
    {
        let (history, _) = with_foreign_ids(&recorded(history).await);
        let error = replay_strictly("corpus", find(name).unwrap(), &history).await.unwrap_err().to_string();
        assert!(error.contains("DETERMINISM_VIOLATION"), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_cancel_has_to_be_of_the_same_task() {
    let cancels = |second: bool| {
        move |ctx: WorkflowContext, _: Value| async move {
            let (one, two) = (ctx.schedule_raw("endless", json!(1)), ctx.schedule_raw("endless", json!(2)));
            if second {
                two.cancel()
            } else {
                one.cancel()
            }
            ctx.wait_for_signal::<Value>("go").await
        }
    };
    let mut run = environment_in_order().start_fn("w", cancels(false), Value::Null);
    run.settle().await.unwrap();
    run.signal("go", &1).await.unwrap();
    let (history, _) = with_foreign_ids(&run.recording());
    replay_strictly("w", cancels(false), &history).await.unwrap();
    let error = replay_strictly("w", cancels(true), &history).await.unwrap_err().to_string();
    assert!(error.contains("the history has cancel of task f0e1"), "{error}");
}

/// The counter continues, and never generates an id that the log uses for something else.
#[tokio::test]
async fn what_follows_has_ids_of_its_own() {
    let three = |ctx: WorkflowContext, _: Value| async move {
        let mut ids = Vec::new();
        for _ in 0..3 {
            let task = ctx.schedule_raw("good", Value::Null);
            ids.push(task.task_id().to_string());
            match flovyn_sdk::select(task, ctx.sleep(std::time::Duration::from_secs(1))).await {
                Either::Left(_) => {}
                Either::Right(_) => return Ok(Value::Null),
            }
        }
        Ok(json!(ids))
    };
    let mut run = environment_in_order().start_fn("w", three, Value::Null);
    run.finish().await.unwrap();
    let own: Vec<String> = serde_json::from_value(run.output().unwrap().clone()).unwrap();
    let history = run.recording();
    // The first task in the log has the id that this SDK would generate for the second task. The first timer has the
    // name of the second timer.
    let text = history["events"].to_string();
    let text = text.replace(&own[0], &own[1]).replace("timer-1", "timer-2");
    let mut foreign = history.clone();
    let mut events: Vec<Value> = serde_json::from_str(&text).unwrap();
    // Up to the end of the first task.
    let end = events.iter().position(|event| event["eventType"] == "TASK_COMPLETED").unwrap();
    events.truncate(end + 1);
    foreign["events"] = json!(events);
    let mut replay = Replay::new("w", three, &foreign).unwrap().strict();
    let asked = replay.feed(events.len()).await.unwrap();
    assert!(asked.iter().all(|asked| !asked.contains(&own[1]) || asked.contains("cancel")), "{asked:?}");
    assert!(asked.iter().any(|asked| asked.contains(&format!("with id {}", own[2]))), "{asked:?}");
    assert!(asked.iter().any(|asked| asked.starts_with("timer \"timer-3\"")), "{asked:?}");
    assert_eq!(recorded_commands(&foreign).unwrap().len(), 2);
}
