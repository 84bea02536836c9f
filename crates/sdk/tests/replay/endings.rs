//! An end is deferred while the log has a signal that the workflow had not seen.

use flovyn_sdk::testing::{Replay, TestEnvironment, TestRun, replay_fn};
use flovyn_sdk::{Result, WorkflowContext};
use serde_json::{Value, json};

use crate::runs::replay_strictly;

fn environments() -> [TestEnvironment; 3] {
    let plain = || TestEnvironment::new().mock_task("charge", Ok);
    [plain(), plain().evict_always(), plain().go_ahead()]
}

/// Checks out when nothing more was added. Returns the items in order, and the items that were charged.
async fn cart(context: WorkflowContext, _: Value) -> Result<Value> {
    let mut items: Vec<u32> = Vec::new();
    let began_ms = context.current_time_millis();
    loop {
        flovyn_sdk::select! {
            item = context.wait_for_signal("add") => items.push(item?),
            asked = context.wait_for_signal::<Value>("checkout") => drop(asked?),
        }
        context.set_state("items", &items)?;
        if items.len() < 2 || context.has_signal("add") {
            continue;
        }
        let charged = context.schedule_raw("charge", json!(items.len())).await?;
        if !context.has_signal("add") {
            assert!(context.current_time_millis() >= began_ms);
            return Ok(json!({ "items": items, "charged": charged }));
        }
    }
}

fn kinds(run: &TestRun) -> Vec<String> {
    run.history().into_iter().map(|event| event.kind).collect()
}

fn deferrals(run: &TestRun) -> usize {
    kinds(run).iter().filter(|kind| *kind == "WORKFLOW_SUSPENDED").count()
}

#[tokio::test]
async fn a_signal_that_comes_while_the_workflow_ends_is_seen() {
    for environment in environments() {
        let mut run = environment.start_fn("cart", cart, Value::Null);
        run.signal("add", &1).await.unwrap();
        run.signal_meanwhile("add", &3).unwrap();
        run.signal("add", &2).await.unwrap();
        run.finish().await.unwrap();
        let output = run.output().expect("it has completed");
        assert_eq!(output["items"], json!([1, 2, 3]), "{:?}", kinds(&run));
        assert_eq!(output["charged"], json!(3));
        replay_strictly("cart", cart, &run.recording()).await.unwrap();
    }
}

/// Returns at the first signal unless it has received more, and reads all signals that it has received.
async fn greedy(context: WorkflowContext, _: Value) -> Result<Value> {
    let first: u32 = context.wait_for_signal("n").await?;
    let more: Vec<u32> = context.drain_signals("n")?;
    Ok(json!([first, more]))
}

#[tokio::test]
async fn signals_behind_an_end_come_with_its_event_and_keep_their_order() {
    for environment in environments() {
        let mut run = environment.start_fn("greedy", greedy, Value::Null);
        // All signals arrive in one activation, or while the end is submitted.
        run.signal_meanwhile("n", &1).unwrap();
        run.signal_meanwhile("n", &2).unwrap();
        run.signal_meanwhile("n", &3).unwrap();
        run.settle().await.unwrap();
        assert_eq!(run.output(), Some(&json!([1, [2, 3]])), "{:?}", kinds(&run));
        assert_eq!(deferrals(&run), 1);
        assert_eq!(run.commands(), [""; 0]);
        replay_strictly("greedy", greedy, &run.recording()).await.unwrap();
    }
}

#[tokio::test]
async fn an_end_is_deferred_as_often_as_a_signal_comes_first() {
    for environment in environments() {
        let mut run = environment.start_fn("greedy", greedy, Value::Null);
        run.settle().await.unwrap();
        run.signal_meanwhile("n", &2).unwrap();
        run.signal_later("n", &3).unwrap();
        run.signal("n", &1).await.unwrap();
        assert_eq!(run.output(), Some(&json!([1, [2, 3]])), "{:?}", kinds(&run));
        assert_eq!(deferrals(&run), 2);
        replay_strictly("greedy", greedy, &run.recording()).await.unwrap();
    }
}

#[tokio::test]
async fn a_history_with_deferred_ends_is_replayed_from_any_cut() {
    let mut run = TestEnvironment::new().start_fn("greedy", greedy, Value::Null);
    run.signal_meanwhile("n", &2).unwrap();
    run.settle().await.unwrap();
    run.signal_later("n", &3).unwrap();
    run.signal("n", &1).await.unwrap_err();
    let history = run.recording();
    let length = history["events"].as_array().unwrap().len();
    for cut in 1..length {
        let mut replay = Replay::new("greedy", greedy, &history).unwrap().strict();
        replay.feed(cut).await.unwrap();
        replay.feed(length).await.unwrap();
        assert_eq!(replay.ended().unwrap().ok().as_ref(), run.output(), "cut at {cut}");
    }
}

#[tokio::test]
async fn signals_that_nobody_reads_hold_an_end_up_once_and_are_named() {
    let deaf = |context: WorkflowContext, _: Value| async move {
        context.wait_for_signal::<Value>("go").await?;
        Ok(json!("gone"))
    };
    for environment in environments() {
        let mut run = environment.start_fn("deaf", deaf, Value::Null);
        for (name, value) in [("go", 1), ("more", 2), ("go", 3), ("more", 4)] {
            run.signal_meanwhile(name, &value).unwrap();
        }
        run.settle().await.unwrap();
        assert_eq!(run.output(), Some(&json!("gone")));
        let unread: Vec<(&str, usize)> =
            run.unread_signals().iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(unread, [("go", 1), ("more", 2)]);
        assert_eq!(deferrals(&run), 1);
        assert_eq!(run.history().last().unwrap().data["unreadSignals"], 3);
        replay_fn("deaf", deaf, &run.recording()).await.unwrap();
    }
}

#[tokio::test]
async fn a_cancelled_workflow_is_not_held_up_and_its_signals_count_as_unread() {
    for environment in environments() {
        let mut run = environment.start_fn("greedy", greedy, Value::Null);
        run.settle().await.unwrap();
        run.signal_meanwhile("other", &1).unwrap();
        run.cancel("enough").await.unwrap();
        assert!(run.error().is_some());
        assert_eq!(deferrals(&run), 0);
        assert_eq!(kinds(&run).last().unwrap(), "WORKFLOW_CANCELLED");
        replay_fn("greedy", greedy, &run.recording()).await.unwrap();
    }
}
