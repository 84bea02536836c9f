//! Unknown pages and unreadable input: a page for people, problem details in JSON for programs, never an empty answer.

use crate::http::{Answer, Headers};
use crate::visitor::Visitor;
use crate::world::{World, on_both};

on_both!(
    what_is_no_page_is_told_to_people_and_to_programs,
    a_slash_too_many_leads_to_the_page,
    rest_refuses_in_its_own_words_too,
    what_a_page_would_obey_is_shown_by_its_number,
);

/// Checks for a styled page with the usual headers, the error and its code.
#[track_caller]
fn is_page(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    assert!(answer.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    assert_eq!(answer.headers["cache-control"], "no-store");
    for part in [
        "rel=\"stylesheet\"",
        &format!("<p class=\"lonely-status\">{status}"),
        "<h1>",
        &format!("/{code}.md"),
    ] {
        assert!(answer.text.contains(part), "{part} in {}", answer.text);
    }
    for raw in ["Failed to deserialize", "Cannot parse", "Invalid URL", "Form requests must"] {
        assert!(!answer.text.contains(raw), "{}", answer.text);
    }
}

#[track_caller]
fn is_problem(answer: Answer, status: u16, code: &str) {
    assert_eq!(answer.headers["content-type"], "application/problem+json", "{}", answer.text);
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    assert_eq!(answer.body["status"], status);
    assert_eq!(answer.body["type"], answer.body["link"]);
    answer.refused(status, code);
}

/// Method, path and headers of a request; status and code of the answer.
type Case<'a> = (&'a str, String, Headers<'a>, u16, &'a str);

async fn what_is_no_page_is_told_to_people_and_to_programs(world: World) {
    let visitor = Visitor::admin(&world).await;
    let execution = world.start_order().await;
    let own = format!("/t/one/executions/{execution}");
    let no_form: (&str, &str) = ("content-type", "text/plain");
    let cases: &[Case<'_>] = &[
        ("GET", "/nope".into(), &[], 404, "FLV0082"),
        ("GET", "/nope/".into(), &[], 404, "FLV0082"),
        ("POST", "/nope".into(), &[], 404, "FLV0082"),
        ("GET", "//evil.example/".into(), &[], 404, "FLV0082"),
        ("GET", "/_/nope".into(), &[], 404, "FLV0082"),
        ("GET", "/t".into(), &[], 404, "FLV0082"),
        ("GET", "/t/".into(), &[], 404, "FLV0082"),
        ("POST", "/t/one/queues/".into(), &[], 404, "FLV0082"),
        ("GET", "/t/one/nope".into(), &[], 404, "FLV0082"),
        ("GET", "/t/%ff".into(), &[], 404, "FLV0082"),
        ("GET", "/t/%ff/queues".into(), &[], 404, "FLV0082"),
        ("GET", "/t/one/executions/%ff".into(), &[], 404, "FLV0082"),
        ("POST", "/t/one/executions/%ff/cancel".into(), &[], 404, "FLV0082"),
        ("GET", "/assets/%ff/app.js".into(), &[], 404, "FLV0082"),
        ("GET", format!("{own}/events/abc"), &[], 404, "FLV0082"),
        ("GET", format!("{own}/events/99999999999999999999"), &[], 404, "FLV0082"),
        ("GET", "/t/one/executions?q=a&q=b".into(), &[], 400, "FLV0011"),
        ("GET", "/t/one/tasks?status=A&status=B".into(), &[], 400, "FLV0011"),
        ("GET", "/t/one/audit?actor=a&actor=b".into(), &[], 400, "FLV0011"),
        ("GET", "/login?next=a&next=b".into(), &[], 400, "FLV0011"),
        ("GET", format!("{own}/events?page=x"), &[], 400, "FLV0011"),
        ("GET", format!("{own}/cancel"), &[], 405, "FLV0082"),
        ("GET", "/logout".into(), &[], 405, "FLV0082"),
        ("PUT", "/login".into(), &[], 405, "FLV0082"),
        ("DELETE", own.clone(), &[], 405, "FLV0082"),
        ("POST", "/t/one/executions".into(), &[no_form], 415, "FLV0001"),
        ("POST", "/login".into(), &[no_form], 415, "FLV0001"),
        ("POST", format!("{own}/cancel"), &[], 403, "FLV0081"),
    ];
    for (method, path, headers, status, code) in cases {
        let answer = visitor.send(method, path, headers, String::new()).await;
        is_page(&answer, *status, code);
        if *status == 405 {
            assert!(answer.headers.contains_key("allow"), "{method} {path}");
        }
        for accept in ["*/*", "application/json"] {
            let headers = [*headers, &[("accept", accept)]].concat();
            is_problem(visitor.send(method, path, &headers, String::new()).await, *status, code);
        }
        let by_script = [*headers, &[("x-flovyn-part", "1")]].concat();
        let answer = visitor.send(method, path, &by_script, String::new()).await;
        assert_eq!(answer.headers["content-type"], "application/json", "{path}");
        answer.refused(*status, code);
    }
    let large = "x".repeat((4 << 20) + 1);
    is_page(&visitor.send("POST", "/t/one/executions", &[], large).await, 413, "FLV0020");
    // A visitor who is not signed in gets the same answer for an unknown page.
    is_page(&Visitor::stranger(&world.http).get("/nope").await, 404, "FLV0082");
}

async fn a_slash_too_many_leads_to_the_page(world: World) {
    let visitor = Visitor::admin(&world).await;
    for (given, page) in [
        ("/t/one/", "/t/one"),
        ("/t/one/executions/", "/t/one/executions"),
        ("/t/one/executions//?status=FAILED", "/t/one/executions?status=FAILED"),
        ("/login/", "/login"),
    ] {
        let answer = visitor.get(given).await;
        assert_eq!((answer.status, answer.headers["location"].to_str().unwrap()), (308, page), "{given}");
        visitor.page(page).await;
    }
    for foreign in ["//evil.example/", "//evil.example/t/one/", "/%2F/evil.example/", "/%5Cevil.example/"] {
        let answer = visitor.get(foreign).await;
        assert_eq!((answer.status, answer.headers.get("location")), (404, None), "{foreign}");
    }
    // The page of a new token has the URL of a form. If it is reloaded, the list of tokens is shown.
    let answer = visitor.get("/t/one/access/tokens").await;
    assert_eq!((answer.status, answer.headers["location"].to_str().unwrap()), (303, "/t/one/access"));
}

async fn rest_refuses_in_its_own_words_too(world: World) {
    let bearer = format!("Bearer {}", world.admin);
    for (method, path, status, code) in [
        ("GET", "/api/nope", 404, "FLV0082"),
        ("GET", "/api/tenants/one/", 404, "FLV0082"),
        ("GET", "/api/tenants/%ff/queues", 404, "FLV0082"),
        ("GET", "/api/tenants/one/workflow-executions/%ff", 404, "FLV0082"),
        ("POST", "/api/tenants/one/workflows/%ff/trigger", 404, "FLV0082"),
        ("GET", "/api/docs/%ff", 404, "FLV0082"),
        ("GET", "/api/tenants/one/tasks?queue=a&queue=b", 400, "FLV0011"),
        ("PATCH", "/api/me", 405, "FLV0082"),
    ] {
        // No caller gets a page there, whatever it accepts.
        let headers = [("authorization", bearer.as_str()), ("accept", "text/html")];
        let answer = world.http.send(method, path, &headers, "").await;
        assert_eq!(answer.headers["content-type"], "application/json", "{path}: {}", answer.text);
        answer.refused(status, code);
        let headers = [("authorization", bearer.as_str()), ("accept", "application/problem+json")];
        let answer = world.http.send(method, path, &headers, "").await;
        assert_eq!(answer.headers["content-type"], "application/problem+json", "{path}");
        assert_eq!((answer.status, answer.body["code"].as_str()), (status, Some(code)), "{}", answer.text);
    }
}

async fn what_a_page_would_obey_is_shown_by_its_number(world: World) {
    let visitor = Visitor::admin(&world).await;
    let bearer = format!("Bearer {}", world.admin);
    // U+0000, a terminal escape, and the mark that reverses the text direction.
    let odd = "a%00b%1B%5B31m%E2%80%AEc";
    for path in [
        format!("/t/{odd}"),
        format!("/t/one/executions/{odd}"),
        format!("/t/one/tasks/{odd}"),
        format!("/t/one/executions?status={odd}"),
    ] {
        let answer = visitor.get(&path).await;
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.text);
        let raw = |letter: char| letter == '\u{202e}' || letter.is_control() && letter != '\n';
        assert!(!answer.text.contains(raw), "{path}: {:?}", answer.text);
    }
    let page = visitor.get(&format!("/t/{odd}")).await.text;
    assert!(page.contains(r"a\u{0}b\u{1b}[31m\u{202e}c"), "{page}");
    for path in [format!("/api/tenants/{odd}"), format!("/api/tenants/one/tasks?status={odd}")] {
        let answer = world.http.send("GET", &path, &[("authorization", &bearer)], "").await;
        assert!(answer.status >= 400 && !answer.text.contains('\u{202e}'), "{path}: {}", answer.text);
        let told = answer.body["error"].as_str().unwrap();
        assert!(!told.contains(char::is_control), "{told:?}");
    }
}
