//! The history of an execution.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::Document;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkflowEventList, bound = ""))]
pub struct Events<E = Event> {
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, format = "uuid"))]
    pub execution_id: String,
    pub created_at_ms: i64,
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Event>))]
    pub events: Vec<E>,
    /// The `sinceSequence` of the next page. Absent if there are no more events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_since_sequence: Option<i64>,
}

// `D` is the type of the data: the unchanged JSON, or another type that JSON can be read into.
/// An event of the history.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkflowEvent, bound = ""))]
pub struct Event<D = Option<Document>> {
    /// The sequence number, from 1 without gaps.
    pub sequence: i64,
    /// The type, such as `WORKFLOW_STARTED` or `TASK_COMPLETED`.
    pub event_type: String,
    // `timestamp_ms` as text.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, format = "date-time"))]
    pub timestamp: String,
    pub timestamp_ms: i64,
    /// `COMMAND` for commands of the workflow, otherwise `EXTERNAL`.
    pub origin: String,
    /// The data of this type of event.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub data: D,
}

impl<D> Event<D> {
    /// Whether this event ends the history.
    pub fn is_last(&self) -> bool {
        matches!(
            self.event_type.as_str(),
            "WORKFLOW_COMPLETED" | "WORKFLOW_EXECUTION_FAILED" | "WORKFLOW_CANCELLED"
        )
    }
}

/// The data of an event, by field name. Each value is kept as it was written, because a payload may be nested more
/// deeply than a parser allows.
#[derive(Debug, Clone, Default)]
pub struct Fields(HashMap<String, Document>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let data: Option<Document> = Deserialize::deserialize(from)?;
        // Data that is not an object has no fields.
        let fields = data.and_then(|data| serde_json::from_str(data.get()).ok());
        Ok(Self(fields.unwrap_or_default()))
    }
}

impl Event<Fields> {
    /// The unchanged JSON of a field of the data. `None`: there is no such field.
    pub fn field(&self, key: &str) -> Option<&RawValue> {
        self.data.0.get(key).map(|field| &**field)
    }

    /// A field of the data. `None`: there is no such field, or it has another type.
    pub fn read<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_str(self.field(key)?.get()).ok()
    }

    /// A text field of the data. Empty if there is none.
    pub fn text(&self, key: &str) -> Cow<'_, str> {
        let written = self.field(key).map_or("\"\"", RawValue::get);
        // Only text with escapes differs from its written form.
        match serde_json::from_str::<&str>(written) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(serde_json::from_str(written).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use flovyn_engine::event::EventKind;
    use flovyn_engine::state::SmallEnum;

    use super::{Event, Fields};

    #[test]
    fn the_last_events_are_those_of_the_engine() {
        for kind in EventKind::ALL {
            let event = Event { event_type: kind.to_string(), ..Event::<()>::default() };
            assert_eq!(event.is_last(), kind.is_terminal(), "{kind}");
        }
    }

    fn event(data: &str) -> Event<Fields> {
        let event =
            format!(r#"{{"sequence":1,"eventType":"X","timestampMs":1,"origin":"COMMAND","data":{data}}}"#);
        serde_json::from_str(&event).unwrap()
    }

    #[test]
    fn data_is_kept_as_it_was_written() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let read =
            event(&format!(r#"{{"output":{deep},"name":"ada","said":"a\u0062\n","ms":7, "n": 1.50 }}"#));
        assert_eq!(read.field("output").unwrap().get(), deep);
        assert_eq!(read.field("n").unwrap().get(), "1.50");
        assert_eq!([read.text("name"), read.text("said")], ["ada", "ab\n"]);
        assert_eq!([read.text("output"), read.text("none")], ["", ""]);
        assert_eq!((read.read::<i64>("ms"), read.read::<i64>("name")), (Some(7), None));
    }

    #[test]
    fn data_that_is_no_object_has_no_fields() {
        for data in ["null", "7", "[1]"] {
            assert!(event(data).field("x").is_none(), "{data}");
        }
    }
}
