//! Request bodies: JSON, or empty if every field has a default.

use std::fmt;
use std::marker::PhantomData;

use axum::body::Bytes;
use flovyn_engine::Code;
use flovyn_engine::ids::Payload;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::error::RestError;

/// A value that must be a JSON object. Without this type, serde would also accept a list of the field values.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        value.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

/// Reads a required body.
pub(super) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, RestError> {
    let read: Result<Object<T>, _> = serde_json::from_slice(body);
    read.map(|object| object.0)
        .map_err(|error| RestError::new(Code::InvalidPayload, format!("Invalid body: {error}")))
}

/// Reads an optional body.
pub(super) fn read_or_default<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T, RestError> {
    if body.iter().all(u8::is_ascii_whitespace) { Ok(T::default()) } else { read(body) }
}

/// Reads a document that may be `null`. Only a missing field is `None`.
pub(super) fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(value).map(Some)
}

/// A JSON document inside a body, exactly as it was sent.
pub(super) fn payload(value: Option<Box<RawValue>>, default: &'static str) -> Payload {
    match value {
        Some(value) => Payload::copy_from_slice(value.get().as_bytes()),
        None => Payload::from_static(default.as_bytes()),
    }
}

/// A stored document, inserted into an answer unchanged.
pub(super) fn json(payload: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(payload).ok().filter(|text| !text.is_empty()).unwrap_or("null");
    RawValue::from_string(text.to_owned()).ok()
}
