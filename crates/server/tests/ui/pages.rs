//! Every page, its headers, and payloads with markup.

use serde_json::json;

use crate::app::schedule_task;
use crate::visitor::{PAGES, Visitor};
use crate::worker::Worker;
use crate::world::{World, on_both, text};

on_both!(
    every_page_is_there,
    every_answer_keeps_foreign_content_out,
    payloads_are_text_whatever_they_say,
    an_execution_is_followed_live,
    signals_that_were_not_read_are_shown,
);

/// One of everything, so that no page is empty.
async fn every_page_is_there(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let execution = world.start_order().await;
    let activation = worker.activation().await;
    let task = uuid::Uuid::new_v4();
    let commands = vec![schedule_task(task, 3)];
    worker.submit(&activation, commands, flovyn_proto::v1::WorkflowStatus::Suspended).await;
    let alone =
        text(&world.post("/tasks", &json!({ "task_type": "send", "queue": "mail" })).await.ok(201)["id"]);
    let visitor = Visitor::admin(&world).await;
    let own = format!("/t/one/executions/{execution}");
    let expected: &[(String, &[&str])] = &[
        ("/t/one".into(), &["Overview", "order"]),
        ("/t/one/executions".into(), &["order", &execution, "Waiting"]),
        ("/t/one/executions?status=WAITING&q=order&queue=default&since=1h".into(), &[&execution]),
        ("/t/one/executions?status=FAILED".into(), &["Nothing matches"]),
        (own.clone(), &["Waits for", "Workflow started", "Task scheduled", "charge", "Timeline"]),
        (format!("{own}/events?page=0"), &["Workflow started"]),
        (format!("{own}/events/1"), &["WORKFLOW_STARTED", "workflowKind"]),
        (format!("{own}/children"), &["No children"]),
        (format!("{own}/tasks/{task}"), &["charge", "Attempts"]),
        ("/t/one/tasks".into(), &["send", &alone]),
        (format!("/t/one/tasks/{alone}"), &["No worker", "mail"]),
        ("/t/one/queues".into(), &["mail", "no worker"]),
        ("/t/one/workers".into(), &["worker-", "charge"]),
        ("/t/one/access".into(), &["Worker tokens", "test"]),
        ("/t/one/audit".into(), &["Audit log"]),
    ];
    for (path, words) in expected {
        let page = visitor.page(path).await;
        for word in *words {
            assert!(page.contains(word), "{path} does not contain {word}:\n{page}");
        }
    }
    // A search for a key shows the executions that were started with it, here from the page of one of them.
    let with_start = json!({ "signalName": "go", "workflow": { "kind": "cart", "idempotencyKey": "ada/1" } });
    let sent = world.post("/workflow-executions/signal-with-start", &with_start).await.ok(201);
    let entity = sent["workflowExecutionId"].as_str().unwrap().to_owned();
    let page = visitor.page(&format!("/t/one/executions/{entity}")).await;
    assert!(page.contains("/t/one/executions?q=key%3Aada%2F1"), "{page}");
    let found = visitor.page("/t/one/executions?q=key%3Aada%2F1").await;
    assert!(found.contains(&entity) && !found.contains(&execution), "{found}");
    // A search for an id leads to its execution.
    assert_eq!(visitor.get(&format!("/t/one/executions?q={execution}")).await.headers["location"], *own);
    assert_eq!(visitor.get(&format!("{own}/raw/input")).await.text, r#"{"order":1}"#);
    for path in
        ["/events/9", "/raw/output", "/raw/x", "/tasks/00000000-0000-7000-8000-000000000001", "/tasks/x"]
    {
        assert_eq!(visitor.get(&format!("{own}{path}")).await.status, 404, "{path}");
    }
}

async fn every_answer_keeps_foreign_content_out(world: World) {
    let visitor = Visitor::admin(&world).await;
    let execution = world.start_order().await;
    let page = visitor.page("/t/one").await;
    let asset =
        page.split('"').find(|part| part.starts_with("/assets/") && part.ends_with("app.js")).unwrap();
    let others = ["/login", "/t/zzz", "/t/one/executions/x", asset, "/assets/x/app.js"].map(str::to_owned);
    let own = format!("/t/one/executions/{execution}");
    for path in PAGES.iter().map(|page| (*page).to_owned()).chain(others).chain([own]) {
        let answer = visitor.get(&path).await;
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{path}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers["x-frame-options"], "DENY", "{path}");
        if path == asset {
            assert!(answer.headers["cache-control"].to_str().unwrap().contains("immutable"));
            continue;
        }
        assert_eq!(answer.headers["cache-control"], "no-store", "{path}");
        // The policy blocks inline content, so there must be none.
        for inline in ["<style", " style=", " onclick=", " onload=", "javascript:"] {
            assert!(!answer.text.contains(inline), "{path} has {inline}");
        }
        for script in answer.text.split("<script").skip(1) {
            assert!(script.starts_with(" type=\"module\" src=\"/assets/"), "{path}: {script}");
        }
    }
}

async fn payloads_are_text_whatever_they_say(world: World) {
    let visitor = Visitor::admin(&world).await;
    let deep = "[".repeat(100) + &"]".repeat(100);
    let input = json!({
        "<script>alert(1)</script>": "<img src=x onerror=alert(2)>",
        "quote": "\" onmouseover=\"alert(3)",
        "entity": "&lt;b&gt;",
        "rtl": "שלום עולם",
        "turned": "abc\u{202e}txt.exe",
        "huge": "x".repeat(900_000),
        "deep": serde_json::from_str::<serde_json::Value>(&deep).unwrap(),
        "number": 12345678901234567890_u64,
    });
    let kind = "<b>kind</b>\"'&";
    let labels = json!({ "<i>": "</title><script>alert(4)</script>" });
    let body = json!({ "kind": kind, "input": input, "labels": labels, "taskQueue": "<u>q</u>" });
    let id = text(&world.post("/workflow-executions", &body).await.ok(201)["workflowExecutionId"]);
    for path in ["/t/one", "/t/one/executions", &format!("/t/one/executions/{id}"), "/t/one/queues"] {
        let page = visitor.page(path).await;
        for markup in ["<script>alert", "<img src=x", "<b>kind", "<u>q", "<i>:", "\" onmouseover=\""] {
            assert!(!page.contains(markup), "{path} has {markup}");
        }
        assert!(!page.contains('\u{202e}'), "{path} changes the text direction");
        assert!(page.len() < 200_000, "{path} has {} bytes", page.len());
    }
    let page = visitor.page(&format!("/t/one/executions/{id}")).await;
    for word in ["&lt;script&gt;alert(1)", "שלום עולם", "\\u202e", "12345678901234567890", "900,002 bytes"]
    {
        assert!(page.contains(word), "{word}");
    }
    // The whole payload, as plain text.
    let raw = visitor.get(&format!("/t/one/executions/{id}/raw/input")).await;
    assert_eq!(raw.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(raw.body, input);
}

async fn an_execution_is_followed_live(world: World) {
    let visitor = Visitor::admin(&world).await;
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let headers = [("cookie", visitor.cookie.as_str()), ("last-event-id", "0")];
    let mut events = world.http.follow(&format!("/t/one/executions/{id}/live"), &headers).await;
    assert_eq!(events.next().await.unwrap().1, "WORKFLOW_STARTED");
    crate::world::complete_next(&mut worker, "1").await;
    assert_eq!(events.next().await.unwrap().1, "WORKFLOW_COMPLETED");
    assert!(events.next().await.is_none(), "the stream ends with the execution");
}

async fn signals_that_were_not_read_are_shown(world: World) {
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let activation = worker.activation().await;
    let visitor = Visitor::admin(&world).await;
    let path = format!("/t/one/executions/{id}");
    assert!(!visitor.page(&path).await.contains("Signals not read"));
    let submit = flovyn_proto::v1::SubmitWorkflowCommandsRequest {
        workflow_execution_id: id,
        commands: vec![crate::app::complete("1")],
        status: flovyn_proto::v1::WorkflowStatus::Completed.into(),
        claim_token: Some(activation.claim_token),
        base_sequence: Some(1),
        unread_signals: 2,
        ..Default::default()
    };
    assert_eq!(worker.submit_raw(submit).await.code, "");
    assert!(visitor.page(&path).await.contains("Signals not read"));
}
