//! The limits of what a start may carry.

use serde_json::{Value, json};

use crate::world::{World, on_both};

on_both!(inputs, keys, labels);

const PATH: &str = "/workflows/order/trigger";

async fn inputs(world: World) {
    // Two quotes make it one MiB exactly.
    let fits = json!({ "input": "x".repeat((1 << 20) - 2) });
    world.post(PATH, &fits).await.ok(201);
    let too_large = json!({ "input": "x".repeat((1 << 20) - 1) });
    world.post(PATH, &too_large).await.refused(413, "FLV0020");
    let task = json!({ "task_type": "t", "input": too_large["input"] });
    world.post("/tasks", &task).await.refused(413, "FLV0020");
    assert_eq!(world.executions().await, 1);
}

async fn keys(world: World) {
    // Characters, not bytes.
    for letter in ["k", "\u{e9}"] {
        let key = |length: usize| json!({ "idempotencyKey": letter.repeat(length) });
        world.post(PATH, &key(255)).await.ok(201);
        world.post(PATH, &key(256)).await.refused(400, "FLV0003");
    }
    world.post(PATH, &json!({ "idempotencyKey": "" })).await.refused(400, "FLV0003");
    let name = "n".repeat(256);
    world.post(&format!("/workflows/{name}/trigger"), &json!({})).await.refused(400, "FLV0003");
    assert_eq!(world.executions().await, 2);
}

fn with_labels(count: usize, name: usize, value: usize) -> Value {
    let labels: serde_json::Map<String, Value> =
        (0..count).map(|number| (format!("{number:0name$}"), json!("v".repeat(value)))).collect();
    json!({ "labels": labels })
}

async fn labels(world: World) {
    world.post(PATH, &with_labels(20, 128, 128)).await.ok(201);
    for wrong in [with_labels(21, 4, 1), with_labels(1, 129, 1), with_labels(1, 1, 129)] {
        world.post(PATH, &wrong).await.refused(400, "FLV0021");
    }
    assert_eq!(world.executions().await, 1);
}
