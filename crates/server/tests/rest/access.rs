//! Every route with every caller that may not use it. The routes come from the router's own table.

use std::collections::BTreeSet;

use flovyn_server::rest::ROUTES;
use serde_json::json;
use uuid::Uuid;

use crate::common::{Database, TOKEN};
use crate::world::{FAR, World, text};

/// The routes that a viewer may use.
const READS: &[&str] = &[
    "",
    "/workflows/{name}/status",
    "/workflow-executions",
    "/workflow-executions/by-key/{name}",
    "/workflow-executions/by-key/{name}/state",
    "/workflow-executions/{name}",
    "/workflow-executions/{name}/events",
    "/workflow-executions/{name}/tasks",
    "/workflow-executions/{name}/children",
    "/workflow-executions/{name}/state",
    "/workflow-executions/{name}/stream",
    "/tasks",
    "/tasks/{name}",
    "/tasks/{name}/attempts",
    "/tasks/{name}/logs",
    "/tasks/{name}/stream",
    "/task-executions",
    "/task-executions/{name}",
    "/task-executions/{name}/attempts",
    "/task-executions/{name}/logs",
    "/task-executions/{name}/stream",
    "/activity",
    "/metrics",
    "/workers",
    "/definitions",
    "/queues",
    "/quota",
];

fn below(path: &str) -> Option<&str> {
    path.strip_prefix("/api/tenants/{tenant}")
}

fn reads(method: &str, path: &str) -> bool {
    method == "GET" && (path == "/api/me" || below(path).is_some_and(|path| READS.contains(&path)))
}

/// The path with a tenant and ids filled in.
fn filled(path: &str, tenant: &str, id: &str) -> String {
    path.replace("{tenant}", tenant).replace("{name}", id).replace("{promise}", id)
}

async fn world() -> World {
    World::start(Database::Sqlite).await
}

async fn rows(world: &World) -> String {
    format!("{:?}", world.server.server.api().service().store().snapshot().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_is_what_the_router_answers() {
    let world = world().await;
    let known: BTreeSet<_> = ROUTES.iter().collect();
    assert_eq!(known.len(), ROUTES.len(), "a route is twice in the table");
    let id = Uuid::new_v4().to_string();
    let paths: BTreeSet<&str> = ROUTES.iter().map(|(_, path)| *path).collect();
    for read in READS {
        assert!(paths.contains(format!("/api/tenants/{{tenant}}{read}").as_str()), "{read}");
    }
    for path in paths {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            for path_of in [path.to_owned(), path.replace("/api/tenants/", "/api/orgs/")] {
                let answer = world.http.send(method, &filled(&path_of, "one", &id), &[], "").await;
                if known.contains(&(method, path)) {
                    answer.refused(401, "FLV0080");
                } else if answer.status != 401 {
                    // Literal segments also match the routes with a parameter in their place.
                    answer.refused(405, "FLV0082");
                }
            }
        }
    }
    for path in ["/api", "/api/", "/api/nothing", "/api/tenants/one/nothing", "/api/tenants/one/tasks/x/y/z"]
    {
        let answer = world.call(&world.admin, "GET", path, "").await;
        assert!([404, 405].contains(&answer.status), "{path}: {answer:?}");
        assert!(answer.body["error"].is_string(), "{path}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_credential_nothing_is_told() {
    let world = world().await;
    let id = world.start_order().await;
    let before = rows(&world).await;
    let expired = world.jwt.sign("somebody", &["one"], "admin", 1, 1_000).unwrap();
    let unknown_role = world.jwt.sign("somebody", &["one"], "king", 1, FAR).unwrap();
    let headers: Vec<Option<String>> = vec![
        None,
        Some(String::new()),
        Some("Bearer".into()),
        Some("Bearer ".into()),
        Some("Bearer junk".into()),
        Some("Bearer a.b.c".into()),
        Some("Bearer ..".into()),
        Some(format!("Basic {}", world.admin)),
        Some(world.admin.clone()),
        Some(format!("Bearer {TOKEN}")),
        Some(format!("Bearer {expired}")),
        Some(format!("Bearer {unknown_role}")),
        Some(format!("Bearer {}x", world.admin)),
        Some("Bearer \u{e9}".into()),
    ];
    for (method, path) in ROUTES {
        for header in &headers {
            let given: Vec<(&str, &str)> =
                header.iter().map(|value| ("authorization", value.as_str())).collect();
            let answer = world.http.send(method, &filled(path, "one", &id), &given, "{}").await;
            let body = answer.refused(401, "FLV0080");
            assert_eq!(body["error"], "Missing or invalid authorization token", "{method} {path} {header:?}");
        }
    }
    assert_eq!(rows(&world).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenant_looks_like_none() {
    let world = world().await;
    let id = world.start_order().await;
    let before = rows(&world).await;
    let other = world.token(&["two"], "admin");
    let none = world.token(&[], "server-admin");
    for (method, path) in ROUTES.iter().filter(|(_, path)| below(path).is_some()) {
        for token in [&other, &none] {
            let foreign =
                world.call(token, method, &filled(path, "one", &id), "{}").await.refused(404, "FLV0030");
            let absent =
                world.call(token, method, &filled(path, "zzz", &id), "{}").await.refused(404, "FLV0030");
            assert_eq!(foreign["error"], "Tenant 'one' not found");
            assert_eq!(absent["error"], "Tenant 'zzz' not found");
        }
    }
    assert_eq!(rows(&world).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_reads_and_does_nothing_else() {
    let world = world().await;
    let id = world.start_order().await;
    let before = rows(&world).await;
    let viewer = world.token(&["one"], "viewer");
    for (method, path) in ROUTES {
        if reads(method, path) {
            // The id that the path names may be of another type, but the caller is allowed.
            if !path.ends_with("/stream") {
                let answer = world.call(&viewer, method, &filled(path, "one", &id), "").await;
                assert!([200, 404].contains(&answer.status), "{method} {path}: {answer:?}");
            }
            continue;
        }
        // Whatever the body is, a caller without permission gets no details about it.
        for body in ["", "{}", "nonsense"] {
            world.call(&viewer, method, &filled(path, "one", &id), body).await.refused(403, "FLV0081");
        }
    }
    assert_eq!(rows(&world).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_ids_are_absent_ids() {
    let world = world().await;
    let execution = world.start_order().await;
    let task = text(&world.post("/tasks", &json!({ "task_type": "t" })).await.ok(201)["id"]);
    let token = text(&world.post("/worker-tokens", &json!({ "name": "ci" })).await.ok(201)["id"]);
    let before = rows(&world).await;
    let other = world.token(&["two"], "admin");
    let absent = Uuid::new_v4().to_string();
    let named = ROUTES.iter().filter(|(_, path)| path.contains("{name}") || path.contains("{promise}"));
    // Names of kinds and queues belong to no tenant.
    let named = named.filter(|(_, path)| !path.ends_with("/trigger") && !path.contains("/queues/"));
    for (method, path) in named {
        let body = match path.rsplit('/').next() {
            Some("signal") => r#"{"name":"s"}"#,
            Some("reject") => r#"{"error":"e"}"#,
            _ => "",
        };
        let missing = world.call(&other, method, &filled(path, "two", &absent), body).await;
        assert_eq!(missing.status, 404, "{method} {path}: {missing:?}");
        for id in [&execution, &task, &token] {
            let foreign = world.call(&other, method, &filled(path, "two", id), body).await;
            assert_eq!(foreign.status, 404, "{method} {path}: {foreign:?}");
            assert_eq!(foreign.text.replace(id, ""), missing.text.replace(&absent, ""), "{method} {path}");
        }
    }
    let list = format!("/api/tenants/two/workflow-executions?parentId={execution}");
    assert_eq!(world.call(&other, "GET", &list, "").await.ok(200)["executions"], json!([]));
    assert_eq!(rows(&world).await, before);
}
