//! Standalone tasks: filtered, page by page, failed ones at hand.

use axum::extract::Query;
use axum::response::Html;
use maud::{Markup, html};
use serde::Deserialize;

use super::execution::task_row;
use crate::answers::{Definitions, Tasks};
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::{self, form};
use crate::urls::query;
use crate::visitor::Visitor;

const STATUSES: &[&str] = &["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"];

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(crate) struct Chosen {
    q: String,
    status: String,
    queue: String,
    cursor: String,
}

impl Chosen {
    fn link(&self, visitor: &Visitor, change: impl FnOnce(&mut Self)) -> String {
        let mut chosen = Self { cursor: String::new(), ..self.clone() };
        change(&mut chosen);
        let Self { q, status, queue, cursor } = &chosen;
        let pairs = [("q", q), ("status", status), ("queue", queue), ("cursor", cursor)];
        visitor.page("/tasks") + &query(pairs.map(|(name, value)| (name, value.as_str())))
    }

    fn api(&self, visitor: &Visitor) -> String {
        let pairs = [
            ("status", self.status.as_str()),
            ("task_type", self.q.trim()),
            ("queue", self.queue.trim()),
            ("cursor", &self.cursor),
        ];
        visitor.api("/tasks") + &query(pairs)
    }

    fn is_nothing(&self) -> bool {
        [&self.q, &self.status, &self.queue, &self.cursor].iter().all(|text| text.is_empty())
    }
}

pub(crate) async fn get(visitor: Visitor, Query(chosen): Query<Chosen>) -> Result<Html<String>, Failure> {
    let rest = visitor.rest();
    let (list, definitions) = (chosen.api(&visitor), visitor.api("/definitions"));
    let (found, definitions) =
        futures::join!(rest.get::<Tasks>(&list), rest.get::<Definitions>(&definitions));
    let (found, definitions) = (found?, definitions?);
    let body = html! {
        div.head {
            h1 { "Tasks" }
            span.muted.figures data-part="total" {
                (parts::number(found.total)) @if found.total_is_lower_bound { "+" } " standalone"
            }
            @if visitor.may_operate() { div.head-actions { (form::opener("create", "Create task", "primary")) } }
        }
        (filters(&visitor, &chosen, &definitions))
        div data-part="list" data-refresh="2000" { (list_or_nothing(&visitor, &chosen, &found)) }
        @if visitor.may_operate() { (create_dialog(&visitor)) }
    };
    Ok(page(&visitor, Page { title: "Tasks", place: "/tasks", body }))
}

fn filters(visitor: &Visitor, chosen: &Chosen, definitions: &Definitions) -> Markup {
    html! {
        form.filters method="get" action=(visitor.page("/tasks")) role="search" {
            input.search type="search" name="q" value=(chosen.q) list="types" data-search autocomplete="off"
                placeholder="Type" aria-label="Type of task";
            datalist #types { @for one in &definitions.tasks { option value=(one.kind) {} } }
            input type="text" name="queue" value=(chosen.queue) placeholder="Queue" aria-label="Queue" autocomplete="off";
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

fn list_or_nothing(visitor: &Visitor, chosen: &Chosen, found: &Tasks) -> Markup {
    if !found.tasks.is_empty() {
        return html! {
            div.scroll {
                table.rows data-rows {
                    thead {
                        tr {
                            th { "Status" } th { "Type" } th.wide-only { "Task" } th.right { "Attempts" } th { "Started" }
                            th.right { "Took" } th.wide-only { "Last error" }
                        }
                    }
                    tbody {
                        @for task in &found.tasks { (task_row(task, &visitor.page(&format!("/tasks/{}", task.id)))) }
                    }
                }
            }
            nav.pages aria-label="Pages of the list" {
                @if !chosen.cursor.is_empty() { a.button href=(chosen.link(visitor, |_| {})) { "Newest" } }
                @if let Some(cursor) = &found.next_cursor {
                    a.button rel="next" href=(chosen.link(visitor, |chosen| chosen.cursor.clone_from(cursor))) { "Older" }
                }
            }
        };
    }
    if chosen.is_nothing() {
        let about = "A standalone task is a job with retries, without a workflow around it. Tasks of workflows are on the \
                     pages of their executions.";
        return empty("No standalone tasks yet", about, Some("flovyn task create send-email"));
    }
    html! {
        (empty("Nothing matches", "Types and queues are compared as a whole.", None))
        p.center { a.button href=(visitor.page("/tasks")) { "Show all" } }
    }
}

fn create_dialog(visitor: &Visitor) -> Markup {
    let fields = html! {
        label.field {
            span { "Type" }
            input type="text" name="task_type" list="types" required autofocus autocomplete="off" spellcheck="false";
        }
        (form::document("input", "Input (JSON)", "{}"))
        div.field-row {
            (form::field("queue", "Queue", "default", false))
            (form::field("max_retries", "Attempts at most", "3", false))
        }
    };
    form::dialog(visitor, "create", "Create a task", &visitor.page("/tasks"), "Create", fields)
}
