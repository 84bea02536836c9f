//! The history of an execution.

use axum::body::Body;
use axum::extract::{MatchedPath, Path};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Json};
use flovyn_engine::ids::ExecutionId;
use flovyn_rest_types::{Event, Events};
use flovyn_store::LoggedEvent;
use futures::stream;
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::Caller;
use super::body::json;
use super::error::RestError;
use super::executions::{execution_id, find};
use super::extract::Query;
use super::page::up_to;
use super::times::iso;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;
/// The prefix that clients of the public protocol use.
const ALIAS: &str = "/api/orgs/";
/// The largest history that is read in large pages. A larger one is read in pages of few events, because each event may
/// be large.
const SMALL_HISTORY_BYTES: i64 = 8 << 20;
const FEW_EVENTS: usize = 8;
const DELETED: &str = "the execution was deleted while its history was read";

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default)]
#[into_params(parameter_in = Query)]
pub(super) struct EventQuery {
    /// The sequence number of the last known event. Later events are returned.
    #[param(required = false)]
    since_sequence: i64,
    /// Default 100. Below `/api/orgs` the default is the whole history.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
}

pub(super) fn event(logged: &LoggedEvent) -> Event {
    let event = &logged.event;
    Event {
        sequence: event.sequence,
        event_type: event.kind.to_string(),
        timestamp: iso(event.time_ms),
        timestamp_ms: event.time_ms,
        origin: event.origin.to_string(),
        data: json(&event.render(logged.task.as_ref())),
    }
}

/// Read the history of an execution
#[utoipa::path(
    get,
    path = "/workflow-executions/{executionId}/events",
    operation_id = "listExecutionEvents",
    tag = "Executions",
    params(("executionId" = String, Path, description = "Id of the execution"), EventQuery),
    responses((status = 200, description = "A page of events", body = Events)),
)]
pub(super) async fn list(
    caller: Caller,
    matched: MatchedPath,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<EventQuery>,
) -> Result<Response, RestError> {
    if query.limit.is_none() && matched.as_str().starts_with(ALIAS) {
        return whole(caller, execution_id(&name)?, query.since_sequence.max(0)).await;
    }
    let limit = up_to(MAX_LIMIT, query.limit.unwrap_or(DEFAULT_LIMIT))?;
    let row = find(&caller, execution_id(&name)?).await?;
    let since = query.since_sequence.max(0);
    let events = caller.store().event_page(caller.tenant_id(), row.id, since, limit).await?;
    let last = events.last().map(|logged| logged.event.sequence);
    Ok(Json(Events {
        execution_id: row.id.to_string(),
        created_at_ms: row.created_ms,
        next_since_sequence: last.filter(|last| *last < row.last_sequence),
        events: events.iter().map(event).collect(),
    })
    .into_response())
}

/// The whole current history as one list, read and sent page by page. Clients of the public protocol ask once and
/// search the answer for the end of the execution. If the execution is deleted meanwhile, the answer is cut off, so that
/// no client takes a part of the history for all of it.
async fn whole(caller: Caller, id: ExecutionId, since: i64) -> Result<Response, RestError> {
    let row = find(&caller, id).await?;
    let part = match row.history_bytes <= SMALL_HISTORY_BYTES {
        true => MAX_LIMIT,
        false => FEW_EVENTS,
    };
    let head = format!("{{\"executionId\":\"{}\",\"createdAtMs\":{},\"events\":[", row.id, row.created_ms);
    let last = row.last_sequence;
    let parts = stream::try_unfold(
        (caller, since, head, true),
        move |(caller, since, mut text, mut first)| async move {
            if since == i64::MAX {
                return Ok(None);
            }
            let limit = part.min(usize::try_from(last - since).unwrap_or(0));
            let events = match limit {
                0 => Vec::new(),
                _ => caller.store().event_page(caller.tenant_id(), id, since, limit).await?,
            };
            // Checked after the read: a page is whole if the deletion had not begun by then.
            find(&caller, id).await.map_err(|_| std::io::Error::other(DELETED))?;
            for logged in &events {
                if !first {
                    text.push(',');
                }
                first = false;
                text += &serde_json::to_string(&event(logged)).map_err(std::io::Error::other)?;
            }
            let next = match events.last().map(|logged| logged.event.sequence) {
                Some(sequence) if sequence < last => sequence,
                _ => {
                    text += "]}";
                    i64::MAX
                }
            };
            Ok::<_, BoxError>(Some((text, (caller, next, String::new(), first))))
        },
    );
    Ok(([(CONTENT_TYPE, "application/json")], Body::from_stream(parts)).into_response())
}
