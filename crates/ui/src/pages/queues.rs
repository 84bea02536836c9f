//! Queues: the number of queued items, pause and resume.

use axum::response::Html;
use flovyn_rest_types::{Queue, Queues, Worker, Workers};
use maud::{Markup, html};

use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::empty::empty;
use crate::parts::{self, document, form, times};
use crate::urls::encode;
use crate::visitor::Visitor;

/// Depths up to this number are exact.
const COUNTED: i64 = 10_000;

pub(crate) async fn get(visitor: Visitor) -> Result<Html<String>, Failure> {
    let rest = visitor.rest();
    let (queues, workers) = (visitor.api("/queues"), visitor.api("/workers"));
    let (queues, workers) = futures::join!(rest.get::<Queues>(&queues), rest.get::<Workers>(&workers));
    let (mut queues, workers) = (queues?.queues, workers?.workers);
    // An empty queue has no row, so it is taken from its workers.
    for worker in workers.iter().filter(|worker| worker.alive) {
        let name = worker.task_queue.as_deref().unwrap_or("default");
        if !queues.iter().any(|queue| queue.name == name) {
            let name = name.to_owned();
            queues.push(Queue {
                name,
                paused: false,
                pending_workflows: 0,
                pending_tasks: 0,
                oldest_ms: None,
            });
        }
    }
    queues.sort_by(|one, other| one.name.cmp(&other.name));
    let body = html! {
        div.head { h1 { "Queues" } }
        div data-part="list" data-refresh="2000" {
            @if queues.is_empty() {
                (empty("No queue has work", "A queue is listed when something waits in it, a worker serves it, or it is \
                        paused. Workflows and tasks go to `default` unless they name another.", None))
            } @else {
                (table(&visitor, &queues, &workers))
            }
        }
    };
    Ok(page(&visitor, Page { title: "Queues", place: "/queues", body }))
}

fn table(visitor: &Visitor, queues: &[Queue], workers: &[Worker]) -> Markup {
    let serving = |queue: &str| {
        workers
            .iter()
            .filter(|one| one.alive && one.task_queue.as_deref().is_none_or(|own| own == queue))
            .count()
    };
    html! {
        div.scroll {
            table.rows {
                thead {
                    tr {
                        th { "Queue" } th.wide-only { "State" } th.right { "Workflows" } th.right { "Tasks" } th.wide-only { "Oldest" }
                        th.right.wide-only { "Workers" } th {}
                    }
                }
                tbody { @for queue in queues { (one_row(visitor, queue, serving(&queue.name))) } }
            }
        }
        p.muted { "Items that wait for a worker now. Running work is not counted, and continues when a queue is paused." }
    }
}

fn one_row(visitor: &Visitor, queue: &Queue, workers: usize) -> Markup {
    let path = |action: &str| visitor.page(&format!("/queues/{}/{action}", encode(&queue.name)));
    let waits = queue.pending_workflows + queue.pending_tasks > 0;
    html! {
        tr {
            td { a.row-link href=(visitor.page(&format!("/executions?queue={}", encode(&queue.name)))) { code { (document::name(&queue.name)) } }
                @if queue.paused { " " span.narrow-only { (parts::status("PAUSED")) } }
            }
            td.wide-only { @if queue.paused { (parts::status("PAUSED")) } @else { (parts::status("OPEN")) } }
            td.right.figures { (counted(queue.pending_workflows)) }
            td.right.figures { (counted(queue.pending_tasks)) }
            td.wide-only { @if let Some(oldest) = queue.oldest_ms { (times::moment(oldest)) } @else { span.muted { "none" } } }
            td.right.figures.wide-only { @if workers == 0 && waits { span.tag.alarm { "no worker" } " " } (workers) }
            td.right {
                @if visitor.may_operate() {
                    @if queue.paused { (form::button(visitor, &path("resume"), "Resume", "small primary")) }
                    @else { (form::button(visitor, &path("pause"), "Pause", "small")) }
                }
            }
        }
    }
}

fn counted(depth: i64) -> String {
    if depth >= COUNTED { format!("{}+", parts::number(COUNTED)) } else { parts::number(depth) }
}
