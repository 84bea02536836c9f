//! Names and payloads of workers are shown as text on every page and in every stream.

use serde_json::Value;

use crate::set_up::hostile::Hostile;
use crate::visitor::Visitor;
use crate::world::{World, on_both};

on_both!(what_workers_say_is_text_on_every_page, what_workers_stream_stays_within_its_event,);

/// A page without the content of its copy buttons, which is the text exactly as it was sent.
fn shown(page: &str) -> String {
    let mut parts = page.split(" data-copy=\"");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + part.split_once('"').unwrap().1)
}

async fn what_workers_say_is_text_on_every_page(world: World) {
    let hostile = Hostile::start(&world).await;
    let visitor = Visitor::admin(&world).await;
    let own = format!("/t/one/executions/{}", hostile.execution);
    let failed = format!("/t/one/executions/{}", hostile.failed);
    // What each page must show, as text.
    let mut pages: Vec<(String, &[&str])> = vec![
        ("/t/one".into(), &["kind"]),
        ("/t/one/executions".into(), &["kind", "queue"]),
        (own.clone(), &["kind", "queue", "type", "promise", "state", "value", "child", "timer"]),
        (failed.clone(), &["error", "frame"]),
        (format!("{own}/events?page=0"), &["type", "promise", "child", "timer"]),
        (format!("{own}/children"), &["childkind"]),
        (
            format!("{own}/tasks/{}", hostile.task),
            &["type", "queue", "error", "frame", "progress", "line", "worker"],
        ),
        ("/t/one/tasks".into(), &["type", "error"]),
        (format!("/t/one/tasks/{}", hostile.alone), &["type", "queue", "error", "frame", "worker"]),
        ("/t/one/queues".into(), &["queue"]),
        ("/t/one/workers".into(), &["worker", "queue", "build", "host", "process", "kind", "type"]),
        ("/t/one/audit".into(), &[]),
    ];
    pages.extend((1..=6).map(|sequence| (format!("{own}/events/{sequence}"), &[][..])));
    for (path, words) in pages {
        let page = visitor.page(&path).await;
        for markup in ["<script>", "<img", "</title></code>", "\" onmouseover=\""] {
            assert!(!page.contains(markup), "{path} has {markup}:\n{page}");
        }
        let shown = shown(&page);
        for mark in ['\u{202e}', '\u{2066}', '\u{1b}'] {
            assert!(!shown.contains(mark), "{path} has {mark:?} as it is:\n{shown}");
        }
        for word in words {
            assert!(
                shown.contains(&format!("{word}&lt;/title&gt;")),
                "{path} does not show {word}:\n{shown}"
            );
        }
        assert_eq!(page.matches("<title>").count(), page.matches("</title>").count(), "{path}");
    }
}

async fn what_workers_stream_stays_within_its_event(world: World) {
    let mut hostile = Hostile::start(&world).await;
    let visitor = Visitor::admin(&world).await;
    let headers = [("cookie", visitor.cookie.as_str())];
    let path = format!("/t/one/tasks/{}/live", hostile.task);
    let mut events = world.http.follow(&path, &headers).await;
    let (_, kind, task) = events.next().await.unwrap();
    assert_eq!(kind, "task");
    assert!(task["progress_details"].as_str().unwrap().starts_with("progress</title>"), "{task}");
    hostile.stream().await;
    let datum = loop {
        let (_, kind, data): (i64, String, Value) = events.next().await.unwrap();
        if kind == "data" {
            break data;
        }
        assert_eq!(kind, "task");
    };
    assert!(datum["datum"].as_str().unwrap().starts_with("datum</title>"), "{datum}");
    let answer = visitor.get(&format!("/t/one/executions/{}/live", hostile.failed)).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream", "a browser does not run it");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    for line in answer.text.lines().filter_map(|line| line.strip_prefix("data:")) {
        serde_json::from_str::<Value>(line).unwrap();
    }
}
