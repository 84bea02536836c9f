//! Refusals as problem details (RFC 9457), for callers that ask for them.

use serde_json::json;

use crate::common::Database;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_has_the_form_that_was_asked_for() {
    let world = World::start(Database::Sqlite).await;
    let bearer = format!("Bearer {}", world.admin);
    let path = "/api/tenants/one/workflows/order/trigger";
    let wrong = r#"{"idempotencyKey":"k","idempotencyKeyTTL":"2x"}"#;
    let send = |headers: Vec<(&'static str, String)>| {
        let world = &world;
        async move {
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            world.http.send("POST", path, &headers, wrong).await
        }
    };
    let problem = "application/problem+json".to_owned();
    let answer = send(vec![("authorization", bearer.clone()), ("accept", problem.clone())]).await;
    assert_eq!(
        (answer.status, &answer.headers["content-type"]),
        (400, &"application/problem+json".parse().unwrap())
    );
    let detail = "Invalid idempotencyKeyTTL format: '2x'. Expected: 30s, 5m, 2h, 7d";
    let expected = json!({
        "type": "https://github.com/flovyn/flovyn/blob/main/docs/errors/FLV0005.md",
        "title": "Invalid ttl",
        "status": 400,
        "detail": detail,
        "code": "FLV0005",
        "error": detail,
        "message": "Choose a time to live from 1 second to 30 days.",
    });
    assert_eq!(answer.body, expected);
    // Other callers receive the usual form.
    for accept in ["application/json", "*/*", "text/html, application/problem+json;q=0"] {
        let answer = send(vec![("authorization", bearer.clone()), ("accept", accept.to_owned())]).await;
        assert_eq!(answer.headers["content-type"], "application/json", "{accept}");
        assert_eq!(answer.refused(400, "FLV0005")["error"], detail);
    }
    // Headers stay unchanged, and so do successful answers.
    let answer = send(vec![("accept", problem.clone())]).await;
    assert_eq!((answer.status, &answer.headers["www-authenticate"]), (401, &"Bearer".parse().unwrap()));
    assert_eq!((&answer.body["status"], &answer.body["code"]), (&json!(401), &json!("FLV0080")));
    for missing in ["/api/nothing", "/api/tenants/one/workflow-executions/x"] {
        let headers = [("authorization", bearer.as_str()), ("accept", problem.as_str())];
        let answer = world.http.send("GET", missing, &headers, "").await;
        assert_eq!((answer.status, &answer.body["status"]), (404, &json!(404)), "{missing}");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
    let headers = [("authorization", bearer.as_str()), ("accept", problem.as_str())];
    let answer = world.http.send("POST", path, &headers, "{}").await;
    assert_eq!((answer.status, &answer.headers["content-type"]), (201, &"application/json".parse().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_used_up_is_named() {
    let world = World::start(Database::Sqlite).await;
    world.limit(&json!({ "monthlyWorkflowRuns": 1 })).await;
    world.start_order().await;
    let bearer = format!("Bearer {}", world.admin);
    let headers = [("authorization", bearer.as_str()), ("accept", "application/problem+json")];
    let path = "/api/tenants/one/workflows/order/trigger";
    let answer = world.http.send("POST", path, &headers, "{}").await;
    let expected = json!({
        "type": "https://github.com/flovyn/flovyn/blob/main/docs/errors/FLV0028.md",
        "title": "Monthly quota exceeded",
        "status": 429,
        "detail": "Monthly workflow run quota exceeded",
        "code": "FLV0028",
        "error": "MONTHLY_QUOTA_EXCEEDED",
        "message": "Monthly workflow run quota exceeded",
        "quotaType": "monthly_workflow_runs",
        "limit": 1,
        "current": 1,
    });
    assert_eq!((answer.status, &answer.body), (429, &expected));
    assert!(answer.retry_after().is_some());
}
