//! Reads the descriptor: the methods, and the fields of an encoded message.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use prost::encoding::{decode_varint, encode_varint};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Fields that are called ids but are names, or are ignored.
const NOT_IDS: &[&str] = &[
    "worker_pool_id",
    "workflow_definition_id",
    "team_id",
    "process_id",
    "timer_id",
    "build_id",
    "span_id",
    "parent_span_id",
    // The name of a promise to be created.
    "create_promise.promise_id",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
}

/// One field that is set in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// A path such as `commands.schedule_task.kind`.
    pub(super) path: String,
    pub(super) kind: Kind,
}

pub(super) fn is_id(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or_default();
    (name == "id" || name.ends_with("_id")) && !NOT_IDS.iter().any(|other| path.ends_with(other))
}

pub(super) struct Messages {
    /// `/package.Service/Method` and the name of its request.
    pub(super) methods: BTreeMap<String, String>,
    types: BTreeMap<String, DescriptorProto>,
}

impl Messages {
    pub(super) fn load() -> Self {
        let set = FileDescriptorSet::decode(flovyn_proto::DESCRIPTORS).unwrap();
        let (mut methods, mut types) = (BTreeMap::new(), BTreeMap::new());
        for file in set.file.iter().filter(|file| file.package() == "flovyn.v1") {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/flovyn.v1.{}/{}", service.name(), method.name());
                    methods.insert(path, method.input_type().to_owned());
                }
            }
            for message in &file.message_type {
                let name = format!(".flovyn.v1.{}", message.name());
                // Maps are nested messages.
                for nested in &message.nested_type {
                    types.insert(format!("{name}.{}", nested.name()), nested.clone());
                }
                types.insert(name, message.clone());
            }
        }
        Self { methods, types }
    }

    /// Every id field that a request of this type can have.
    pub(super) fn id_paths(&self, message: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for field in &self.types[message].field {
            match field.r#type() {
                Type::Message => {
                    let inner = self.id_paths(field.type_name());
                    found.extend(inner.iter().map(|path| format!("{}.{path}", field.name())));
                }
                Type::String => {
                    found.insert(field.name().to_owned());
                }
                _ => {}
            }
        }
        found.retain(|path| is_id(path));
        found
    }

    /// The texts and payloads in an encoded request, in order.
    pub(super) fn places(&self, path: &str, bytes: &[u8]) -> Vec<Place> {
        let mut places = Vec::new();
        self.rewrite(&self.methods[path], bytes, "", &mut |place| {
            places.push(place);
            None
        });
        places
    }

    /// The request with other content in one of its fields.
    pub(super) fn replaced(&self, path: &str, bytes: &[u8], index: usize, content: &[u8]) -> Vec<u8> {
        let mut seen = 0;
        self.rewrite(&self.methods[path], bytes, "", &mut |_| {
            seen += 1;
            (seen == index + 1).then(|| content.to_vec())
        })
    }

    fn rewrite(
        &self,
        message: &str,
        mut bytes: &[u8],
        path: &str,
        visit: &mut dyn FnMut(Place) -> Option<Vec<u8>>,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let key = decode_varint(&mut bytes).unwrap();
            encode_varint(key, &mut out);
            match key & 7 {
                0 => encode_varint(decode_varint(&mut bytes).unwrap(), &mut out),
                1 => out.extend(bytes.split_off(..8).unwrap()),
                5 => out.extend(bytes.split_off(..4).unwrap()),
                _ => {
                    let length = usize::try_from(decode_varint(&mut bytes).unwrap()).unwrap();
                    let content = bytes.split_off(..length).unwrap();
                    let content = self.field(message, key >> 3, content, path, visit);
                    encode_varint(content.len() as u64, &mut out);
                    out.extend(content);
                }
            }
        }
        out
    }

    fn field(
        &self,
        message: &str,
        number: u64,
        content: &[u8],
        path: &str,
        visit: &mut dyn FnMut(Place) -> Option<Vec<u8>>,
    ) -> Vec<u8> {
        let fields = &self.types[message].field;
        let field = fields.iter().find(|field| field.number().unsigned_abs() as u64 == number).unwrap();
        let path = if path.is_empty() { field.name().to_owned() } else { format!("{path}.{}", field.name()) };
        let kind = match field.r#type() {
            Type::Message => return self.rewrite(field.type_name(), content, &path, visit),
            Type::String => Kind::Text,
            Type::Bytes => Kind::Bytes,
            _ => return content.to_vec(),
        };
        visit(Place { path, kind }).unwrap_or_else(|| content.to_vec())
    }
}
