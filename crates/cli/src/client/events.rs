//! Server-sent events: a parser of the format, and a stream that feeds the parser.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

use super::{ClientError, Result};

/// The longest silence before the connection counts as broken. If there are no events, the server sends a comment
/// every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// The server sends no event of this size.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// A stream of events from the server.
#[derive(Debug)]
pub(crate) struct EventStream {
    body: Incoming,
    parser: Parser,
}

impl EventStream {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, parser: Parser::default() }
    }

    /// The next event of type `wanted`, or of any type if that is `None`. Other events are skipped. Returns `None` at the
    /// end of the stream. Cancel-safe: if the future is dropped, no event is lost.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self, wanted: Option<&str>) -> Result<Option<T>> {
        while let Some(event) = self.next_event().await? {
            if wanted.is_none_or(|wanted| wanted == event.kind) {
                return event.read().map(Some);
            }
        }
        Ok(None)
    }

    /// The next event of any type. `None` at the end of the stream. Cancel-safe.
    pub(crate) async fn next_event(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.parser.next() {
                return Ok(Some(event));
            }
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            let frame = frame.map_err(|_| ClientError::Broken(format!("silent for {SILENCE:?}")))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| ClientError::Broken(error.to_string()))?;
            if let Some(bytes) = frame.data_ref() {
                self.parser.feed(bytes)?;
            }
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.data).map_err(|error| ClientError::Unreadable(error.to_string()))
    }
}

/// Splits bytes into events. The chunks that arrive may end anywhere, also inside a character.
#[derive(Debug, Default)]
struct Parser {
    /// Bytes that are not parsed yet.
    rest: Vec<u8>,
    /// The event that is incomplete so far. `None` between events.
    begun: Option<Event>,
}

impl Parser {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        let size = self.rest.len() + self.begun.as_ref().map_or(0, |event| event.data.len());
        if size > MAX_EVENT_BYTES {
            return Err(ClientError::Unreadable(format!(
                "an event of more than {} MiB",
                MAX_EVENT_BYTES >> 20
            )));
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                // If only comments came before, the empty line ends no event.
                if let Some(event) = self.begun.take() {
                    return Some(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => self.begun.get_or_insert_default().kind = value.to_owned(),
                "data" => {
                    let data = &mut self.begun.get_or_insert_default().data;
                    if !data.is_empty() {
                        data.push('\n');
                    }
                    data.push_str(value);
                }
                // Ignored: a comment, an id (callers know the sequence number from the data), or an unknown field.
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &str) -> Event {
        Event { kind: kind.into(), data: data.into() }
    }

    #[test]
    fn events_do_not_depend_on_how_the_bytes_are_split() {
        let text = ": hello\n\nid: 1\nevent: A\ndata: {\"é\":1}\n\nevent:B\r\ndata:x\r\ndata: y\r\nstrange: z\r\n\r\n:\n\nevent: C";
        let expected = [event("A", "{\"é\":1}"), event("B", "x\ny")];
        for size in 1..=text.len() {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for bytes in text.as_bytes().chunks(size) {
                parser.feed(bytes).unwrap();
                found.extend(std::iter::from_fn(|| parser.next()));
            }
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_too_large_event_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; MAX_EVENT_BYTES / 2 + 1];
        parser.feed(&piece).unwrap();
        assert!(parser.feed(&piece).is_err());
    }
}
