//! Executions by their key.

use serde_json::{Value, json};

use crate::worker::Worker;
use crate::world::{World, complete_next, on_both, text};

on_both!(
    signal_state_and_cancel,
    keys_of_any_characters,
    the_last_one_is_found_after_its_end,
    listed_by_key,
    who_did_it_is_in_the_audit_log,
    what_a_reader_may_do,
);

const WITH_START: &str = "/workflow-executions/signal-with-start";

async fn entity(world: &World, key: &str) -> String {
    let request = json!({ "signalName": "add", "workflow": { "kind": "order", "idempotencyKey": key } });
    text(&world.post(WITH_START, &request).await.ok(201)["workflowExecutionId"])
}

async fn signal_state_and_cancel(world: World) {
    let id = entity(&world, "cart-ada").await;
    let path = "/workflow-executions/by-key/cart-ada";
    let found = world.get(path).await.ok(200);
    assert_eq!((&found["id"], &found["idempotencyKey"]), (&json!(id), &json!("cart-ada")));
    let sent = world.post(&format!("{path}/signal"), &json!({ "name": "add", "value": 2 })).await.ok(202);
    assert_eq!(sent, json!({ "workflowExecutionId": id, "signalEventSequence": 3 }));
    world.post(&format!("{path}/signal"), &json!({ "name": "" })).await.refused(400, "FLV0003");
    assert_eq!(world.get(&format!("{path}/state")).await.ok(200), json!({}));
    // No worker runs it, so a cancel ends it at once.
    let cancelled = world.post(&format!("{path}/cancel"), &json!({ "reason": "enough" })).await.ok(200);
    assert_eq!(cancelled, json!({ "workflowExecutionId": id, "status": "CANCELLED" }));
    let next = entity(&world, "cart-ada").await;
    let stopped = world.post(&format!("{path}/terminate"), &json!({})).await.ok(200);
    assert_eq!(stopped, json!({ "workflowExecutionId": next, "status": "CANCELLED" }));
    for action in ["signal", "cancel", "terminate"] {
        let body = if action == "signal" { json!({ "name": "add" }) } else { json!({}) };
        world.post(&format!("{path}/{action}"), &body).await.refused(409, "FLV0051");
        world
            .post(&format!("/workflow-executions/by-key/other/{action}"), &body)
            .await
            .refused(404, "FLV0031");
    }
    for below in ["", "/state"] {
        world.get(&format!("/workflow-executions/by-key/other{below}")).await.refused(404, "FLV0031");
    }
}

async fn keys_of_any_characters(world: World) {
    for (key, encoded) in [
        ("a/b/c", "a%2Fb%2Fc"),
        ("signal", "signal"),
        ("state", "state"),
        ("50 % of é?#", "50%20%25%20of%20%C3%A9%3F%23"),
        ("..", "%2E%2E"),
    ] {
        let id = entity(&world, key).await;
        let path = format!("/workflow-executions/by-key/{encoded}");
        assert_eq!(world.get(&path).await.ok(200)["id"], json!(id), "{key}");
        let sent = world.post(&format!("{path}/signal"), &json!({ "name": "add" })).await.ok(202);
        assert_eq!(sent["workflowExecutionId"], json!(id), "{key}");
    }
    world.get("/workflow-executions/by-key/nul%00").await.refused(400, "FLV0002");
    let long = "a".repeat(256);
    world.get(&format!("/workflow-executions/by-key/{long}")).await.refused(404, "FLV0031");
    let signal = format!("/workflow-executions/by-key/{long}/signal");
    world.post(&signal, &json!({ "name": "add" })).await.refused(400, "FLV0003");
}

async fn the_last_one_is_found_after_its_end(world: World) {
    let first = entity(&world, "cart").await;
    let mut worker = Worker::connect(&world.server).await;
    complete_next(&mut worker, "1").await;
    let path = "/workflow-executions/by-key/cart";
    let found = world.get(path).await.ok(200);
    assert_eq!((&found["id"], &found["status"]), (&json!(first), &json!("COMPLETED")));
    let second = entity(&world, "cart").await;
    world.post(&format!("{path}/terminate"), &json!({})).await.ok(200);
    // Its end has freed the key: no execution holds it now.
    let found = world.get(path).await.ok(200);
    assert_eq!((&found["id"], &found["status"]), (&json!(second), &json!("CANCELLED")));
}

async fn listed_by_key(world: World) {
    let first = entity(&world, "cart").await;
    world.post("/workflow-executions/by-key/cart/terminate", &json!({})).await.ok(200);
    let second = entity(&world, "cart").await;
    entity(&world, "other").await;
    world.start_order().await;
    let ids = |found: &Value| -> Vec<String> {
        let mut ids: Vec<String> =
            found["executions"].as_array().unwrap().iter().map(|row| text(&row["id"])).collect();
        ids.sort();
        ids
    };
    let mut expected = vec![first, second.clone()];
    expected.sort();
    for name in ["key", "idempotencyKey", "idempotency_key"] {
        let found = world.get(&format!("/workflow-executions?{name}=cart")).await.ok(200);
        assert_eq!(ids(&found), expected, "{name}");
    }
    let open = world.get("/workflow-executions?key=cart&status=PENDING").await.ok(200);
    assert_eq!(ids(&open), [second]);
    let none = world.get("/workflow-executions?key=car").await.ok(200);
    assert!(ids(&none).is_empty());
}

async fn who_did_it_is_in_the_audit_log(world: World) {
    let id = entity(&world, "cart").await;
    let path = "/workflow-executions/by-key/cart";
    world.post(&format!("{path}/signal"), &json!({ "name": "add" })).await.ok(202);
    world.post(&format!("{path}/terminate"), &json!({ "reason": "why" })).await.ok(200);
    let found = world.get(&format!("/audit?target={id}")).await.ok(200);
    let entries = found["entries"].as_array().unwrap();
    let of = |action: &str| entries.iter().find(|entry| entry["action"] == json!(action)).unwrap();
    let details = |entry: &Value| entry["details"].clone();
    assert_eq!(details(of("workflow.terminate")), json!({ "reason": "why", "key": "cart" }));
    assert!(
        entries.iter().any(|entry| details(entry) == json!({ "signal": "add", "key": "cart" })),
        "{found}"
    );
}

async fn what_a_reader_may_do(world: World) {
    entity(&world, "cart").await;
    let viewer = world.token(&["one"], "viewer");
    let stranger = world.token(&["two"], "admin");
    let path = "/api/tenants/one/workflow-executions/by-key/cart";
    world.call(&viewer, "GET", path, "").await.ok(200);
    for action in ["signal", "cancel", "terminate"] {
        let (path, body) = (format!("{path}/{action}"), r#"{"name":"add"}"#);
        world.call(&viewer, "POST", &path, body).await.refused(403, "FLV0081");
        world.call(&stranger, "POST", &path, body).await.refused(404, "FLV0030");
    }
}
