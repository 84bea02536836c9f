//! Any input leads to an answer or to a refusal with a code, never to an internal error.

use flovyn_server::rest::ROUTES;
use serde_json::json;

use crate::http::Answer;
use crate::world::{World, on_both};

on_both!(bodies, deep_nesting, deep_payloads, oversize, compressed, paths, strange_texts);

/// Routes that take a body.
fn writing() -> impl Iterator<Item = String> {
    let paths = ROUTES.iter().filter(|(method, path)| *method == "POST" && path.contains("{tenant}"));
    // These routes ignore the body.
    let paths = paths.filter(|(_, path)| !path.ends_with("/retry") && !path.ends_with("/release"));
    let paths = paths.filter(|(_, path)| !path.contains("/queues/"));
    let id = "0190aaaa-0000-7000-8000-000000000001";
    paths.map(move |(_, path)| path.replace("{tenant}", "one").replace("{name}", id).replace("{promise}", id))
}

async fn raw(world: &World, path: &str, body: Vec<u8>) -> Answer {
    let bearer = format!("Bearer {}", world.admin);
    world.http.send("POST", path, &[("authorization", &bearer)], body).await
}

#[track_caller]
fn is_refused(answer: &Answer, about: &str) {
    assert!((400..500).contains(&answer.status), "{about}: {answer:?}");
    assert!(answer.body["code"].is_string(), "{about}: {answer:?}");
}

async fn bodies(world: World) {
    let bad: &[&[u8]] = &[
        b"{",
        b"nonsense",
        b"[]",
        b"1",
        b"\"text\"",
        b"null",
        b"{}{}",
        b"{\"nobody-knows-this\":1}",
        b"\xff\xfe",
        b"{\"input\":\"\xff\"}",
        b"{\"reason\":\"\xc3\"}",
        b"{\"input\":\"\\ud800\"}\x00",
        b"{\"kind\":1}",
        b"{\"name\":[]}",
        b"{\"error\":{}}",
        b"{\"task_type\":null}",
        b"{\"reason\":7}",
        b"{\"workflows\":{}}",
        b"{\"tasks\":[1]}",
        b"{\"signalName\":\"s\",\"workflow\":7}",
        b"{'a':1}",
        b"{\"prioritySeconds\":1e99}",
        b"{\"prioritySeconds\":1.5}",
        b"{\"labels\":{\"a\":1}}",
        b"[\"a\",1,\"q\"]",
        b"{\"workflows\":[[\"a\"]]}",
        b"{\"tasks\":[[\"a\",1]]}",
    ];
    for path in writing() {
        for body in bad {
            is_refused(
                &raw(&world, &path, body.to_vec()).await,
                &format!("{path} {:?}", String::from_utf8_lossy(body)),
            );
        }
    }
    assert_eq!(world.executions().await, 0);
    let root = world.token(&["*"], "server-admin");
    for body in ["", "{", "[]", "{}", r#"{"slug":1}"#, r#"{"slug":"x","more":1}"#, r#"{"slug":"\u0000"}"#] {
        is_refused(&world.call(&root, "POST", "/api/tenants", body).await, body);
    }
}

async fn deep_nesting(world: World) {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for path in writing() {
        is_refused(&raw(&world, &path, deep.clone().into_bytes()).await, &path);
        is_refused(&raw(&world, &path, "[".repeat(100_000).into_bytes()).await, &path);
    }
    // As a payload, the document is refused, or stored and returned; nothing crashes.
    let body = format!(r#"{{"input":{deep}}}"#);
    let answer = raw(&world, "/api/tenants/one/workflows/order/trigger", body.into_bytes()).await;
    assert!(answer.status == 201 || answer.status == 400, "{answer:?}");
    if let Some(link) = answer.body["links"]["self"].as_str() {
        for below in ["", "/events"] {
            assert_eq!(world.call(&world.admin, "GET", &format!("{link}{below}"), "").await.status, 200);
        }
    }
    world.start_order().await;
}

async fn oversize(world: World) {
    let too_large = axum::body::Bytes::from(vec![b' '; (16 << 20) + 1]);
    let bearer = format!("Bearer {}", world.admin);
    for path in writing() {
        let answer = world.http.send("POST", &path, &[("authorization", &bearer)], too_large.clone()).await;
        answer.refused(413, "FLV0020");
    }
    assert_eq!(world.executions().await, 0);
    raw(&world, "/api/tenants/one/workflows/order/trigger", vec![b' '; 16 << 20]).await.ok(201);
}

/// Bodies are not decompressed, so a small body cannot become a large one.
async fn compressed(world: World) {
    let bearer = format!("Bearer {}", world.admin);
    for path in writing() {
        for encoding in
            ["gzip", "x-gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip", "nonsense", ""]
        {
            for body in [&b"{}"[..], b"", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03"] {
                let headers = [("authorization", bearer.as_str()), ("content-encoding", encoding)];
                let answer = world.http.send("POST", &path, &headers, body.to_vec()).await;
                let refused = answer.refused(400, "FLV0001");
                assert!(refused["error"].as_str().unwrap().contains("Content-Encoding"), "{path} {encoding}");
            }
        }
    }
    let headers = [("authorization", bearer.as_str()), ("content-encoding", "identity")];
    world.http.send("POST", "/api/tenants/one/workflows/order/trigger", &headers, "{}").await.ok(201);
    assert_eq!(world.executions().await, 1);
}

/// Wherever a payload is allowed, the document is refused, or stored and returned unchanged.
async fn deep_payloads(world: World) {
    let text =
        |opening: &str, closing: &str| format!("{}1{}", opening.repeat(10_000), closing.repeat(10_000));
    let order = world.start_order().await;
    for deep in [text("[", "]"), text("{\"a\":", "}")] {
        let bodies = [
            ("/workflows/deep/trigger".to_owned(), format!(r#"{{"input":{deep}}}"#)),
            ("/workflow-executions".to_owned(), format!(r#"{{"kind":"k","input":{deep}}}"#)),
            ("/workflows/batch".to_owned(), format!(r#"{{"workflows":[{{"kind":"k","input":{deep}}}]}}"#)),
            (
                "/workflow-executions/signal-with-start".to_owned(),
                format!(
                    r#"{{"signalName":"s","signalValue":{deep},"workflow":{{"kind":"k","input":{deep}}}}}"#
                ),
            ),
            (format!("/workflow-executions/{order}/signal"), format!(r#"{{"name":"s","value":{deep}}}"#)),
            ("/tasks".to_owned(), format!(r#"{{"task_type":"t","input":{deep}}}"#)),
            ("/tasks/batch".to_owned(), format!(r#"{{"tasks":[{{"task_type":"t","input":{deep}}}]}}"#)),
            ("/promises/key:none/resolve".to_owned(), format!(r#"{{"value":{deep}}}"#)),
            // Where no payload is allowed, the document is refused.
            ("/workflows/deep/trigger".to_owned(), format!(r#"{{"labels":{deep}}}"#)),
            ("/tasks".to_owned(), format!(r#"{{"task_type":"t","retry_policy":{deep}}}"#)),
        ];
        for (path, body) in bodies {
            let answer = raw(&world, &format!("/api/tenants/one{path}"), body.into_bytes()).await;
            if answer.status >= 300 {
                is_refused(&answer, &path);
            }
        }
    }
    for path in [
        "/workflow-executions".to_owned(),
        "/tasks".to_owned(),
        format!("/workflow-executions/{order}/events"),
    ] {
        assert_eq!(world.get(&path).await.status, 200, "{path}");
    }
}

async fn paths(world: World) {
    for (method, path) in ROUTES.iter().filter(|(_, path)| path.contains("{tenant}")) {
        for strange in ["%ff", "%00", "a%2Fb", "..%2f..", "%F0%9F%A6%80", "%27%3B--", "-1"] {
            let tenant = path.replace("{tenant}", strange).replace("{name}", "n").replace("{promise}", "n");
            is_refused(&world.call(&world.admin, method, &tenant, "").await, &tenant);
            let name =
                path.replace("{tenant}", "one").replace("{name}", strange).replace("{promise}", strange);
            let answer = world.call(&world.admin, method, &name, "{}").await;
            assert!(answer.status < 500, "{name}: {answer:?}");
            assert!(answer.status < 300 || answer.body["code"].is_string(), "{name}: {answer:?}");
        }
        let long = path
            .replace("{tenant}", "one")
            .replace("{name}", &"n".repeat(5_000))
            .replace("{promise}", "key:");
        let answer = world.call(&world.admin, method, &long, "{}").await;
        assert!(answer.status < 500, "{long}: {answer:?}");
    }
}

async fn strange_texts(world: World) {
    let zero = "a\u{0}b";
    let starts = [
        json!({ "input": zero }),
        json!({ "taskQueue": zero }),
        json!({ "taskQueue": "" }),
        json!({ "version": zero }),
        json!({ "idempotencyKey": zero }),
        json!({ "labels": { zero: "v" } }),
        json!({ "labels": { "n": zero } }),
        json!({ "prioritySeconds": i64::MAX }),
        json!({ "prioritySeconds": i64::MIN }),
        json!({ "scheduledAt": "-009999-01-01T00:00:00Z" }),
        json!({ "scheduledAt": "9999-12-30T00:00:00Z" }),
        json!({ "executionTimeout": "9999999999999999d" }),
    ];
    for start in starts {
        let answer = world.post("/workflows/order/trigger", &start).await;
        assert!(answer.status < 500, "{start}: {answer:?}");
        assert!(answer.status == 201 || answer.body["code"].is_string(), "{start}: {answer:?}");
    }
    let tasks = [
        json!({ "max_retries": -1 }),
        json!({ "max_retries": i64::MAX }),
        json!({ "queue": zero }),
        json!({ "timeout_ms": -1 }),
        json!({ "total_timeout_ms": i64::MAX }),
        json!({ "heartbeat_timeout_ms": i64::MIN }),
        json!({ "retry_policy": { "initial_ms": 0, "factor": 0.0, "cap_ms": -1 } }),
        json!({ "retry_policy": { "initial_ms": 1, "factor": 1e308, "cap_ms": i64::MAX } }),
        json!({ "scheduled_at": "9999-12-30T00:00:00Z", "priority_seconds": i64::MAX }),
    ];
    for mut task in tasks {
        task["task_type"] = json!("t");
        let answer = world.post("/tasks", &task).await;
        assert!(answer.status < 500, "{task}: {answer:?}");
        assert!(answer.status == 201 || answer.body["code"].is_string(), "{task}: {answer:?}");
    }
    // The listings still work with everything that was accepted.
    world.get("/workflow-executions").await.ok(200);
    world.get("/tasks").await.ok(200);
    world.get("/queues").await.ok(200);
}
