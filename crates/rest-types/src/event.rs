//! The history of an execution.

use serde::Deserialize;
use serde_json::Value;

use crate::Document;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Events<E = Event> {
    pub created_at_ms: i64,
    pub events: Vec<E>,
    /// Where the next page begins, if there are more.
    pub next_since_sequence: Option<i64>,
}

/// One event, with its data as it was written or in another form that JSON can be read into.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<D = Option<Document>> {
    pub sequence: i64,
    pub event_type: String,
    pub timestamp_ms: i64,
    /// `COMMAND` or `EXTERNAL`.
    pub origin: String,
    pub data: D,
}

impl<D> Event<D> {
    /// Nothing comes after it.
    pub fn is_last(&self) -> bool {
        matches!(
            self.event_type.as_str(),
            "WORKFLOW_COMPLETED" | "WORKFLOW_EXECUTION_FAILED" | "WORKFLOW_CANCELLED"
        )
    }
}

impl Event<Value> {
    /// A text among the event's data; empty if there is none.
    pub fn text(&self, key: &str) -> &str {
        self.data[key].as_str().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use flovyn_engine::event::EventKind;
    use flovyn_engine::state::SmallEnum;

    use super::Event;

    #[test]
    fn the_last_events_are_those_of_the_engine() {
        for kind in EventKind::ALL {
            let event = Event { event_type: kind.to_string(), ..Event::<()>::default() };
            assert_eq!(event.is_last(), kind.is_terminal(), "{kind}");
        }
    }
}
