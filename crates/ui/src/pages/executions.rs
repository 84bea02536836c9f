//! Executions: filter, search, pages.

use axum::response::{IntoResponse, Redirect, Response};
use flovyn_rest_types::{Definitions, Execution, Executions};
use maud::{Markup, html};

use super::list::{Chosen, List};
use crate::extract::Query;
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::{self, document, form, times};
use crate::urls::{encode, query};
use crate::visitor::Visitor;

const STATUSES: &[&str] = &["PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"];
/// The value in the URL, the label, and the age.
const SINCE: &[(&str, &str, i64)] = &[
    ("15m", "15 minutes", 15 * 60_000),
    ("1h", "1 hour", 3_600_000),
    ("24h", "24 hours", 86_400_000),
    ("7d", "7 days", 7 * 86_400_000),
];

/// The REST query. `q` is a kind, `key:` and a key, or `name:value` of a label.
fn api(visitor: &Visitor, chosen: &Chosen) -> String {
    let q = chosen.q.trim();
    let (kind, key, label) = match q.strip_prefix("key:") {
        Some(key) => ("", key, ""),
        None if q.contains(':') => ("", "", q),
        None => (q, "", ""),
    };
    let since = SINCE.iter().find(|(name, ..)| *name == chosen.since);
    let after = since.map(|(.., ms)| times::iso(times::now_ms() - ms)).unwrap_or_default();
    let pairs = [
        ("status", chosen.status.as_str()),
        ("kind", kind),
        ("key", key),
        ("label", label),
        ("taskQueue", chosen.queue.trim()),
        ("createdAfter", &after),
        ("cursor", &chosen.cursor),
    ];
    visitor.api("/workflow-executions") + &query(pairs)
}

pub(crate) async fn get(visitor: Visitor, Query(chosen): Query<Chosen>) -> Result<Response, Failure> {
    if is_id(chosen.q.trim()) {
        let path = visitor.page(&format!("/executions/{}", encode(chosen.q.trim())));
        return Ok(Redirect::to(&path).into_response());
    }
    let rest = visitor.rest();
    let (path, definitions) = (api(&visitor, &chosen), visitor.api("/definitions"));
    let (found, definitions) =
        futures::join!(rest.get::<Executions>(&path), rest.get::<Definitions>(&definitions));
    let (found, definitions) = (found?, definitions?);
    let list = List { visitor: &visitor, place: "/executions", chosen: &chosen };
    let body = html! {
        div.head {
            h1 { "Executions" }
            @if visitor.may_operate() { (form::opener("start", "Start workflow", "primary")) }
        }
        (filters(&list, &definitions))
        div data-part="list" data-refresh="2000" { (list_or_nothing(&list, &found)) }
        @if visitor.may_operate() { (start_dialog(&visitor, &definitions)) }
    };
    Ok(page(&visitor, Page { title: "Executions", place: "/executions", body }).into_response())
}

/// Whether the text looks like an id: 32 hexadecimal digits, with or without hyphens.
fn is_id(text: &str) -> bool {
    let digits = text.bytes().filter(|byte| *byte != b'-');
    text.len() <= 36 && digits.clone().count() == 32 && digits.clone().all(|byte| byte.is_ascii_hexdigit())
}

fn filters(list: &List<'_>, definitions: &Definitions) -> Markup {
    let search = html! {
        input.search type="search" name="q" value=(list.chosen.q) list="kinds" data-search autocomplete="off"
            placeholder="Kind, id, key:name or label:value" aria-label="Search executions";
        (form::suggestions("kinds", &definitions.workflows))
    };
    let since = html! {
        select name="since" aria-label="Created within" data-submit {
            option value="" { "Any time" }
            @for (name, label, _) in SINCE {
                option value=(name) selected[*name == list.chosen.since] { "Last " (label) }
            }
        }
    };
    list.filters(search, since, STATUSES)
}

fn list_or_nothing(list: &List<'_>, found: &Executions) -> Markup {
    if !found.executions.is_empty() {
        return html! { (table(list.visitor, &found.executions)) (list.pages(found.next_cursor.as_ref())) };
    }
    if !list.chosen.is_nothing() {
        return list.nothing_matches(
            "Kinds, keys and queues must match exactly. Write key:name for a key, name:value for a label.",
        );
    }
    let about = "An execution is one run of a workflow. Start one with the button above, or from a terminal; it waits \
                 until a worker supports its kind.";
    empty("No executions yet", about, Some("flovyn workflow start hello"))
}

pub(crate) fn table(visitor: &Visitor, rows: &[Execution]) -> Markup {
    html! {
        div.scroll {
            table.rows data-rows {
                thead {
                    tr {
                        th { "Status" } th { "Kind" } th.wide-only { "Execution" } th.wide-only { "Queue" } th { "Created" }
                        th.right { "Took" } th.right.wide-only { "Events" }
                    }
                }
                tbody { @for row in rows { (one_row(visitor, row)) } }
            }
        }
    }
}

fn one_row(visitor: &Visitor, row: &Execution) -> Markup {
    let took = times::between(row.created_ms, row.finished_ms);
    html! {
        tr {
            td { (parts::status(&row.status)) @if row.cancel_requested && !row.has_ended() { " " span.tag { "cancelling" } } }
            td { a.row-link href=(visitor.page(&format!("/executions/{}", row.id))) { (document::name(&row.kind)) } }
            td.wide-only { (parts::id(&row.id)) }
            td.wide-only { code { (document::name(&row.task_queue)) } }
            td { (times::moment(row.created_ms)) }
            td.right.figures { (times::duration(took)) }
            td.right.figures.wide-only { (parts::number(row.last_sequence)) }
        }
    }
}

fn start_dialog(visitor: &Visitor, definitions: &Definitions) -> Markup {
    let fields = html! {
        label.field {
            span { "Kind" }
            input type="text" name="kind" list="kinds" required autofocus autocomplete="off" spellcheck="false";
        }
        (form::json("input", "Input (JSON)", "{}"))
        div.field-row {
            (form::field("task_queue", "Queue", "default", false))
            (form::field("idempotency_key", "Idempotency key", "none", false))
        }
        (form::field("labels", "Labels", "name:value, name:value", false))
        @if definitions.workflows.is_empty() {
            p.muted { "No worker has registered a workflow yet. You can still start one; it waits for a worker." }
        }
    };
    form::dialog(visitor, "start", "Start a workflow", &visitor.page("/executions"), "Start", fields)
}

#[cfg(test)]
mod tests {
    use super::is_id;

    #[test]
    fn ids_are_told_from_kinds() {
        assert!(is_id("0198f3a2-7c1e-7b7e-9d3a-5b1c7a9e0001"));
        assert!(is_id("0198f3a27c1e7b7e9d3a5b1c7a9e0001"));
        for other in ["", "order", "0198f3a2", "0198f3a2-7c1e-7b7e-9d3a-5b1c7a9e000g", "----"] {
            assert!(!is_id(other), "{other}");
        }
    }
}
