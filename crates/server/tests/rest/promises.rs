//! Answers promises from outside.

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::json;
use uuid::Uuid;

use crate::app::command;
use crate::worker::Worker;
use crate::world::{World, on_both};

on_both!(by_id_and_by_key, unknown_ones);

/// An execution that waits for two promises, both with a key.
async fn waiting(world: &World, worker: &mut Worker) -> String {
    let id = world.start_order().await;
    let activation = worker.activation().await;
    let promise = |name: &str| {
        let data = v1::CreatePromiseCommand {
            promise_id: name.into(),
            idempotency_key: Some(format!("{name}/key")),
            ..v1::CreatePromiseCommand::default()
        };
        command(v1::CommandType::CreatePromise, CommandData::CreatePromise(data))
    };
    let commands = vec![promise("first"), promise("second")];
    let ack = worker.submit(&activation, commands, v1::WorkflowStatus::Suspended).await;
    assert_eq!(ack.code, "");
    id
}

async fn by_id_and_by_key(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = waiting(&world, &mut worker).await;
    let rows = world.server.server.api().service().store().snapshot().await.unwrap().promises;
    let first = rows.iter().find(|row| &*row.name == "first").unwrap().id;
    let path = format!("/promises/{first}/resolve");
    assert_eq!(world.post(&path, &json!({ "value": { "ok": true } })).await.status, 204);
    let answer = world.post(&path, &json!({ "value": 2 })).await;
    answer.refused(409, "FLV0055");
    let path = "/promises/key:second%2Fkey/reject";
    world.post(path, &json!({})).await.refused(400, "FLV0001");
    assert_eq!(world.post(path, &json!({ "error": "declined" })).await.status, 204);
    let events = world.get(&format!("/workflow-executions/{id}/events")).await.ok(200).to_string();
    assert!(events.contains("PROMISE_RESOLVED") && events.contains("PROMISE_REJECTED"), "{events}");
    assert!(events.contains("declined"), "{events}");
}

async fn unknown_ones(world: World) {
    for name in [Uuid::new_v4().to_string(), "key:none".into(), "not-an-id".into(), Uuid::nil().to_string()] {
        world.post(&format!("/promises/{name}/resolve"), &json!({})).await.refused(404, "FLV0033");
        world
            .post(&format!("/promises/{name}/reject"), &json!({ "error": "e" }))
            .await
            .refused(404, "FLV0033");
    }
}
