//! The event log: the newest page at once, any other page when the visitor scrolls there. Sequence numbers have no
//! gaps, so the position of every event is known before it is read.

use axum::response::Html;
use flovyn_rest_types::{Event, Events, Execution};
use maud::{Markup, html};
use serde::Deserialize;

use super::timeline::Facts;
use crate::extract::{Path, Query};
use crate::failure::Failure;
use crate::parts::{self, document, times};
use crate::urls::encode;
use crate::visitor::Visitor;

/// Events per page. The page contains this number for the script.
const PAGE: i64 = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// Pages are numbered from 0.
    page: i64,
}

/// One page, without the layout around it.
pub(crate) async fn get(
    visitor: Visitor,
    Path((_, name)): Path<(String, String)>,
    Query(wanted): Query<Wanted>,
) -> Result<Html<String>, Failure> {
    let since = wanted.page.clamp(0, i64::MAX / PAGE) * PAGE;
    let path = visitor.api(&format!("/workflow-executions/{}", encode(&name)));
    let events: Events =
        visitor.rest().get(&format!("{path}/events?sinceSequence={since}&limit={PAGE}")).await?;
    let own = visitor.page(&format!("/executions/{}", encode(&name)));
    Ok(Html(rows(&events.events, events.created_at_ms, &own).into_string()))
}

pub(super) fn section(row: &Execution, events: &Events, own: &str) -> Markup {
    let last_page = (row.last_sequence - 1).max(0) / PAGE;
    let newest = events.events.iter().position(|event| event.sequence > last_page * PAGE).unwrap_or(0);
    html! {
        section.events aria-labelledby="events-title" {
            div.head {
                h2 #events-title { "Events" }
                span.muted.figures data-log-count { (parts::number(row.last_sequence)) }
                div.head-actions {
                    button.button.small type="button" data-log-start { "First" }
                    button.button.small type="button" data-log-end { "Last" }
                }
            }
            div.log tabindex="0" role="log" aria-label="Event log" data-log=(format!("{own}/events"))
                data-page-size=(PAGE) data-total=(row.last_sequence) {
                div.log-whole {
                    div.log-page data-page=(last_page) { (rows(&events.events[newest..], events.created_at_ms, own)) }
                }
            }
            aside.log-detail data-log-detail aria-live="polite" {}
        }
    }
}

fn rows(events: &[Event], created_ms: i64, own: &str) -> Markup {
    html! { @for event in events { (one_row(event, created_ms, own)) } }
}

fn one_row(event: &Event, created_ms: i64, own: &str) -> Markup {
    html! {
        a.log-row href=(format!("{own}/events/{}", event.sequence)) data-sequence=(event.sequence) {
            span.log-sequence.figures { (event.sequence) }
            span.log-time.figures title=(times::exact(event.timestamp_ms)) { "+" (times::duration((event.timestamp_ms - created_ms).max(0))) }
            span.log-kind data-tone=(tone(&event.event_type)) { (parts::words(&event.event_type)) }
            span.log-text { (summary(event)) }
        }
    }
}

/// The colour for an event, by its outcome.
pub(super) fn tone(event_type: &str) -> &'static str {
    match event_type {
        kind if kind.ends_with("_COMPLETED") || kind.ends_with("_RESOLVED") || kind.ends_with("_FIRED") => {
            "good"
        }
        kind if kind.ends_with("_FAILED") || kind.ends_with("_REJECTED") || kind.ends_with("_TIMEOUT") => {
            "bad"
        }
        kind if kind.contains("CANCEL") => "stopped",
        "SIGNAL_RECEIVED" | "WORKFLOW_STARTED" => "outside",
        _ => "plain",
    }
}

/// The field that distinguishes the event from others of its type.
fn summary(event: &Event) -> Markup {
    let facts = Facts::of(event);
    let names = [
        facts.task_type,
        facts.timer_id,
        facts.promise_name,
        facts.child_execution_name,
        facts.signal_name,
        facts.operation_name,
        facts.key,
        facts.workflow_kind,
    ];
    let name = names.into_iter().flatten().find(|name| !name.is_empty());
    let id = facts.task_execution_id.filter(|_| name.is_none());
    let more = facts.error.or(facts.reason).or(facts.child_workflow_kind);
    html! {
        @if let Some(name) = name { (document::inline(&name, 80)) }
        @if let Some(id) = id { code { (parts::short(&id)) } }
        @if let Some(ms) = facts.duration_ms { span.muted { " " (times::duration(ms)) } }
        @if let Some(failure) = facts.failure_type { " " span.tag { (document::inline(&failure, 80)) } }
        @if let Some(more) = more { span.muted { " " (document::inline(&more, 160)) } }
    }
}
