//! The history of an execution.

use axum::Json;
use axum::extract::Path;
use flovyn_engine::Code;
use flovyn_store::LoggedEvent;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::access::Caller;
use super::body::json;
use super::error::RestError;
use super::executions::{execution_id, find};
use super::extract::Query;
use super::times::iso;

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EventQuery {
    since_sequence: i64,
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventInfo {
    pub(super) sequence: i64,
    pub(super) event_type: String,
    timestamp: String,
    timestamp_ms: i64,
    origin: String,
    data: Option<Box<RawValue>>,
}

impl EventInfo {
    pub(super) fn of(logged: &LoggedEvent) -> Self {
        let event = &logged.event;
        Self {
            sequence: event.sequence,
            event_type: event.kind.to_string(),
            timestamp: iso(event.time_ms),
            timestamp_ms: event.time_ms,
            origin: event.origin.to_string(),
            data: json(&event.render(logged.task.as_ref())),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventList {
    execution_id: String,
    created_at_ms: i64,
    events: Vec<EventInfo>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_since_sequence: Option<i64>,
}

pub(super) async fn list(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
    Query(query): Query<EventQuery>,
) -> Result<Json<EventList>, RestError> {
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(RestError::new(Code::InvalidPage, format!("limit is from 1 to {MAX_LIMIT}")));
    }
    let row = find(&caller, execution_id(&name)?).await?;
    let since = query.since_sequence.max(0);
    let events = caller.store().event_page(caller.tenant_id(), row.id, since, limit).await?;
    let last = events.last().map(|logged| logged.event.sequence);
    Ok(Json(EventList {
        execution_id: row.id.to_string(),
        created_at_ms: row.created_ms,
        next_since_sequence: last.filter(|last| *last < row.last_sequence),
        events: events.iter().map(EventInfo::of).collect(),
    }))
}
