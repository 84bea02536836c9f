//! `flovyn workflow`

use flovyn_examples::shop::Order;
use flovyn_sdk::WorkflowContext;
use flovyn_sdk::testing::{Replay, replay, replay_fn};
use serde_json::{Value, json};

use crate::snapshot::Transcript;
use crate::world::World;

const LAMP: &str = r#"{"item": "lamp", "cents": 2500}"#;

#[test]
fn from_start_to_end() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    typed.run(&["workflow", "list"]);
    typed.run(&["workflow", "start", "greeting", "--input", r#"{"name": "Ada"}"#, "--wait"]);
    let order = ["workflow", "start", "order", "-i", LAMP, "--label", "customer=ada", "--key", "order-1"];
    let id = typed.run(&order).id();
    let ready = |found: &Value| found["lastSequence"] == 7;
    world.until(&["workflow", "show", &id, "-o", "json"], ready);
    assert_eq!(typed.run(&order).id(), id, "the key finds it");
    typed.run(&["workflow", "show", &id]);
    typed.run(&["workflow", "tasks", &id]);
    typed.run(&["workflow", "signal", &id, "courier", "--value", r#""Grace""#]);
    typed.run(&["workflow", "wait", &id]);
    typed.run(&["workflow", "events", &id]);
    typed.run(&["workflow", "show", &id, "--no-timeline"]);
    typed.run(&["workflow", "list", "--label", "customer=ada"]);
    typed.run(&["workflow", "list", "--kind", "greeting", "--status", "failed"]);
    typed.run(&["workflow", "list", "--limit", "1"]);
    typed.check("workflow");
}

#[test]
fn signals_that_a_workflow_did_not_read_are_counted() {
    let world = World::new();
    let started = world.run(&["workflow", "start", "order", "-i", LAMP, "-o", "json"]);
    let id = started.json()["workflowExecutionId"].as_str().unwrap().to_owned();
    world.until(&["workflow", "show", &id, "-o", "json"], |found| found["lastSequence"] == 7);
    world.run(&["workflow", "signal", &id, "nobody-asks", "-v", "1"]);
    world.run(&["workflow", "signal", &id, "courier", "-v", r#""Grace""#]);
    world.run(&["workflow", "wait", &id]);
    let shown = world.run(&["workflow", "show", &id, "--no-timeline"]).out;
    assert!(shown.lines().any(|line| line.contains("Not read") && line.contains("1 signal")), "{shown}");
    assert_eq!(world.run(&["workflow", "show", &id, "-o", "json"]).json()["unreadSignals"], 1);
}

/// The same history, as an SDK with another id formula would have written it.
fn with_other_ids(exported: &Value) -> Value {
    let mut foreign = exported.clone();
    let mut text = foreign["events"].to_string();
    for (number, event) in exported["events"].as_array().unwrap().iter().enumerate() {
        for key in ["taskExecutionId", "childExecutionId"] {
            let Some(id) = event["data"][key].as_str() else { continue };
            text = text.replace(id, &format!("f0e1d2c3-0000-4000-8000-{number:012}"));
        }
    }
    foreign["events"] = serde_json::from_str(&text).unwrap();
    foreign
}

#[test]
fn a_key_stands_for_the_id() {
    let world = World::new();
    let start = ["workflow", "start", "order", "-i", LAMP, "--key", "shop/7", "-o", "json"];
    let id = world.run(&start).json()["workflowExecutionId"].as_str().unwrap().to_owned();
    let by_key = |verb: &str| world.run(&["workflow", verb, "key:shop/7", "-o", "json"]).json();
    let shown =
        world.until(&["workflow", "show", "key:shop/7", "-o", "json"], |found| found["lastSequence"] == 7);
    assert_eq!((&shown["id"], &shown["idempotencyKey"]), (&json!(id), &json!("shop/7")));
    let sent = ["workflow", "signal", "key:shop/7", "courier", "-v", r#""Grace""#, "-o", "json"];
    assert_eq!(world.run(&sent).json(), json!({ "workflowExecutionId": id, "signalEventSequence": 8 }));
    assert_eq!(by_key("wait")["output"], "a parcel with 1 lamp, with Grace");
    assert_eq!(by_key("events").as_array().unwrap().len(), 9);
    assert_eq!(by_key("tasks")[0]["task_type"], "charge-card");
    assert_eq!(world.run(&["workflow", "export", "key:shop/7"]).json()["execution"]["id"], json!(id));
    let listed = world.run(&["workflow", "list", "--key", "shop/7", "-o", "json"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let none = world.run(&["workflow", "list", "--key", "shop", "-o", "json"]);
    assert_eq!(none.json(), json!([]));
    for stop in ["cancel", "terminate"] {
        let refused = world.run(&["workflow", stop, "key:shop/7"]);
        assert!(refused.err.contains("FLV0051"), "{}", refused.err);
        let missing = world.run(&["workflow", stop, "key:nobody"]);
        assert!(missing.err.contains("no execution has the key 'nobody'"), "{}", missing.err);
    }
    let refused = world.run(&["workflow", "release", "key:shop/7"]);
    assert!(refused.err.contains("FLV0060"), "{}", refused.err);
    let missing = world.run(&["workflow", "release", "key:nobody"]);
    assert!(missing.err.contains("no execution has the key 'nobody'"), "{}", missing.err);
    let empty = world.run(&["workflow", "show", "key:"]);
    assert!(empty.err.contains("the value is empty"), "{}", empty.err);
}

#[test]
fn as_json_it_is_what_the_server_says() {
    let world = World::new();
    let started = world.run(&["workflow", "start", "order", "-i", LAMP, "-o", "json"]);
    assert_eq!(started.err, "");
    let id = started.json()["workflowExecutionId"].as_str().unwrap().to_owned();
    let shown = world.until(&["workflow", "show", &id, "-o", "json"], |found| found["lastSequence"] == 7);
    assert_eq!(shown["input"], json!({ "item": "lamp", "cents": 2500 }));
    assert_eq!(shown["waitingOn"][0]["kind"], "SIGNAL");
    let signalled = world.run(&["workflow", "signal", &id, "courier", "-v", r#""Grace""#, "-o", "json"]);
    assert_eq!(signalled.json(), json!({ "signalEventSequence": 8 }));
    let waited = world.run(&["workflow", "wait", &id, "-o", "json"]).json();
    assert_eq!(waited["output"], "a parcel with 1 lamp, with Grace");
    let events = world.run(&["workflow", "events", &id, "-o", "json"]).json();
    assert_eq!(events.as_array().unwrap().len(), 9);
    let later = world.run(&["workflow", "events", &id, "-o", "json", "--since", "8"]).json();
    assert_eq!(later[0]["eventType"], "WORKFLOW_COMPLETED");
    let tasks = world.run(&["workflow", "tasks", &id, "-o", "json"]).json();
    assert_eq!(tasks[0]["task_type"], "charge-card");
    let listed = world.run(&["workflow", "list", "-o", "json", "--since", "1h", "--kind", "order"]).json();
    assert_eq!(listed[0]["id"], id.as_str());
    assert_eq!(listed.as_array().unwrap().len(), 1);

    let exported = world.run(&["workflow", "export", &id]).json();
    assert_eq!(exported["execution"]["id"], id.as_str());
    assert_eq!(exported["events"], events);
    assert_eq!(exported["tasks"], tasks);
    assert_eq!(exported["state"]["receipt"], "2500 cents paid");
    // A history of the server can be replayed, also if another SDK generated its ids.
    let foreign = with_other_ids(&exported);
    assert_ne!(foreign["events"], exported["events"]);
    let other = |ctx: WorkflowContext, _: Value| async move { ctx.schedule_raw("refund", Value::Null).await };
    world.block_on(async {
        for history in [&exported, &foreign] {
            replay(Order, history).await.unwrap();
            Replay::of(Order, history).unwrap().strict().to_the_end().await.unwrap();
            let error = replay_fn("order", other, history).await.unwrap_err().to_string();
            assert!(error.contains("the history has task \"charge-card\""), "{error}");
        }
    });
    let none = world.run(&["workflow", "list", "--kind", "nothing", "-o", "json"]);
    assert_eq!((none.out.as_str(), none.err.as_str()), ("[]\n", ""));
}

#[test]
fn ending_and_trying_again() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    let lamp = |world: &World| world.run(&["workflow", "start", "order", "-i", LAMP]).id();
    let cancelled = lamp(&world);
    world.until(&["workflow", "show", &cancelled, "-o", "json"], |found| found["lastSequence"] == 7);
    typed.run(&["workflow", "cancel", &cancelled, "--reason", "changed my mind", "--output", "json"]);
    world.until_status("workflow", &cancelled, "CANCELLED");
    typed.run(&["workflow", "wait", &cancelled]);
    typed.run(&["workflow", "cancel", &cancelled]);

    let terminated = lamp(&world);
    world.until(&["workflow", "show", &terminated, "-o", "json"], |found| found["lastSequence"] == 7);
    typed.run(&["workflow", "release", &terminated]);
    typed.run(&["workflow", "terminate", &terminated, "--reason", "stuck"]);
    typed.run(&["workflow", "show", &terminated, "--no-timeline"]);
    let again = typed.run(&["workflow", "retry", &terminated]).id();
    let found = world.run(&["workflow", "show", &again, "-o", "json"]).json();
    assert_eq!(found["retryOf"], terminated.as_str());
    typed.run(&["workflow", "wait", &again, "--timeout", "10ms"]);

    typed.run(&["workflow", "start", "order", "-i", r#"{"item": "air", "cents": 0}"#, "--wait"]);
    typed.check("workflow_ends");
}
