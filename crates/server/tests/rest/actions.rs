//! Actions on executions.

use flovyn_proto::v1;
use serde_json::json;

use crate::http::Answer;
use crate::worker::Worker;
use crate::world::{World, complete_next, fail_next, on_both, text};

on_both!(cancelling, terminating, releasing, retrying, deleting, signalling, signal_with_start);

async fn status(world: &World, id: &str) -> String {
    text(&world.get(&format!("/workflows/{id}/status")).await.ok(200)["status"])
}

async fn cancelling(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    for path in ["workflow-executions", "workflows"] {
        let id = world.start_order().await;
        let activation = worker.activation().await;
        worker.submit(&activation, Vec::new(), v1::WorkflowStatus::Suspended).await;
        let body = world.post(&format!("/{path}/{id}/cancel"), &json!({ "reason": "enough" })).await.ok(200);
        assert_eq!(body["workflowExecutionId"], json!(id));
        // The worker is asked to stop, and may clean up first.
        let asked = worker.activation().await;
        assert_eq!(asked.events.last().unwrap().event_type, "CANCELLATION_REQUESTED");
        let found = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
        assert_eq!(found["cancelRequested"], json!(true));
        world.post(&format!("/workflow-executions/{id}/terminate"), &json!({})).await.ok(200);
        assert_eq!(status(&world, &id).await, "CANCELLED");
    }
}

async fn terminating(world: World) {
    let id = world.start_order().await;
    let path = format!("/workflow-executions/{id}/terminate");
    let body = world.post(&path, &json!({ "reason": "enough" })).await.ok(200);
    assert_eq!(body, json!({ "workflowExecutionId": id, "status": "CANCELLED" }));
    let found = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
    assert!(text(&found["error"]).contains("enough"), "{found}");
}

async fn releasing(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let path = format!("/workflow-executions/{id}/release");
    let activation = worker.activation().await;
    world.post(&path, &json!({})).await.refused(409, "FLV0060");
    let failure = v1::ActivationFailure {
        code: "PANIC".into(),
        message: "at line 7".into(),
        position: 1,
        build_id: "build-1".into(),
    };
    let submit = v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id.clone(),
        status: v1::WorkflowStatus::ActivationFailed.into(),
        claim_token: Some(activation.claim_token),
        base_sequence: Some(1),
        activation_failure: Some(failure),
        ..v1::SubmitWorkflowCommandsRequest::default()
    };
    assert_eq!(worker.submit_raw(submit).await.code, "");
    let found = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
    let why = &found["waitingOn"][0];
    assert_eq!(why["kind"], json!("ACTIVATION_BACKOFF"));
    assert!(text(&why["message"]).contains("(build build-1)"), "{why}");
    let body = world.post(&path, &json!({})).await.ok(200);
    assert_eq!(body, json!({ "workflowExecutionId": id, "status": "PENDING" }));
    // The same worker receives it again, before its delay has ended.
    let again = worker.activation().await;
    assert_eq!(again.id, id);
    world.post(&path, &json!({})).await.refused(409, "FLV0060");
    let audit = world.get("/audit?limit=1").await.ok(200);
    assert_eq!(audit["entries"][0]["action"], json!("workflow.release"));
    assert_eq!(audit["entries"][0]["target"], json!(id));
}

async fn retrying(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let path = format!("/workflow-executions/{id}/retry");
    world.post(&path, &json!({})).await.refused(409, "FLV0053");
    fail_next(&mut worker).await;
    let found = world.get(&format!("/workflow-executions/{id}")).await.ok(200);
    assert_eq!((&found["status"], &found["error"]), (&json!("FAILED"), &json!("broken")));
    let body = world.post(&path, &json!({})).await.ok(201);
    assert_eq!(body["retryOf"], json!(id));
    let again = world.call(&world.admin, "GET", &text(&body["links"]["self"]), "").await.ok(200);
    assert_eq!((&again["retryOf"], &again["input"]), (&json!(id), &json!({ "order": 1 })));
    // With a key there is one retry, however many requests arrive at once.
    let (bearer, whole) = (format!("Bearer {}", world.admin), format!("/api/tenants/one{path}"));
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "button")];
    let send = || world.http.send("POST", &whole, &headers, "");
    let answers = futures::future::join_all((0..8).map(|_| send())).await;
    let (made, found): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((made.len(), found.len()), (1, 7));
    let id = &made[0].body["workflowExecutionId"];
    let is_same = |answer: &Answer| answer.status == 200 && answer.body["workflowExecutionId"] == *id;
    assert!(found.iter().all(is_same), "{found:?}");
    let other = world.start_order().await;
    world.post(&format!("/workflow-executions/{other}/terminate"), &json!({})).await.ok(200);
    let whole = format!("/api/tenants/one/workflow-executions/{other}/retry");
    world.http.send("POST", &whole, &headers, "").await.refused(409, "FLV0042");
}

async fn deleting(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let path = format!("/workflow-executions/{id}");
    world.delete(&path).await.refused(409, "FLV0052");
    complete_next(&mut worker, "1").await;
    let operator = world.token(&["one"], "operator");
    world.call(&operator, "DELETE", &format!("/api/tenants/one{path}"), "").await.refused(403, "FLV0081");
    assert_eq!(world.delete(&path).await.status, 204);
    for below in ["", "/events", "/tasks", "/children", "/state", "/stream"] {
        world.get(&format!("{path}{below}")).await.refused(404, "FLV0031");
    }
    assert_eq!(world.executions().await, 0);
}

async fn signalling(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let path = format!("/workflow-executions/{id}/signal");
    let body = world.post(&path, &json!({ "name": "paid", "value": { "by": "card" } })).await.ok(202);
    assert_eq!(body, json!({ "signalEventSequence": 2 }));
    world.post(&path, &json!({ "signal_name": "paid", "signal_value": 1 })).await.ok(202);
    world.post(&path, &json!({ "signalName": "paid" })).await.ok(202);
    let events = world.get(&format!("/workflow-executions/{id}/events")).await.ok(200);
    assert_eq!(events["events"].as_array().unwrap().len(), 4);
    assert!(events["events"][1]["data"].to_string().contains("card"), "{events}");
    world.post(&path, &json!({ "name": "" })).await.refused(400, "FLV0003");
    complete_next(&mut worker, "1").await;
    world.post(&path, &json!({ "name": "paid" })).await.refused(409, "FLV0051");
}

async fn signal_with_start(world: World) {
    let request = json!({
        "signalName": "item",
        "signalValue": 1,
        "workflow": { "kind": "order", "idempotencyKey": "cart-1" },
    });
    let path = "/workflow-executions/signal-with-start";
    let first = world.post(path, &request).await.ok(201);
    assert_eq!((&first["workflowCreated"], &first["signalEventSequence"]), (&json!(true), &json!(2)));
    let second = world.post(path, &request).await.ok(200);
    assert_eq!((&second["workflowCreated"], &second["signalEventSequence"]), (&json!(false), &json!(3)));
    assert_eq!(first["workflowExecutionId"], second["workflowExecutionId"]);
    // After a finished execution, a new one is started.
    let mut worker = Worker::connect(&world.server).await;
    complete_next(&mut worker, "1").await;
    assert_eq!(status(&world, &text(&first["workflowExecutionId"])).await, "COMPLETED");
    let third = world.post(path, &request).await.ok(201);
    assert_ne!(first["workflowExecutionId"], third["workflowExecutionId"]);
}
