//! One execution: its data, what it waits for, and its history.

use axum::response::Html;
use flovyn_rest_types::{Document, Events, Execution, ExecutionTasks, Executions, WaitingOn};
use maud::{Markup, html};
use std::collections::BTreeMap;

use super::{children, events, execution_actions, tasks, timeline};
use crate::extract::Path;
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::{self, document, fact, form, times};
use crate::urls::encode;
use crate::visitor::Visitor;

/// The most events that the timeline is made of: the newest.
const TIMELINE_EVENTS: i64 = 400;
/// The most ancestors that are shown.
const ANCESTORS: usize = 5;

type State = BTreeMap<String, Option<Document>>;

/// The data of the page.
struct Whole {
    row: Execution,
    /// The newest events.
    events: Events,
    tasks: ExecutionTasks,
    children: Executions,
    state: State,
    /// The ancestors, most distant first.
    ancestors: Vec<Execution>,
}

pub(crate) async fn get(
    visitor: Visitor,
    Path((_, name)): Path<(String, String)>,
) -> Result<Html<String>, Failure> {
    let whole = read(&visitor, &name).await?;
    let row = &whole.row;
    let own = visitor.page(&format!("/executions/{}", row.id));
    let is_open = !row.has_ended();
    let body = html! {
        div data-root data-follow=[is_open.then(|| format!("{own}/live"))] data-since=(row.last_sequence) {
            div data-part="head" data-refresh=[is_open.then_some("5000")] { (head(&visitor, &whole, &own)) }
            div data-part="waiting" { (waiting(&visitor, row, &own)) }
            div data-part="timeline" { (timeline::section(row, &whole.events, &whole.tasks.tasks, &own)) }
            div data-part="payloads" { (payloads(row, &own)) }
            div data-part="tasks" { (task_list(&whole.tasks, &own)) }
            div data-part="children" { (children::section(&visitor, &whole.children)) }
            div data-part="state" { (state(&whole.state)) }
            (events::section(row, &whole.events, &own))
        }
    };
    let title = format!("{} {}", row.kind, parts::short(&row.id));
    Ok(page(&visitor, Page { title: &title, place: "/executions", body }))
}

async fn read(visitor: &Visitor, name: &str) -> Result<Whole, Failure> {
    let rest = visitor.rest();
    let path = visitor.api(&format!("/workflow-executions/{}", encode(name)));
    let row: Execution = rest.get(&path).await?;
    let since = (row.last_sequence - TIMELINE_EVENTS).max(0);
    let paths = [
        format!("{path}/events?sinceSequence={since}&limit={TIMELINE_EVENTS}"),
        format!("{path}/tasks?limit=100"),
        format!("{path}/children?limit=50"),
        format!("{path}/state"),
    ];
    let (events, tasks, children, state, ancestors) = futures::join!(
        rest.get(&paths[0]),
        rest.get(&paths[1]),
        rest.get(&paths[2]),
        rest.get(&paths[3]),
        ancestors(visitor, row.parent_id.clone()),
    );
    Ok(Whole {
        events: events?,
        tasks: tasks?,
        children: children?,
        state: state?,
        ancestors: ancestors?,
        row,
    })
}

async fn ancestors(visitor: &Visitor, mut above: Option<String>) -> Result<Vec<Execution>, Failure> {
    let mut found = Vec::new();
    while let Some(id) = above.take().filter(|_| found.len() < ANCESTORS) {
        let path = visitor.api(&format!("/workflow-executions/{}", encode(&id)));
        // A parent may have been deleted before its children.
        let Some(row) = visitor.rest().find::<Execution>(&path).await? else { break };
        above.clone_from(&row.parent_id);
        found.insert(0, row);
    }
    Ok(found)
}

fn head(visitor: &Visitor, whole: &Whole, own: &str) -> Markup {
    let row = &whole.row;
    let link = |id: &String| html! { a href=(visitor.page(&format!("/executions/{id}"))) { code { (parts::short(id)) } } };
    let took = times::between(row.created_ms, row.finished_ms);
    html! {
        nav.crumbs aria-label="Where this is" {
            a href=(visitor.page("/executions")) { "Executions" }
            @for above in &whole.ancestors {
                span { "/" } a href=(visitor.page(&format!("/executions/{}", above.id))) { (document::name(&above.kind)) }
            }
            span { "/" } (parts::whole_id(&row.id))
        }
        div.head {
            h1 { (document::name(&row.kind)) } (parts::status(&row.status))
            @if row.cancel_requested && !row.has_ended() { span.tag { "cancel requested" } }
            div.head-actions { (execution_actions::buttons(visitor, row, own)) }
        }
        dl.facts {
            (fact("Queue", Some(html! { code { (document::name(&row.task_queue)) } })))
            (fact("Version", row.version.as_ref().map(|version| html! { code { (document::name(version)) } })))
            (fact("Created", Some(times::moment(row.created_ms))))
            (fact("Not before", row.scheduled_ms.map(times::moment)))
            (fact("Started", row.started_ms.map(times::moment)))
            (fact("Finished", row.finished_ms.map(times::moment)))
            (fact(if row.has_ended() { "Took" } else { "So far" }, Some(html! { span.figures { (times::duration(took)) } })))
            (fact("Events", Some(html! { span.figures { (parts::number(row.last_sequence)) } })))
            (fact("Priority", (row.priority_seconds != 0).then(|| html! { (row.priority_seconds) " s" })))
            (fact("Failure", row.failure_type.as_ref().map(|name| html! { span.tag { (document::inline(name, 80)) } })))
            (fact("Signals not read", (row.unread_signals > 0).then(|| html! {
                span.tag { (parts::number(row.unread_signals)) }
            })))
            (fact("Parent", row.parent_id.as_ref().map(link)))
            (fact("Retry of", row.retry_of.as_ref().map(link)))
            (fact("Key", row.idempotency_key.as_ref().map(|key| html! {
                a href=(visitor.page(&format!("/executions?q={}", encode(&format!("key:{key}"))))) {
                    code { (document::inline(key, 80)) }
                }
            })))
            (fact("Labels", row.labels.as_ref().filter(|all| !all.is_empty()).map(|all| labels(visitor, all))))
        }
    }
}

fn labels(visitor: &Visitor, labels: &BTreeMap<String, String>) -> Markup {
    let link = |name: &str, value: &str| {
        visitor.page(&format!("/executions?q={}", encode(&format!("{name}:{value}"))))
    };
    html! {
        @for (name, value) in labels {
            a.tag href=(link(name, value)) { (document::inline(&format!("{name}:{value}"), 60)) } " "
        }
    }
}

fn waiting(visitor: &Visitor, row: &Execution, own: &str) -> Markup {
    let Some(reasons) = row.waiting_on.as_ref().filter(|reasons| !reasons.is_empty()) else {
        return html! {};
    };
    html! {
        section.waiting aria-label="Why it waits" {
            h2 { @if row.status == "RUNNING" { "Running" } @else { "Waits for" } }
            ul { @for one in reasons { li { (reason(visitor, one, own)) } } }
        }
    }
}

fn reason(visitor: &Visitor, one: &WaitingOn, own: &str) -> Markup {
    html! {
        span.reason data-kind=(one.kind) { (parts::words(&one.kind)) }
        span.reason-text {
            (document::inline(&one.message, 300))
            @if let Some(until) = one.until_ms { " · " (times::moment(until)) }
        }
        @match one.kind.as_str() {
            "TASK" => a.quiet href=(format!("{own}/tasks/{}", one.id)) { "Open" },
            "CHILD" => a.quiet href=(visitor.page(&format!("/executions/{}", one.id))) { "Open" },
            "QUEUE_PAUSED" => a.quiet href=(visitor.page("/queues")) { "Queues" },
            "NO_WORKER" | "NO_STREAM_WORKER" | "FREE_WORKER" => a.quiet href=(visitor.page("/workers")) { "Workers" },
            "PROMISE" if visitor.may_operate() => (promise_buttons(visitor, one, own)),
            _ => {},
        }
    }
}

fn promise_buttons(visitor: &Visitor, one: &WaitingOn, own: &str) -> Markup {
    let (resolve, reject) = (format!("resolve-{}", one.id), format!("reject-{}", one.id));
    let path = format!("{own}/promises/{}", one.id);
    let value = form::json("value", "Value (JSON)", "true");
    let error = form::field("error", "Error", "the error that the workflow receives", true);
    html! {
        span.buttons {
            (form::opener(&resolve, "Resolve", "small primary"))
            (form::opener(&reject, "Reject", "small"))
        }
        (form::dialog(visitor, &resolve, &format!("Resolve {}", one.name), &format!("{path}/resolve"), "Resolve", value))
        (form::dialog(visitor, &reject, &format!("Reject {}", one.name), &format!("{path}/reject"), "Reject", error))
    }
}

fn payloads(row: &Execution, own: &str) -> Markup {
    html! {
        section.pair aria-label="Input and outcome" {
            (document::json("Input", row.input.as_deref(), Some(&format!("{own}/raw/input"))))
            @if let Some(error) = &row.error {
                (document::text(if row.status == "CANCELLED" { "Reason" } else { "Error" }, error))
                @if let Some(details) = &row.failure_details { (document::json("Details", Some(details), None)) }
            } @else if row.output.is_some() {
                (document::json("Output", row.output.as_deref(), Some(&format!("{own}/raw/output"))))
            } @else {
                figure.document.pending {
                    figcaption { span { "Output" } }
                    p.muted { "Not finished yet" }
                }
            }
        }
    }
}

fn task_list(tasks: &ExecutionTasks, own: &str) -> Markup {
    if tasks.tasks.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="tasks-title" {
            h2 #tasks-title { "Tasks" }
            (tasks::table(&tasks.tasks, |task| format!("{own}/tasks/{}", task.id)))
            @if tasks.next_cursor.is_some() { p.muted { "The first " (tasks.tasks.len()) " by id; the timeline has the newest." } }
        }
    }
}

fn state(state: &State) -> Markup {
    if state.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="state-title" {
            h2 #state-title { "State" }
            div.states { @for (name, value) in state { (document::json(name, value.as_deref(), None)) } }
        }
    }
}
