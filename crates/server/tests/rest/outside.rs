//! Every path outside of the tenants' REST API, with its permitted callers. The paths come from the routers' own
//! tables.

use std::collections::BTreeSet;
use std::path::Path;

use flovyn_server::config::{Metrics, MetricsAccess};
use flovyn_server::{http, rest};
use uuid::Uuid;

use crate::common::{Database, OTHER_TENANT, TENANT, TOKEN};
use crate::http::Answer;
use crate::world::World;

const SCRAPE_TOKEN: &str = "scrape-0123456789abcdef0123456789abcdef";

/// Who may see the content of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Any caller, without a credential: it shows nothing of any tenant.
    ByAnybody,
    /// Operators of the server.
    ByServerAdmins,
    /// No caller: the path exists only with a virtual clock, and then needs the role operator.
    OnVirtualClock,
    /// A page for any signed-in visitor. REST decides which tenants' data it shows.
    SignedIn,
    /// A page or a form of a tenant, for the users of that tenant.
    ByTenant,
}

use Seen::{ByAnybody, ByServerAdmins, ByTenant, OnVirtualClock, SignedIn};

const TABLE: &[(&str, &str, Seen)] = &[
    ("GET", "/_/health", ByAnybody),
    ("GET", "/_/health/live", ByAnybody),
    ("GET", "/_/health/ready", ByAnybody),
    ("GET", "/_/metrics", ByServerAdmins),
    ("POST", "/_/clock/advance", OnVirtualClock),
    // On a loopback address. For other addresses see `docs::where_it_is_not_public_it_takes_a_credential`.
    ("GET", "/api/docs", ByAnybody),
    ("GET", "/api/docs/", ByAnybody),
    ("GET", "/api/docs/openapi.json", ByAnybody),
    ("GET", "/api/docs/{file}", ByAnybody),
    ("GET", "/", SignedIn),
    ("GET", "/login", ByAnybody),
    ("POST", "/login", ByAnybody),
    ("POST", "/logout", ByAnybody),
    ("POST", "/tenants", SignedIn),
    ("GET", "/assets/{hash}/{name}", ByAnybody),
    ("GET", "/t/{tenant}", ByTenant),
    ("GET", "/t/{tenant}/executions", ByTenant),
    ("POST", "/t/{tenant}/executions", ByTenant),
    ("GET", "/t/{tenant}/executions/{name}", ByTenant),
    ("GET", "/t/{tenant}/executions/{name}/events", ByTenant),
    ("GET", "/t/{tenant}/executions/{name}/events/{sequence}", ByTenant),
    ("GET", "/t/{tenant}/executions/{name}/children", ByTenant),
    ("GET", "/t/{tenant}/executions/{name}/live", ByTenant),
    ("GET", "/t/{tenant}/executions/{name}/raw/{part}", ByTenant),
    ("GET", "/t/{tenant}/executions/{name}/tasks/{task}", ByTenant),
    ("POST", "/t/{tenant}/executions/{name}/cancel", ByTenant),
    ("POST", "/t/{tenant}/executions/{name}/terminate", ByTenant),
    ("POST", "/t/{tenant}/executions/{name}/release", ByTenant),
    ("POST", "/t/{tenant}/executions/{name}/signal", ByTenant),
    ("POST", "/t/{tenant}/executions/{name}/retry", ByTenant),
    ("POST", "/t/{tenant}/executions/{name}/promises/{promise}/resolve", ByTenant),
    ("POST", "/t/{tenant}/executions/{name}/promises/{promise}/reject", ByTenant),
    ("GET", "/t/{tenant}/tasks", ByTenant),
    ("POST", "/t/{tenant}/tasks", ByTenant),
    ("GET", "/t/{tenant}/tasks/{task}", ByTenant),
    ("GET", "/t/{tenant}/tasks/{task}/live", ByTenant),
    ("POST", "/t/{tenant}/tasks/{task}/retry", ByTenant),
    ("POST", "/t/{tenant}/tasks/{task}/cancel", ByTenant),
    ("GET", "/t/{tenant}/queues", ByTenant),
    ("POST", "/t/{tenant}/queues/{name}/pause", ByTenant),
    ("POST", "/t/{tenant}/queues/{name}/resume", ByTenant),
    ("GET", "/t/{tenant}/workers", ByTenant),
    ("GET", "/t/{tenant}/access", ByTenant),
    ("GET", "/t/{tenant}/access/tokens", ByTenant),
    ("POST", "/t/{tenant}/access/tokens", ByTenant),
    ("POST", "/t/{tenant}/access/tokens/{name}/revoke", ByTenant),
    ("GET", "/t/{tenant}/audit", ByTenant),
];

/// The files that may add paths to a router.
const ROUTERS: &[&str] = &["http/mod.rs", "rest/docs.rs", "rest/mod.rs", "routes.rs", "src/lib.rs"];

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_path_says_who_may_see_it() {
    let known: BTreeSet<(&str, &str)> = TABLE.iter().map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(known.len(), TABLE.len(), "a path is twice in the table");
    let tables = [http::ROUTES, rest::DOCS_ROUTES, flovyn_ui::ROUTES];
    let routes: BTreeSet<(&str, &str)> = tables.iter().flat_map(|table| table.iter().copied()).collect();
    assert_eq!(known, routes, "put each route into the table, with who may see it");
    // A path that is in no table of routes would not be checked here.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("../ui/src"), &mut files);
    for (path, text) in files.iter().filter(|(path, _)| !ROUTERS.iter().any(|known| path.ends_with(known))) {
        for part in [".route(", ".nest(", ".nest_service(", ".route_service("] {
            assert!(!text.contains(part), "{path} has {part}: put the path into a table of routes");
        }
    }
}

async fn world(access: MetricsAccess) -> World {
    let token = (access != MetricsAccess::Off).then(|| SCRAPE_TOKEN.to_owned());
    World::start_with(Database::Sqlite, |config| {
        config.metrics = Metrics { access, token, token_file: None };
    })
    .await
}

fn filled(path: &str, tenant: &str) -> String {
    let id = Uuid::new_v4().to_string();
    let path = path.replace("{tenant}", tenant).replace("{sequence}", "1").replace("{part}", "input");
    path.replace("{name}", &id).replace("{task}", &id).replace("{promise}", &id).replace("{file}", "x.js")
}

/// Sends the credential in a header, and as a session of the pages.
async fn ask(world: &World, credential: Option<&str>, method: &str, path: &str) -> Answer {
    let bearer = credential.map(|credential| format!("Bearer {credential}"));
    let cookie = credential.map(|credential| format!("flovyn_session={}~{credential}", "0".repeat(32)));
    let mut headers = vec![("content-type", "application/x-www-form-urlencoded"), ("accept", "text/html")];
    headers.extend(bearer.as_deref().map(|value| ("authorization", value)));
    headers.extend(cookie.as_deref().map(|value| ("cookie", value)));
    world.http.send(method, path, &headers, "").await
}

fn leads_to_login(answer: &Answer) -> bool {
    answer.status == 303 && answer.headers["location"].to_str().unwrap().starts_with("/login")
}

/// Which of these callers may: a user of tenant one, any known user, an operator of the server.
#[derive(Debug, Clone, Copy)]
struct Asker {
    of_one: bool,
    known: bool,
    runs_server: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn each_path_is_seen_by_those_alone() {
    let world = world(MetricsAccess::Token).await;
    world.start_order().await;
    let asker = |of_one, known, runs_server| Asker { of_one, known, runs_server };
    let askers = [
        (None, asker(false, false, false)),
        (Some("nonsense".to_owned()), asker(false, false, false)),
        (Some(TOKEN.to_owned()), asker(false, false, false)),
        (Some(world.token(&["one"], "viewer")), asker(true, true, false)),
        (Some(world.token(&["one"], "operator")), asker(true, true, false)),
        (Some(world.token(&["one"], "admin")), asker(true, true, false)),
        (Some(world.token(&["*"], "admin")), asker(true, true, false)),
        (Some(world.token(&["two"], "admin")), asker(false, true, false)),
        (Some(world.token(&[], "server-admin")), asker(false, true, true)),
        (Some(SCRAPE_TOKEN.to_owned()), asker(false, false, true)),
    ];
    for (method, path, seen) in TABLE {
        for (credential, who) in &askers {
            let answer = ask(&world, credential.as_deref(), method, &filled(path, "one")).await;
            let about = format!("{method} {path} {who:?} {credential:?}: {answer:?}");
            assert_eq!(answer.headers["x-frame-options"], "DENY", "{about}");
            match seen {
                // Forms: one answers with a page that this is not a credential, the other needs the token of the
                // session.
                ByAnybody if ["/login", "/logout"].contains(path) => assert!(answer.status < 500, "{about}"),
                ByAnybody => {
                    assert!(![401, 403].contains(&answer.status) && !leads_to_login(&answer), "{about}")
                }
                ByServerAdmins if who.runs_server => assert_eq!(answer.status, 200, "{about}"),
                ByServerAdmins => assert!([401, 403].contains(&answer.status), "{about}"),
                OnVirtualClock => assert_eq!(answer.status, 404, "{about}"),
                SignedIn => assert_eq!(leads_to_login(&answer), !who.known, "{about}"),
                ByTenant if who.of_one => assert!(!leads_to_login(&answer), "{about}"),
                ByTenant if who.known => assert!([403, 404].contains(&answer.status), "{about}"),
                ByTenant => assert!(leads_to_login(&answer), "{about}"),
            }
            let own = matches!(seen, ByServerAdmins if who.runs_server) || who.of_one;
            assert!(own || !answer.text.contains(&TENANT.to_string()), "{about}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_read_the_metrics_is_told_where_its_own_are() {
    let world = world(MetricsAccess::Token).await;
    let admin = world.call(&world.admin, "GET", "/_/metrics", "").await;
    assert_eq!((admin.status, admin.body["code"].as_str()), (403, Some("FLV0081")), "{admin:?}");
    assert!(admin.body["message"].as_str().unwrap().contains("/api/tenants/{tenant}/metrics"), "{admin:?}");
    assert_eq!(world.http.send("GET", "/_/metrics", &[], "").await.status, 401);
    // The scrape token reads the metrics and allows nothing else.
    assert_eq!(world.call(SCRAPE_TOKEN, "GET", "/_/metrics", "").await.status, 200);
    world.call(SCRAPE_TOKEN, "GET", "/api/me", "").await.refused(401, "FLV0080");
    world.call(SCRAPE_TOKEN, "GET", "/api/tenants/one/metrics", "").await.refused(401, "FLV0080");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_that_are_off_are_not_there() {
    let world = world(MetricsAccess::Off).await;
    let root = world.token(&["*"], "server-admin");
    for token in [root.as_str(), SCRAPE_TOKEN] {
        assert_eq!(world.call(token, "GET", "/_/metrics", "").await.status, 404);
    }
    // The tenant's own metrics stay available.
    assert_eq!(world.get("/metrics").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_on_this_machine_read_metrics_if_that_is_set() {
    let world = world(MetricsAccess::Loopback).await;
    let status =
        async |headers: &[(&str, &str)]| world.http.send("GET", "/_/metrics", headers, "").await.status;
    assert_eq!(status(&[]).await, 200);
    // Requests that a proxy on this machine forwards, or that a browser sends for foreign pages.
    for header in [
        ("x-forwarded-for", "192.0.2.1"),
        ("forwarded", "for=192.0.2.1"),
        ("host", "evil.example"),
        ("origin", "https://evil.example"),
    ] {
        assert_eq!(status(&[header]).await, 401, "{header:?}");
    }
    assert_eq!(status(&[("x-forwarded-for", "192.0.2.1"), ("authorization", "Bearer nonsense")]).await, 401);
    let scraper = format!("Bearer {SCRAPE_TOKEN}");
    assert_eq!(status(&[("x-forwarded-for", "192.0.2.1"), ("authorization", &scraper)]).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_reads_its_own_figures_and_no_others() {
    let world = world(MetricsAccess::Token).await;
    world.start_order().await;
    let two = world.token(&["two"], "operator");
    // A user-chosen name that looks like another tenant's label.
    let kind = format!("x%22,tenant_id=%22{TENANT}%22");
    world.call(&two, "POST", &format!("/api/tenants/two/workflows/{kind}/trigger"), "{}").await.ok(201);
    let of = async |token: &str, tenant: &str| {
        world.call(token, "GET", &format!("/api/tenants/{tenant}/metrics"), "").await
    };
    let viewer = world.token(&["one"], "viewer");
    let own = of(&viewer, "one").await;
    assert_eq!(
        (own.status, own.headers["content-type"].to_str().unwrap()),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    for series in
        ["flovyn_workflow_started_total", "flovyn_queue_depth", "flovyn_rest_workflow_triggered_total"]
    {
        assert!(own.text.contains(&format!("{series}{{tenant_id=\"{TENANT}\"")), "{series}: {}", own.text);
        assert!(own.text.contains(&format!("# HELP {series} ")), "{}", own.text);
    }
    let series = own.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in series {
        assert!(line.contains(&format!("{{tenant_id=\"{TENANT}\"")), "{line}");
    }
    assert!(!own.text.contains(&OTHER_TENANT.to_string()) && !own.text.contains("x\\\""), "{}", own.text);
    assert!(of(&two, "two").await.text.contains("x\\\",tenant_id="));
    of(&two, "one").await.refused(404, "FLV0030");
}
