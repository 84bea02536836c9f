//! The documentation inside the server, and who may read it.

use crate::common::Database;
use crate::world::World;

const PAGES: &[(&str, &str)] = &[
    ("/api/docs/", "<title>Swagger UI"),
    ("/api/docs/index.html", "<title>Swagger UI"),
    ("/api/docs/swagger-initializer.js", "/api/docs/openapi.json"),
    ("/api/docs/swagger-ui.css", ".swagger-ui"),
    ("/api/docs/swagger-ui-bundle.js", "SwaggerUIBundle"),
    ("/api/docs/openapi.json", "TriggerWorkflowRequest"),
];

#[tokio::test(flavor = "multi_thread")]
async fn on_this_machine_anybody_may_read_it() {
    let world = World::start(Database::Sqlite).await;
    for (path, part) in PAGES {
        let answer = world.http.send("GET", path, &[], "").await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.headers["x-frame-options"], "DENY", "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(answer.text.contains(part), "{path}");
        assert!(!answer.text.contains("https://unpkg"), "{path}");
    }
    let answer = world.http.send("GET", "/api/docs/openapi.json", &[], "").await;
    assert_eq!(answer.body, flovyn_server::rest::openapi::document());
    let script = world.http.send("GET", "/api/docs/swagger-initializer.js", &[], "").await.text;
    assert!(script.contains(r#""validatorUrl": "none""#), "{script}");
    assert_eq!(world.http.send("GET", "/api/docs", &[], "").await.status, 308);
    // No page of another site may embed any answer of this server.
    for path in
        ["/api/docs", "/api/docs/nothing.js", "/api/me", "/_/health", "/_/metrics", "/login", "/nowhere"]
    {
        let answer = world.http.send("GET", path, &[], "").await;
        assert_eq!(answer.headers["x-frame-options"], "DENY", "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
    for path in ["/api/docs/nothing.js", "/api/docs/..%2fsecret"] {
        world.http.send("GET", path, &[], "").await.refused(404, "FLV0082");
    }
    world.http.send("POST", "/api/docs/openapi.json", &[], "").await.refused(405, "FLV0082");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_it_is_not_public_it_takes_a_credential() {
    let world = World::start_with(Database::Sqlite, |config| config.docs.public = Some(false)).await;
    let viewer = world.token(&["one"], "viewer");
    for (path, part) in PAGES {
        world.http.send("GET", path, &[], "").await.refused(401, "FLV0080");
        world.call("nonsense", "GET", path, "").await.refused(401, "FLV0080");
        let answer = world.call(&viewer, "GET", path, "").await;
        assert!(answer.status == 200 && answer.text.contains(part), "{path}: {}", answer.status);
    }
}
