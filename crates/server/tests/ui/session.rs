//! Sign in, sign out, and requests without a session.

use flovyn_server::{Server, ServerOptions};

use crate::common::TOKEN;
use crate::http::Http;
use crate::visitor::{PAGES, Visitor, cookie};
use crate::world::{FAR, World, on_both};

on_both!(
    the_session_is_kept_from_scripts_and_other_sites,
    wrong_credentials_get_no_session,
    without_a_session_every_page_leads_to_signing_in,
    signing_in_leads_nowhere_else,
    the_start_is_the_first_tenant_of_the_credential,
    signing_out_ends_it,
    who_follows_a_link_on_another_site_is_asked_once_more,
    what_is_sent_after_the_end_is_not_done_and_leads_back_to_its_page,
    scripts_are_told_in_json_that_the_session_has_ended,
    a_local_server_opens_signed_in,
);

async fn the_session_is_kept_from_scripts_and_other_sites(world: World) {
    let stranger = Visitor::stranger(&world.http);
    let answer = stranger.post("/login", &[("credential", &world.admin), ("next", "/t/one/queues")]).await;
    assert_eq!((answer.status, &answer.headers["location"]), (303, &"/t/one/queues".parse().unwrap()));
    let line = answer.headers["set-cookie"].to_str().unwrap();
    for attribute in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(line.contains(attribute), "{line}");
    }
    assert!(!line.contains("Secure"), "the browser could not send it over plain HTTP: {line}");
    let behind_a_proxy = &[("x-forwarded-proto", "https")];
    let answer = stranger.post_with("/login", &[("credential", &world.admin)], behind_a_proxy).await;
    assert!(answer.headers["set-cookie"].to_str().unwrap().ends_with("; Secure"));
}

async fn wrong_credentials_get_no_session(world: World) {
    let stranger = Visitor::stranger(&world.http);
    let expired = world.jwt.sign("somebody", &["one"], "admin", 1, 1_000).unwrap();
    let long = "x".repeat(10_000);
    for wrong in ["", "junk", "a.b.c", TOKEN, &expired, "two words", "semi;colon", "é", &long] {
        let answer = stranger.post("/login", &[("credential", wrong)]).await;
        assert_eq!(answer.status, 401, "{wrong}: {}", answer.text);
        assert_eq!(cookie(&answer.headers), None, "{wrong}");
        assert!(answer.text.contains("role=\"alert\""), "{wrong}");
        assert!(wrong.len() < 3 || !answer.text.contains(wrong), "the typed text is not sent back: {wrong}");
    }
}

async fn without_a_session_every_page_leads_to_signing_in(world: World) {
    let expired = world.jwt.sign("somebody", &["one"], "admin", 1, 1_000).unwrap();
    let forged = format!("flovyn_session={}~{expired}", "0".repeat(32));
    let cookies = ["", "flovyn_session=junk", "flovyn_session=none", &forged];
    for cookie in cookies {
        let visitor = Visitor { cookie: cookie.to_owned(), ..Visitor::stranger(&world.http) };
        for page in PAGES {
            let answer = visitor.get(&format!("{page}?q=a%26b")).await;
            assert_eq!(answer.status, 303, "{page} {cookie}");
            let location = answer.headers["location"].to_str().unwrap();
            assert_eq!(
                location,
                format!(
                    "/login?next={}",
                    format!("{page}?q=a%26b")
                        .replace('%', "%25")
                        .replace('/', "%2F")
                        .replace('?', "%3F")
                        .replace('=', "%3D")
                )
            );
        }
        assert_eq!(visitor.get("/").await.headers["location"], "/login");
        assert_eq!(visitor.get("/login").await.status, 200);
    }
}

async fn signing_in_leads_nowhere_else(world: World) {
    let stranger = Visitor::stranger(&world.http);
    for elsewhere in
        ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "evil"]
    {
        let answer = stranger.post("/login", &[("credential", &world.admin), ("next", elsewhere)]).await;
        assert_eq!(answer.headers["location"], "/", "{elsewhere}");
    }
}

async fn the_start_is_the_first_tenant_of_the_credential(world: World) {
    let visitor = Visitor::with(&world, &world.token(&["gone", "two"], "viewer")).await;
    assert_eq!(visitor.get("/").await.headers["location"], "/t/two");
    let nobody = Visitor::with(&world, &world.token(&["gone"], "viewer")).await;
    assert!(nobody.page("/").await.contains("No tenant"));
    let everybody = Visitor::with(&world, &world.token(&["*"], "server-admin")).await;
    assert_eq!(everybody.get("/").await.headers["location"], "/t/one");
    assert!(everybody.page("/t/two").await.contains("/t/one"), "the other tenant is offered");
}

async fn signing_out_ends_it(world: World) {
    let visitor = Visitor::admin(&world).await;
    assert_eq!(
        visitor.post("/logout", &[]).await.status,
        403,
        "a request without the form's token is refused"
    );
    let answer = visitor.fill("/logout", &[]).await;
    assert_eq!((answer.status, cookie(&answer.headers).as_deref()), (303, Some("flovyn_session=none")));
}

async fn who_follows_a_link_on_another_site_is_asked_once_more(world: World) {
    let visitor = Visitor::stranger(&world.http);
    let by_link = &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    let answer = world.http.send("GET", "/t/one", by_link, "").await;
    assert_eq!(answer.status, 200);
    assert!(answer.text.contains("http-equiv=\"refresh\""), "{}", answer.text);
    assert_eq!(visitor.get("/t/one").await.status, 303, "then the visitor must sign in");
}

/// A visitor whose session ended while a form was filled in.
async fn ended(world: &World) -> Visitor {
    let expired = world.jwt.sign("somebody", &["one"], "admin", 1, 1_000).unwrap();
    let cookie = format!("flovyn_session={}~{expired}", "0".repeat(32));
    Visitor { cookie, ..Visitor::stranger(&world.http) }
}

async fn what_is_sent_after_the_end_is_not_done_and_leads_back_to_its_page(world: World) {
    let (visitor, host) = (ended(&world).await, world.server.server.http_addr());
    let execution = world.start_order().await;
    let action = format!("/t/one/executions/{execution}/terminate");
    let pages = [
        (
            format!("http://{host}/t/one/executions/{execution}?a=b"),
            format!("/t/one/executions/{execution}?a=b"),
        ),
        ("http://evil.example/t/one".into(), "/".into()),
        (format!("http://{host}/login?next=x"), "/".into()),
        (format!("http://{host}//evil.example/t/one"), "/".into()),
    ];
    for (referer, page) in pages {
        let answer = visitor.post_with(&action, &[("reason", "x")], &[("referer", &referer)]).await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        let login = answer.headers["location"].to_str().unwrap().to_owned();
        assert!(login.starts_with("/login?") && login.ends_with("undone=1"), "{login}");
        let form = visitor.page(&login).await;
        assert!(form.contains("was not processed") && form.contains("role=\"alert\""), "{form}");
        let (_, next) = form.split_once("name=\"next\" value=\"").unwrap();
        let next = next.split('"').next().unwrap().to_owned();
        let fields = [("credential", "junk"), ("next", next.as_str()), ("undone", "1")];
        assert!(visitor.post("/login", &fields).await.text.contains("was not processed"), "the notice stays");
        let fields = [("credential", world.admin.as_str()), ("next", next.as_str()), ("undone", "1")];
        let signed_in = visitor.post("/login", &fields).await;
        let back = signed_in.headers["location"].to_str().unwrap();
        assert_eq!(back, page, "{referer}");
        let again = Visitor { cookie: cookie(&signed_in.headers).unwrap(), ..visitor.clone() };
        assert!([200, 303].contains(&again.get(back).await.status), "{back} is a page");
    }
    let row = world.get(&format!("/workflow-executions/{execution}")).await.ok(200);
    assert_eq!(row["status"], "PENDING", "nothing was changed");
    assert!(!visitor.page("/login").await.contains("was not processed"));
}

async fn scripts_are_told_in_json_that_the_session_has_ended(world: World) {
    let visitor = ended(&world).await;
    let execution = world.start_order().await;
    let own = format!("/t/one/executions/{execution}");
    let by_script = &[("x-flovyn-part", "1"), ("accept", "*/*")];
    for (method, path) in [("POST", format!("{own}/cancel")), ("GET", format!("{own}/events/1"))] {
        let answer = visitor.send(method, &path, by_script, String::new()).await;
        assert_eq!(answer.headers["content-type"], "application/json", "{path}");
        assert!(!answer.headers.contains_key("location"), "{path}");
        answer.refused(401, "FLV0080");
    }
    let program = visitor.send("POST", &format!("{own}/cancel"), &[("accept", "*/*")], String::new()).await;
    assert_eq!(program.headers["content-type"], "application/problem+json");
    program.refused(401, "FLV0080");
    // GET requests of any client are redirected to the sign-in page, which scripts follow.
    let answer = visitor.send("GET", &own, &[("accept", "*/*")], String::new()).await;
    assert_eq!(answer.status, 303);
}

/// A development server accepts every visitor on this machine, and no other.
async fn a_local_server_opens_signed_in(world: World) {
    let admin = world.jwt.sign("dev", &["one"], "admin", 1, FAR).unwrap();
    let start = async |local_only| {
        let folder = tempfile::tempdir().unwrap();
        let mut config = world.server.config.clone();
        config.database_url.0 = format!("sqlite:{}", folder.path().join("flovyn.db").display());
        let options =
            ServerOptions { local_only, ui_credential: Some(admin.clone()), ..ServerOptions::new(config) };
        (Server::start(options).await.unwrap(), folder)
    };
    let (server, _folder) = start(true).await;
    let http = Http::new(server.http_addr());
    let mut visitor = Visitor::stranger(&http);
    let answer = visitor.get("/t/one").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    visitor.cookie = cookie(&answer.headers).expect("a session");
    assert!(visitor.page("/t/one").await.contains("dev"));
    // Its own session is kept, and forms need its token.
    assert_eq!(cookie(&visitor.get("/t/one").await.headers), None);
    assert_eq!(visitor.post("/t/one/queues/default/pause", &[]).await.status, 403);
    // A session of another server on this machine is invalid here and is replaced.
    let strange = format!("flovyn_session={}~of.another.server", "0".repeat(32));
    visitor.cookie = strange.clone();
    let answer = visitor.get("/t/one/tasks").await;
    assert!(answer.status == 200 && answer.text.contains("http-equiv=\"refresh\""), "{}", answer.text);
    visitor.cookie = cookie(&answer.headers).expect("a session");
    assert!(visitor.page("/t/one/tasks").await.contains("dev"));
    // A visitor who has signed out stays signed out until it signs in again.
    visitor.cookie = "flovyn_session=none".into();
    assert_eq!(visitor.get("/t/one").await.status, 303);
    let answer = visitor.post("/login", &[("own", "1")]).await;
    assert_eq!(answer.status, 303);
    // A page of another host gets nothing.
    let foreign = http.send("GET", "/t/one", &[("host", "evil.example")], "").await;
    assert_eq!((foreign.status, cookie(&foreign.headers)), (403, None));
    server.stop().await;
    // A server that others can reach ignores the option.
    let (server, _folder) = start(false).await;
    let visitor = Visitor::stranger(&Http::new(server.http_addr()));
    assert_eq!(visitor.get("/t/one").await.status, 303);
    assert_eq!(visitor.post("/login", &[("own", "1")]).await.status, 401);
    assert_eq!(Visitor { cookie: strange, ..visitor }.get("/t/one").await.status, 303);
    server.stop().await;
}
