//! The limits of what a start may carry.

use serde_json::{Value, json};

use crate::world::{World, on_both, text};

on_both!(inputs, keys, wide_names, labels);

const PATH: &str = "/workflows/order/trigger";

async fn inputs(world: World) {
    // With its two quotes, the document is exactly 1 MiB.
    let fits = json!({ "input": "x".repeat((1 << 20) - 2) });
    world.post(PATH, &fits).await.ok(201);
    let too_large = json!({ "input": "x".repeat((1 << 20) - 1) });
    world.post(PATH, &too_large).await.refused(413, "FLV0020");
    let task = json!({ "task_type": "t", "input": too_large["input"] });
    world.post("/tasks", &task).await.refused(413, "FLV0020");
    assert_eq!(world.executions().await, 1);
}

async fn keys(world: World) {
    // The limit counts characters, not bytes.
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

/// This many characters of four bytes, in an order that a database cannot compress.
fn wide(seed: u32, length: usize) -> String {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_u32(0x1_0000 + (state >> 8) % 0xf_0000).unwrap()
    };
    (0..length).map(|_| next()).collect()
}

fn in_path(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Every indexed name accepts 255 characters, whatever their width.
async fn wide_names(world: World) {
    let (kind, queue, key, version) = (wide(1, 255), wide(2, 255), wide(3, 255), wide(4, 128));
    let path = format!("/workflows/{}/trigger", in_path(&kind));
    let start = json!({ "taskQueue": queue, "idempotencyKey": key, "version": version,
        "labels": { wide(5, 128): wide(6, 128) } });
    let id = text(&world.post(&path, &start).await.ok(201)["workflowExecutionId"]);
    assert_eq!(world.post(&path, &start).await.ok(200)["workflowExecutionId"], id.as_str());
    let row = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
    assert_eq!((row["kind"].as_str(), row["taskQueue"].as_str()), (Some(&*kind), Some(&*queue)), "{row}");
    let signal = json!({ "name": wide(7, 255), "value": 1 });
    world.post(&format!("/workflow-executions/{id}/signal"), &signal).await.ok(202);
    world.post(&format!("/queues/{}/pause", in_path(&queue)), &json!({})).await.ok(204);
    let task = json!({ "task_type": kind, "queue": queue, "idempotency_key": wide(8, 255) });
    let made = world.post("/tasks", &task).await.ok(201);
    assert_eq!(world.post("/tasks", &task).await.ok(200)["id"], made["id"]);
    for wrong in [json!({ "taskQueue": wide(2, 256) }), json!({ "idempotencyKey": wide(3, 256) })] {
        world.post(PATH, &wrong).await.refused(400, "FLV0003");
    }
    // A version shares an index entry with a kind and a queue.
    let wrong = world.post(PATH, &json!({ "version": wide(4, 129) })).await.refused(400, "FLV0003");
    assert_eq!(wrong["error"], "version has 516 bytes, the limit is 512");
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
