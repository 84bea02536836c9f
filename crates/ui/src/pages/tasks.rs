//! Standalone tasks: filter, pages, a link to failed ones.

use axum::response::Html;
use flovyn_rest_types::{Definitions, Task, Tasks};
use maud::{Markup, html};

use super::list::{Chosen, List};
use crate::extract::Query;
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::{self, document, form, times};
use crate::urls::query;
use crate::visitor::Visitor;

const STATUSES: &[&str] = &["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"];

fn api(visitor: &Visitor, chosen: &Chosen) -> String {
    let pairs = [
        ("status", chosen.status.as_str()),
        ("task_type", chosen.q.trim()),
        ("queue", chosen.queue.trim()),
        ("cursor", &chosen.cursor),
    ];
    visitor.api("/tasks") + &query(pairs)
}

pub(crate) async fn get(visitor: Visitor, Query(chosen): Query<Chosen>) -> Result<Html<String>, Failure> {
    let rest = visitor.rest();
    let (path, definitions) = (api(&visitor, &chosen), visitor.api("/definitions"));
    let (found, definitions) =
        futures::join!(rest.get::<Tasks>(&path), rest.get::<Definitions>(&definitions));
    let (found, definitions) = (found?, definitions?);
    let list = List { visitor: &visitor, place: "/tasks", chosen: &chosen };
    let body = html! {
        div.head {
            h1 { "Tasks" }
            span.muted.figures data-part="total" {
                (parts::number(found.total)) @if found.total_is_lower_bound { "+" } " standalone"
            }
            @if visitor.may_operate() { div.head-actions { (form::opener("create", "Create task", "primary")) } }
        }
        (filters(&list, &definitions))
        div data-part="list" data-refresh="2000" { (list_or_nothing(&list, &found)) }
        @if visitor.may_operate() { (create_dialog(&visitor)) }
    };
    Ok(page(&visitor, Page { title: "Tasks", place: "/tasks", body }))
}

fn filters(list: &List<'_>, definitions: &Definitions) -> Markup {
    let search = html! {
        input.search type="search" name="q" value=(list.chosen.q) list="types" data-search autocomplete="off"
            placeholder="Type" aria-label="Type of task";
        (form::suggestions("types", &definitions.tasks))
    };
    list.filters(search, html! {}, STATUSES)
}

fn list_or_nothing(list: &List<'_>, found: &Tasks) -> Markup {
    if !found.tasks.is_empty() {
        let path = |task: &Task| list.visitor.page(&format!("/tasks/{}", task.id));
        return html! { (table(&found.tasks, path)) (list.pages(found.next_cursor.as_ref())) };
    }
    if !list.chosen.is_nothing() {
        return list.nothing_matches("Types and queues must match exactly.");
    }
    let about = "A standalone task is a job with retries, without a workflow around it. Tasks of workflows are on the \
                 pages of their executions.";
    empty("No standalone tasks yet", about, Some("flovyn task create send-email"))
}

/// A table of tasks. `path` is the path of a task's page.
pub(super) fn table(tasks: &[Task], path: impl Fn(&Task) -> String) -> Markup {
    html! {
        div.scroll {
            table.rows data-rows {
                thead {
                    tr {
                        th { "Status" } th { "Type" } th.wide-only { "Task" } th.right.wide-only { "Attempts" } th { "Started" }
                        th.right { "Took" } th.wide-only { "Last error" }
                    }
                }
                tbody { @for task in tasks { (one_row(task, &path(task))) } }
            }
        }
    }
}

fn one_row(task: &Task, href: &str) -> Markup {
    let started = task.started_ms;
    let took = started.map(|from| times::between(from, task.completed_ms));
    html! {
        tr {
            td { (parts::status(&task.status)) }
            td { a.row-link href=(href) { (document::name(&task.task_type)) } }
            td.wide-only { (parts::id(&task.id)) }
            td.right.figures.wide-only { (task.execution_count) " / " (task.max_retries.max(1)) }
            td { @if let Some(started) = started { (times::moment(started)) } @else { span.muted { "not yet" } } }
            td.right.figures { (took.map(times::duration).unwrap_or_default()) }
            td.wide-only.ellipsis { @if let Some(error) = &task.error { (document::inline(error, 90)) } }
        }
    }
}

fn create_dialog(visitor: &Visitor) -> Markup {
    let fields = html! {
        label.field {
            span { "Type" }
            input type="text" name="task_type" list="types" required autofocus autocomplete="off" spellcheck="false";
        }
        (form::json("input", "Input (JSON)", "{}"))
        div.field-row {
            (form::field("queue", "Queue", "default", false))
            (form::field("max_retries", "Maximum of attempts", "3", false))
        }
    };
    form::dialog(visitor, "create", "Create a task", &visitor.page("/tasks"), "Create", fields)
}
