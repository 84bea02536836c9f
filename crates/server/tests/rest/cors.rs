//! Pages of other origins: refused unless they are configured.

use flovyn_server::config::Cors;

use crate::common::{Database, TestServer};
use crate::http::{Answer, Http};

const PATH: &str = "/api/tenants/one/workflow-executions";
const PAGE: &str = "https://app.example";

async fn start(cors: Option<Cors>) -> (TestServer, Http) {
    let server = TestServer::start_with(Database::Sqlite, |config| config.http.cors = cors).await;
    let http = Http::new(server.server.http_addr());
    (server, http)
}

fn cors(origins: &[&str], allow_credentials: bool) -> Option<Cors> {
    let allowed_origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
    Some(Cors { allowed_origins, allow_credentials })
}

async fn preflight(http: &Http, path: &str, origin: &str) -> Answer {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,idempotency-key"),
    ];
    http.send("OPTIONS", path, &headers, "").await
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

fn allowed(answer: &Answer) -> Option<&str> {
    header(answer, "access-control-allow-origin")
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_allowed_unless_configured() {
    let (_server, http) = start(None).await;
    let answer = preflight(&http, PATH, PAGE).await;
    assert_eq!((answer.status, allowed(&answer)), (405, None));
    let answer = http.send("GET", PATH, &[("origin", PAGE)], "").await;
    assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn named_origins_are_allowed_and_no_others() {
    let (_server, http) = start(cors(&[PAGE, "http://localhost:5173"], true)).await;
    for origin in [PAGE, "http://localhost:5173"] {
        let answer = preflight(&http, PATH, origin).await;
        assert_eq!((answer.status, allowed(&answer)), (200, Some(origin)));
        assert_eq!(header(&answer, "access-control-allow-credentials"), Some("true"));
        let list = |name| header(&answer, name).unwrap().to_lowercase();
        let (methods, headers) = (list("access-control-allow-methods"), list("access-control-allow-headers"));
        assert!(["get", "post", "delete"].iter().all(|method| methods.contains(method)), "{methods}");
        let wanted = ["authorization", "content-type", "x-api-key", "idempotency-key", "last-event-id"];
        assert!(wanted.iter().all(|header| headers.contains(header)), "{headers}");
        // The page may also read why it was refused, and when to retry.
        let answer = http.send("GET", PATH, &[("origin", origin)], "").await;
        assert_eq!((answer.status, allowed(&answer)), (401, Some(origin)));
        assert_eq!(header(&answer, "access-control-expose-headers"), Some("retry-after"));
        assert!(header(&answer, "vary").unwrap().contains("origin"), "caches must distinguish origins");
    }
    let others = [
        "https://evil.example",
        "https://app.example.evil",
        "http://app.example",
        "https://app.example:444",
        "null",
    ];
    for origin in others {
        assert_eq!(allowed(&preflight(&http, PATH, origin).await), None, "{origin}");
        assert_eq!(allowed(&http.send("GET", PATH, &[("origin", origin)], "").await), None, "{origin}");
    }
    // Only the REST API is available to other origins.
    assert_eq!(allowed(&preflight(&http, "/_/metrics", PAGE).await), None);
    assert_eq!(allowed(&http.send("GET", "/_/health", &[("origin", PAGE)], "").await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_origin_comes_without_credentials() {
    let (_server, http) = start(cors(&["*"], false)).await;
    let answer = preflight(&http, PATH, "https://anybody.example").await;
    assert_eq!((answer.status, allowed(&answer)), (200, Some("*")));
    assert_eq!(header(&answer, "access-control-allow-credentials"), None);
}
