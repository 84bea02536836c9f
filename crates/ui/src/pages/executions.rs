//! Executions: filtered, searched, page by page. Everything that was chosen stands in the address.

use axum::extract::Query;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use crate::answers::{Definitions, Execution, Executions};
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::{self, form, times};
use crate::urls::{encode, query};
use crate::visitor::Visitor;

const STATUSES: &[&str] = &["PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"];
/// Name in the address, name on the page, how long ago.
const SINCE: &[(&str, &str, i64)] = &[
    ("15m", "15 minutes", 15 * 60_000),
    ("1h", "1 hour", 3_600_000),
    ("24h", "24 hours", 86_400_000),
    ("7d", "7 days", 7 * 86_400_000),
];

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(crate) struct Chosen {
    /// An id, a kind, or `name:value` of a label.
    q: String,
    status: String,
    queue: String,
    since: String,
    cursor: String,
}

impl Chosen {
    /// The address with something else chosen; the page is the first one again.
    fn link(&self, visitor: &Visitor, change: impl FnOnce(&mut Self)) -> String {
        let mut chosen = Self { cursor: String::new(), ..self.clone() };
        change(&mut chosen);
        let Self { q, status, queue, since, cursor } = &chosen;
        let pairs = [("q", q), ("status", status), ("queue", queue), ("since", since), ("cursor", cursor)];
        visitor.page("/executions") + &query(pairs.map(|(name, value)| (name, value.as_str())))
    }

    fn is_nothing(&self) -> bool {
        [&self.q, &self.status, &self.queue, &self.since, &self.cursor].iter().all(|text| text.is_empty())
    }

    /// What REST is asked.
    fn api(&self, visitor: &Visitor) -> String {
        let (kind, label) = if self.q.contains(':') { ("", self.q.trim()) } else { (self.q.trim(), "") };
        let since = SINCE.iter().find(|(name, ..)| *name == self.since);
        let after = since.and_then(|(.., ms)| jiff::Timestamp::from_millisecond(times::now_ms() - ms).ok());
        let after = after.map(|time| time.to_string()).unwrap_or_default();
        let pairs = [
            ("status", self.status.as_str()),
            ("kind", kind),
            ("label", label),
            ("taskQueue", &self.queue),
            ("createdAfter", &after),
            ("cursor", &self.cursor),
        ];
        visitor.api("/workflow-executions") + &query(pairs)
    }
}

pub(crate) async fn get(visitor: Visitor, Query(chosen): Query<Chosen>) -> Result<Response, Failure> {
    if is_id(chosen.q.trim()) {
        let path = visitor.page(&format!("/executions/{}", encode(chosen.q.trim())));
        return Ok(Redirect::to(&path).into_response());
    }
    let rest = visitor.rest();
    let (list, definitions) = (chosen.api(&visitor), visitor.api("/definitions"));
    let (found, definitions) =
        futures::join!(rest.get::<Executions>(&list), rest.get::<Definitions>(&definitions));
    let (found, definitions) = (found?, definitions?);
    let body = html! {
        div.head {
            h1 { "Executions" }
            @if visitor.may_operate() { (form::opener("start", "Start workflow", "primary")) }
        }
        (filters(&visitor, &chosen, &definitions))
        div data-part="list" data-refresh="2000" { (list_or_nothing(&visitor, &chosen, &found)) }
        @if visitor.may_operate() { (start_dialog(&visitor, &definitions)) }
    };
    Ok(page(&visitor, Page { title: "Executions", place: "/executions", body }).into_response())
}

/// Whether it looks like an id: 32 digits, with or without dashes.
fn is_id(text: &str) -> bool {
    let digits = text.bytes().filter(|byte| *byte != b'-');
    text.len() <= 36 && digits.clone().count() == 32 && digits.clone().all(|byte| byte.is_ascii_hexdigit())
}

fn filters(visitor: &Visitor, chosen: &Chosen, definitions: &Definitions) -> Markup {
    html! {
        form.filters method="get" action=(visitor.page("/executions")) role="search" {
            input.search type="search" name="q" value=(chosen.q) list="kinds" data-search autocomplete="off"
                placeholder="Kind, id, or label:value" aria-label="Search executions";
            datalist #kinds { @for one in &definitions.workflows { option value=(one.kind) {} } }
            input type="text" name="queue" value=(chosen.queue) placeholder="Queue" aria-label="Queue"
                autocomplete="off";
            select name="since" aria-label="Created within" data-submit {
                option value="" { "Any time" }
                @for (name, label, _) in SINCE {
                    option value=(name) selected[*name == chosen.since] { "Last " (label) }
                }
            }
            @if !chosen.status.is_empty() { input type="hidden" name="status" value=(chosen.status); }
            button.button { "Search" }
        }
        nav.chips aria-label="Status" {
            a href=(chosen.link(visitor, |chosen| chosen.status.clear()))
                aria-current=[chosen.status.is_empty().then_some("true")] { "All" }
            @for status in STATUSES {
                a href=(chosen.link(visitor, |chosen| chosen.status = (*status).to_owned()))
                    aria-current=[(chosen.status == *status).then_some("true")] { (parts::status(status)) }
            }
        }
    }
}

fn list_or_nothing(visitor: &Visitor, chosen: &Chosen, found: &Executions) -> Markup {
    if !found.executions.is_empty() {
        return html! {
            (table(visitor, &found.executions))
            nav.pages aria-label="Pages of the list" {
                @if !chosen.cursor.is_empty() { a.button href=(chosen.link(visitor, |_| {})) { "Newest" } }
                @if let Some(cursor) = &found.next_cursor {
                    a.button rel="next" href=(chosen.link(visitor, |chosen| chosen.cursor.clone_from(cursor))) { "Older" }
                }
            }
        };
    }
    if chosen.is_nothing() {
        let about = "An execution is one run of a workflow. Start one with the button above, or from a terminal; it waits \
                     until a worker has its kind.";
        return empty("No executions yet", about, Some("flovyn workflow start hello"));
    }
    html! {
        (empty("Nothing matches", "Kinds and queues are compared as a whole; a label is written name:value.", None))
        p.center { a.button href=(visitor.page("/executions")) { "Show all" } }
    }
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
    let took = times::between(&row.created_at, row.finished_at.as_deref());
    html! {
        tr {
            td { (parts::status(&row.status)) @if row.cancel_requested && row.is_open() { " " span.tag { "cancelling" } } }
            td { a.row-link href=(visitor.page(&format!("/executions/{}", row.id))) { (row.kind) } }
            td.wide-only { (parts::id(&row.id)) }
            td.wide-only { code { (row.task_queue) } }
            td { (times::moment(&row.created_at)) }
            td.right.figures { (took.map(times::duration).unwrap_or_default()) }
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
        (form::document("input", "Input (JSON)", "{}"))
        div.field-row {
            (form::field("task_queue", "Queue", "default", false))
            (form::field("idempotency_key", "Idempotency key", "none", false))
        }
        (form::field("labels", "Labels", "name:value, name:value", false))
        @if definitions.workflows.is_empty() {
            p.muted { "No worker has registered a workflow yet. It can be started all the same, and waits for one." }
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
