//! Every form, as a browser without scripts sends it.

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use serde_json::json;

use crate::app::command;
use crate::visitor::Visitor;
use crate::worker::Worker;
use crate::world::{World, fail_next, on_both, text};

on_both!(starting, scripts_get_json, ending_and_retrying, answering, tasks_and_queues, tokens_are_shown_once,);

/// The last part of a URL.
fn id_of(page: &str) -> &str {
    page.rsplit('/').next().unwrap()
}

async fn starting(world: World) {
    let visitor = Visitor::admin(&world).await;
    let fields = [
        ("kind", "a kind/of work"),
        ("input", "{\"n\": 12345678901234567890.10}"),
        ("task_queue", "fast"),
        ("idempotency_key", "once"),
        ("labels", "team:shop, env: test"),
    ];
    let page = visitor.done("/t/one/executions", &fields).await;
    let info = world.get(&format!("/workflow-executions/{}", id_of(&page))).await;
    assert!(info.text.contains("12345678901234567890.10"), "numbers keep their digits: {}", info.text);
    let info = info.ok(200);
    assert_eq!((&info["kind"], &info["taskQueue"]), (&json!("a kind/of work"), &json!("fast")));
    assert_eq!(info["labels"], json!({ "team": "shop", "env": "test" }));
    assert_eq!(visitor.done("/t/one/executions", &fields).await, page, "the key finds it again");
    for (name, wrong) in [("input", "{"), ("input", "{} {}"), ("labels", "nothing"), ("kind", "")] {
        let fields = fields.map(|(field, value)| if field == name { (field, wrong) } else { (field, value) });
        let answer = visitor.fill("/t/one/executions", &fields).await;
        assert_eq!(answer.status, 400, "{name} {wrong}: {}", answer.text);
    }
    assert_eq!(world.executions().await, 1);
}

async fn scripts_get_json(world: World) {
    let visitor = Visitor::admin(&world).await;
    let token = visitor.form_token().await;
    let by_script = &[("x-flovyn-part", "1")];
    let fields = [("form_token", token.as_str()), ("kind", "k"), ("input", "nonsense")];
    let answer = visitor.post_with("/t/one/executions", &fields, by_script).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body["error"].as_str().unwrap().starts_with("input is not JSON"), "{}", answer.text);
    let fields = [("form_token", token.as_str()), ("kind", "k")];
    let answer = visitor.post_with("/t/one/executions", &fields, by_script).await;
    assert!(answer.ok(200)["page"].as_str().unwrap().starts_with("/t/one/executions/"));
}

async fn ending_and_retrying(world: World) {
    let visitor = Visitor::admin(&world).await;
    for action in ["cancel", "terminate"] {
        let id = world.start_order().await;
        let page = format!("/t/one/executions/{id}");
        assert_eq!(visitor.done(&format!("{page}/{action}"), &[("reason", "no need")]).await, page);
        let html = visitor.page(&page).await;
        assert!(html.contains("Cancelled") && html.contains("no need"), "{html}");
        // A second time is too late, and the page says so.
        let again = visitor.fill(&format!("{page}/signal"), &[("name", "s")]).await;
        assert_eq!(again.status, 409, "{}", again.text);
        assert!(again.text.contains("FLV"), "{}", again.text);
    }
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    fail_next(&mut worker).await;
    let page = visitor.done(&format!("/t/one/executions/{id}/retry"), &[]).await;
    assert_ne!(id_of(&page), id);
    assert!(visitor.page(&page).await.contains(&id), "the new one is linked to the old one");
}

async fn answering(world: World) {
    let visitor = Visitor::admin(&world).await;
    let mut worker = Worker::connect(&world.server).await;
    let id = world.start_order().await;
    let activation = worker.activation().await;
    let promise = |name: &str| {
        let data =
            v1::CreatePromiseCommand { promise_id: name.into(), ..v1::CreatePromiseCommand::default() };
        command(v1::CommandType::CreatePromise, CommandData::CreatePromise(data))
    };
    let commands = vec![promise("first"), promise("second")];
    worker.submit(&activation, commands, v1::WorkflowStatus::Suspended).await;
    let page = format!("/t/one/executions/{id}");
    let html = visitor.page(&page).await;
    let actions: Vec<&str> =
        html.split('"').filter(|part| part.ends_with("/resolve") || part.ends_with("/reject")).collect();
    assert_eq!(actions.len(), 4, "{actions:?}");
    let first = actions.iter().find(|action| action.ends_with("/resolve")).unwrap();
    assert_eq!(visitor.fill(first, &[("value", "not json")]).await.status, 400);
    assert_eq!(visitor.done(first, &[("value", "{\"ok\": true}")]).await, page);
    let second = actions.iter().rfind(|action| action.ends_with("/reject")).unwrap();
    assert_eq!(visitor.done(second, &[("error", "declined")]).await, page);
    assert_eq!(visitor.done(&format!("{page}/signal"), &[("name", "go"), ("value", "[1]")]).await, page);
    let log = visitor.page(&format!("{page}/events?page=0")).await;
    for word in ["Promise resolved", "Promise rejected", "declined", "Signal received", "go"] {
        assert!(log.contains(word), "{word}: {log}");
    }
}

async fn tasks_and_queues(world: World) {
    let visitor = Visitor::admin(&world).await;
    let fields =
        [("task_type", "charge"), ("input", "{\"n\":1}"), ("max_retries", "1"), ("queue", "default")];
    let page = visitor.done("/t/one/tasks", &fields).await;
    let mut worker = Worker::connect(&world.server).await;
    let task = worker.task().await;
    worker.fail_task(&task, "card <declined>").await;
    let html = visitor.page(&page).await;
    assert!(html.contains("card &lt;declined&gt;") && html.contains("Retry"), "{html}");
    assert_eq!(visitor.done("/t/one/queues/default/pause", &[]).await, "/t/one/queues");
    assert_eq!(visitor.done(&format!("{page}/retry"), &[]).await, page);
    assert!(visitor.page(&page).await.contains("queue default is paused"));
    assert!(visitor.page("/t/one/queues").await.contains("Paused"));
    assert_eq!(visitor.done(&format!("{page}/cancel"), &[]).await, page);
    assert!(visitor.page(&page).await.contains("Cancelled"));
    visitor.done("/t/one/queues/default/resume", &[]).await;
    let queues = world.get("/queues").await.ok(200);
    assert!(!queues.to_string().contains("\"paused\":true"), "{queues}");
    let audit = visitor.page("/t/one/audit").await;
    assert!(audit.contains("somebody") && audit.to_lowercase().contains("pause"), "{audit}");
}

async fn tokens_are_shown_once(world: World) {
    let visitor = Visitor::admin(&world).await;
    let made = visitor.fill("/t/one/access/tokens", &[("name", "laptop")]).await;
    assert_eq!(made.status, 200, "{}", made.text);
    let token = made.text.split(['"', '<', '>']).find(|part| part.starts_with("fwt_")).expect("the token");
    let list = visitor.page("/t/one/access").await;
    assert!(list.contains("laptop") && !list.contains(token));
    let tokens = world.get("/worker-tokens").await.ok(200);
    let laptop =
        tokens["workerTokens"].as_array().unwrap().iter().find(|one| one["name"] == "laptop").unwrap();
    let revoke = format!("/t/one/access/tokens/{}/revoke", text(&laptop["id"]));
    assert_eq!(visitor.done(&revoke, &[]).await, "/t/one/access");
    assert!(visitor.page("/t/one/access").await.contains("Revoked"));
}
