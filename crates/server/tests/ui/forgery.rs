//! Forged changes, which do not come from a page of the visitor, have no effect.

use serde_json::json;
use uuid::Uuid;

use crate::visitor::Visitor;
use crate::world::{World, on_both, text};

on_both!(forged_forms_are_refused,);

/// Every path that changes something.
fn changes(execution: &str, task: &str, token: &str) -> Vec<String> {
    let promise = Uuid::new_v4();
    let execution = format!("/t/one/executions/{execution}");
    let mut all = vec![
        "/t/one/executions".to_owned(),
        "/t/one/tasks".to_owned(),
        "/logout".to_owned(),
        "/tenants".to_owned(),
    ];
    all.extend(["cancel", "terminate", "signal", "retry"].map(|action| format!("{execution}/{action}")));
    all.extend(["resolve", "reject"].map(|action| format!("{execution}/promises/{promise}/{action}")));
    all.extend(["retry", "cancel"].map(|action| format!("/t/one/tasks/{task}/{action}")));
    all.extend(["pause", "resume"].map(|action| format!("/t/one/queues/default/{action}")));
    all.extend(["/t/one/access/tokens".to_owned(), format!("/t/one/access/tokens/{token}/revoke")]);
    all
}

async fn forged_forms_are_refused(world: World) {
    let visitor = Visitor::admin(&world).await;
    let execution = world.start_order().await;
    let task = text(&world.post("/tasks", &json!({ "task_type": "t" })).await.ok(201)["id"]);
    let token = text(&world.post("/worker-tokens", &json!({ "name": "ci" })).await.ok(201)["id"]);
    let rows =
        async || format!("{:?}", world.server.server.api().service().store().snapshot().await.unwrap());
    let before = rows().await;
    let own = visitor.form_token().await;
    let others = Visitor::admin(&world).await.form_token().await;
    assert_ne!(own, others, "each session has its own");
    for path in changes(&execution, &task, &token) {
        let fields =
            |token| [("form_token", token), ("kind", "k"), ("task_type", "t"), ("name", "n"), ("error", "e")];
        for wrong in ["", "junk", others.as_str()] {
            let answer = visitor.post(&path, &fields(wrong)).await;
            assert_eq!(answer.status, 403, "{path} with {wrong:?}: {}", answer.text);
        }
        for (name, value) in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
        ] {
            let answer = visitor.post_with(&path, &fields(own.as_str()), &[(name, value)]).await;
            assert_eq!(answer.status, 403, "{path} from {value}: {}", answer.text);
        }
        let answer = visitor.get(&path).await;
        assert!([200, 303, 404, 405].contains(&answer.status), "GET {path}: {}", answer.status);
        let stranger = Visitor { cookie: String::new(), ..visitor.clone() };
        let answer = stranger.post(&path, &fields(own.as_str())).await;
        assert!([303, 401].contains(&answer.status), "{path} without a session: {}", answer.status);
    }
    assert_eq!(rows().await, before);
}
