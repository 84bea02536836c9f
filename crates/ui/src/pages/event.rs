//! One event with all its data. Shown beside the log, or as a page of its own.

use axum::http::HeaderMap;
use axum::response::Html;
use flovyn_rest_types::Events;
use maud::html;

use super::events::tone;
use super::is_part;
use crate::extract::Path;
use crate::failure::Failure;
use crate::layout::{Page, page};
use crate::parts::{self, document, fact, times};
use crate::urls::encode;
use crate::visitor::Visitor;

pub(crate) async fn get(
    visitor: Visitor,
    Path((_, name, sequence)): Path<(String, String, i64)>,
    headers: HeaderMap,
) -> Result<Html<String>, Failure> {
    let path = visitor.api(&format!("/workflow-executions/{}", encode(&name)));
    let before = sequence.max(1) - 1;
    let events: Events = visitor.rest().get(&format!("{path}/events?sinceSequence={before}&limit=1")).await?;
    let found = events.events.iter().find(|event| event.sequence == sequence);
    let event = found.ok_or_else(|| Failure::not_found("the execution has no such event"))?;
    let own = visitor.page(&format!("/executions/{}", encode(&name)));
    let body = html! {
        div.event {
            div.head {
                h2 { span.log-kind data-tone=(tone(&event.event_type)) { (parts::words(&event.event_type)) } }
                span.muted.figures { "#" (event.sequence) }
            }
            dl.facts {
                (fact("At", Some(times::clock(event.timestamp_ms))))
                (fact("After", Some(html! {
                    span.figures { (times::duration((event.timestamp_ms - events.created_at_ms).max(0))) }
                })))
                (fact("Caused by", Some(html! {
                    @if event.origin == "COMMAND" { "the workflow" } @else { "an external event" }
                })))
                (fact("Type", Some(html! { code { (event.event_type) } })))
            }
            (document::json("Data", event.data.as_deref(), None))
        }
    };
    if is_part(&headers) {
        return Ok(Html(body.into_string()));
    }
    let body = html! {
        nav.crumbs aria-label="Where this is" {
            a href=(visitor.page("/executions")) { "Executions" } span { "/" } a href=(own) { code { (document::name(&name)) } }
            span { "/" } span { "Event " (sequence) }
        }
        (body)
    };
    let title = format!("Event {sequence}");
    Ok(page(&visitor, Page { title: &title, place: "/executions", body }))
}
