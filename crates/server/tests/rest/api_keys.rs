//! API keys: the same roles and tenants as JWTs, until they expire.

use flovyn_auth::hash_api_key;
use flovyn_server::config::ApiKeyConfig;

use crate::common::{Database, TOKEN, TestServer};
use crate::http::Http;

const START: &str = "/api/tenants/one/workflows/order/trigger";
const READ: &str = "/api/tenants/one/workflow-executions";

fn key(name: &str, tenants: &[&str], role: &str, expires_at: Option<&str>) -> ApiKeyConfig {
    ApiKeyConfig {
        name: name.to_owned(),
        sha256: hash_api_key(&format!("flv_{name}")).iter().map(|byte| format!("{byte:02X}")).collect(),
        tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
        role: role.to_owned(),
        expires_at: expires_at.map(str::to_owned),
    }
}

async fn server(database: Database) -> (TestServer, Http) {
    let server = TestServer::start_with(database, |config| {
        config.auth.api_keys = vec![
            key("viewer", &["one"], "viewer", None),
            key("operator", &["one"], "operator", Some("2096-10-02T07:06:40Z")),
            key("admin", &["one", "two"], "admin", None),
            key("expired", &["one"], "admin", Some("2020-01-01T00:00:00Z")),
            key("root", &["*"], "server-admin", None),
        ];
    })
    .await;
    let http = Http::new(server.server.http_addr());
    (server, http)
}

async fn roles_and_tenants(database: Database) {
    let (_server, http) = server(database).await;
    let cases = [
        ("viewer", 200, 403, 404, 403),
        ("operator", 200, 201, 404, 403),
        ("admin", 200, 201, 200, 403),
        ("root", 200, 201, 200, 201),
        ("expired", 401, 401, 401, 401),
        ("unknown", 401, 401, 401, 401),
    ];
    for (name, reads, starts, reads_other, makes_tenants) in cases {
        let other = READ.replace("/one/", "/two/");
        let calls = [
            ("GET", READ, "", reads),
            ("POST", START, "{}", starts),
            ("GET", other.as_str(), "", reads_other),
            ("POST", "/api/tenants", r#"{"slug":"new"}"#, makes_tenants),
        ];
        for (method, path, body, expected) in calls {
            let bearer = format!("Bearer flv_{name}");
            let answer = http.send(method, path, &[("authorization", &bearer)], body).await;
            assert_eq!(answer.status, expected, "{name} {method} {path}: {}", answer.text);
            // A tenant that is created twice already exists.
            let expected = if expected == 201 && path == "/api/tenants" { 409 } else { expected };
            let answer = http.send(method, path, &[("x-api-key", &format!("flv_{name}"))], body).await;
            assert_eq!(answer.status, expected, "{name} {method} {path}: {}", answer.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_and_tenants_on_sqlite() {
    roles_and_tenants(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_and_tenants_on_postgres() {
    roles_and_tenants(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_credential_in_its_own_header() {
    let (_server, http) = server(Database::Sqlite).await;
    let (worker, good) = (format!("Bearer {TOKEN}"), "Bearer flv_viewer");
    let hash = key("viewer", &[], "viewer", None).sha256;
    let refused: &[&[(&str, &str)]] = &[
        &[("authorization", good), ("x-api-key", "flv_viewer")],
        &[("x-api-key", "flv_viewer"), ("x-api-key", "flv_viewer")],
        &[("authorization", good), ("authorization", good)],
        &[("x-api-key", "")],
        &[("x-api-key", "viewer")],
        &[("x-api-key", "Bearer flv_viewer")],
        &[("x-api-key", TOKEN)],
        &[("x-api-key", &hash)],
        &[("authorization", "flv_viewer")],
        &[("authorization", "Basic flv_viewer")],
        // A worker token is for gRPC only.
        &[("authorization", &worker)],
    ];
    for headers in refused {
        http.send("GET", READ, headers, "").await.refused(401, "FLV0080");
    }
    assert_eq!(http.send("GET", READ, &[("authorization", good)], "").await.status, 200);
    assert_eq!(http.send("GET", "/_/metrics", &[("x-api-key", "flv_viewer")], "").await.status, 403);
}
