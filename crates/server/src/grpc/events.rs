//! Converts histories to messages.

use bytes::Bytes;
use flovyn_engine::Code;
use flovyn_engine::event::TaskPayloads;
use flovyn_engine::ids::ExecutionId;
use flovyn_engine::state::{Event, EventKind, Origin};
use flovyn_proto::v1;
use flovyn_store::LoggedEvent;
use tonic::Status;

use super::MAX_MESSAGE_BYTES;
use super::call::Call;
use super::convert::narrow;
use super::status::{not_read, refuse};

/// Events per database read.
const PAGE: usize = 500;
/// The most events in one page, for a client that asks for pages.
pub(super) const MAX_PAGE: i32 = 1_000;
/// The size of an event in a message, without its data.
const OVERHEAD: usize = 64;
/// Bytes reserved for the message around the events.
const ROOM: usize = 64 << 10;
/// A page is cut at this size. A single event is always smaller than a message.
const PAGE_BYTES: usize = MAX_MESSAGE_BYTES - (1 << 20) - ROOM;

pub(super) fn message(event: &Event, task: Option<&TaskPayloads>) -> v1::WorkflowEvent {
    let origin = match event.origin {
        Origin::Command => v1::EventOrigin::Command,
        Origin::External => v1::EventOrigin::External,
    };
    v1::WorkflowEvent {
        sequence_number: narrow(event.sequence),
        event_type: event.kind.to_string(),
        event_data: Bytes::from(event.render(task)),
        timestamp_ms: event.time_ms,
        origin: origin.into(),
    }
}

/// Whether clients of the public protocol do not know this type. Some of them count an unknown type as an operation,
/// which would break their replay.
fn is_addition(kind: EventKind) -> bool {
    matches!(kind, EventKind::TaskCancelRequested | EventKind::ChildCancelRequested)
}

/// Converts an event for a worker that has the instance in memory up to `base`. The worker's own commands are sent
/// without content: it knows them, and a worker without the instance fetches the whole history.
pub(super) fn unseen(base: i64, event: &Event, task: Option<&TaskPayloads>) -> v1::WorkflowEvent {
    if base > 0 && event.origin == Origin::Command {
        return message(&Event { payload: None, ..event.clone() }, None);
    }
    message(event, task)
}

/// Takes as many events as fit into a message, at least one. The second value is true if events were left out.
pub(super) fn cut(all: impl Iterator<Item = v1::WorkflowEvent>) -> (Vec<v1::WorkflowEvent>, bool) {
    let mut events = Vec::new();
    let mut bytes = 0;
    for event in all {
        bytes += event.event_data.len() + OVERHEAD;
        if bytes > PAGE_BYTES && !events.is_empty() {
            return (events, true);
        }
        events.push(event);
    }
    (events, false)
}

/// A page of a history, limited by the number of events and by the message size. The second value is true if more
/// events follow.
pub(super) async fn page(
    call: &Call,
    id: ExecutionId,
    after: i64,
    limit: usize,
    shown: impl Fn(&Event, Option<&TaskPayloads>) -> v1::WorkflowEvent,
) -> Result<(Vec<v1::WorkflowEvent>, bool), Status> {
    let mut events = Vec::new();
    let mut bytes = 0;
    let mut last = after;
    while events.len() < limit {
        let wanted = PAGE.min(limit - events.len());
        let found = read(call, id, last, wanted).await?;
        let complete = found.len() < wanted;
        for LoggedEvent { event, task } in &found {
            let event = shown(event, task.as_ref());
            bytes += event.event_data.len() + OVERHEAD;
            if bytes > PAGE_BYTES && !events.is_empty() {
                return Ok((events, true));
            }
            last = event.sequence_number.into();
            events.push(event);
        }
        if complete {
            return Ok((events, false));
        }
    }
    let more = !read(call, id, last, 1).await?.is_empty();
    Ok((events, more))
}

/// The whole history in one message, without event types that the public protocol does not have.
pub(super) async fn all(call: &Call, id: ExecutionId) -> Result<Vec<v1::WorkflowEvent>, Status> {
    let mut events = Vec::new();
    let mut bytes = 0;
    let mut last = 0;
    loop {
        let found = read(call, id, last, PAGE).await?;
        for LoggedEvent { event, task } in &found {
            last = event.sequence;
            if is_addition(event.kind) {
                continue;
            }
            let event = message(event, task.as_ref());
            bytes += event.event_data.len() + OVERHEAD;
            if bytes > MAX_MESSAGE_BYTES - ROOM {
                return Err(refuse(Code::HistoryTooLarge, "the history does not fit into one message"));
            }
            events.push(event);
        }
        if found.len() < PAGE {
            return Ok(events);
        }
    }
}

async fn read(call: &Call, id: ExecutionId, after: i64, limit: usize) -> Result<Vec<LoggedEvent>, Status> {
    call.api().service().store().event_page(call.tenant_id(), id, after, limit).await.map_err(not_read)
}
