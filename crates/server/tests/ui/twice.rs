//! A form that is sent twice is executed once, because a double click means one action.

use serde_json::json;

use crate::visitor::Visitor;
use crate::worker::Worker;
use crate::world::{World, fail_next, on_both, text};

on_both!(
    starting_twice_starts_one,
    a_form_that_is_changed_is_another_one,
    creating_a_task_twice_makes_one,
    retrying_twice_retries_once,
    signalling_twice_signals_once,
    one_form_signals_each_execution,
);

/// Sends a form of a page twice at once. Returns the two pages that the answers lead to.
async fn twice(visitor: &Visitor, page: &str, action: &str, fields: &[(&str, &str)]) -> [String; 2] {
    let form = visitor.form(page, action, fields).await;
    let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (one, other) = tokio::join!(visitor.post(action, &form), visitor.post(action, &form));
    [one, other].map(|answer| {
        assert_eq!(answer.status, 303, "{}", answer.text);
        answer.headers["location"].to_str().unwrap().to_owned()
    })
}

async fn starting_twice_starts_one(world: World) {
    let visitor = Visitor::admin(&world).await;
    let (page, fields) = ("/t/one/executions", [("kind", "order"), ("input", "{\"n\":1}")]);
    for count in 1..=5 {
        let [one, other] = twice(&visitor, page, page, &fields).await;
        assert_eq!(one, other);
        assert_eq!(world.executions().await, count, "each rendering of the form starts one");
    }
}

async fn a_form_that_is_changed_is_another_one(world: World) {
    let visitor = Visitor::admin(&world).await;
    let page = "/t/one/executions";
    let form = visitor.form(page, page, &[("kind", "order")]).await;
    let mut pages = Vec::new();
    for (kind, input) in [("order", "1"), ("order", "2"), ("refund", "2"), ("order", "1")] {
        let mut fields: Vec<(&str, &str)> = form
            .iter()
            .filter(|(name, _)| name.starts_with("form_"))
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        fields.extend([("kind", kind), ("input", input)]);
        let answer = visitor.post(page, &fields).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        pages.push(answer.headers["location"].to_str().unwrap().to_owned());
    }
    assert_eq!((world.executions().await, &pages[0]), (3, &pages[3]), "{pages:?}");
}

async fn creating_a_task_twice_makes_one(world: World) {
    let visitor = Visitor::admin(&world).await;
    let [one, other] = twice(&visitor, "/t/one/tasks", "/t/one/tasks", &[("task_type", "send")]).await;
    assert_eq!(one, other);
    assert_eq!(world.get("/tasks").await.ok(200)["total"], 1);
}

async fn retrying_twice_retries_once(world: World) {
    let visitor = Visitor::admin(&world).await;
    let mut worker = Worker::connect(&world.server).await;
    let page = format!("/t/one/executions/{}", world.start_order().await);
    fail_next(&mut worker).await;
    let [one, other] = twice(&visitor, &page, &format!("{page}/retry"), &[]).await;
    assert_eq!(one, other);
    assert_eq!(world.executions().await, 2, "the failed one and its retry");
    // After the page is reloaded, the button starts another retry.
    let [third, _] = twice(&visitor, &page, &format!("{page}/retry"), &[]).await;
    assert_ne!(third, one);
    assert_eq!(world.executions().await, 3);
}

async fn started(world: &World) -> String {
    let answer = world.post("/workflow-executions", &json!({ "kind": "lonely" })).await.ok(201);
    text(&answer["workflowExecutionId"])
}

async fn signals(world: &World, id: &str) -> usize {
    let events = world.get(&format!("/workflow-executions/{id}/events")).await.ok(200);
    let events = events["events"].as_array().unwrap().iter();
    events.filter(|event| event["eventType"] == "SIGNAL_RECEIVED").count()
}

async fn signalling_twice_signals_once(world: World) {
    let visitor = Visitor::admin(&world).await;
    let id = started(&world).await;
    let page = format!("/t/one/executions/{id}");
    let fields = [("name", "go"), ("value", "1")];
    for count in 1..=3 {
        let [one, other] = twice(&visitor, &page, &format!("{page}/signal"), &fields).await;
        assert_eq!((one.as_str(), other.as_str()), (page.as_str(), page.as_str()));
        assert_eq!(signals(&world, &id).await, count);
    }
}

async fn one_form_signals_each_execution(world: World) {
    let visitor = Visitor::admin(&world).await;
    let ids = [started(&world).await, started(&world).await];
    let page = |id: &str| format!("/t/one/executions/{id}");
    let action = |id: &str| format!("{}/signal", page(id));
    let form = visitor.form(&page(&ids[0]), &action(&ids[0]), &[("name", "go"), ("value", "1")]).await;
    let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for id in &ids {
        assert_eq!(visitor.post(&action(id), &form).await.status, 303);
        assert_eq!(signals(&world, id).await, 1, "each execution has its own signal");
    }
}
