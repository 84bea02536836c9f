//! Finds the execution that an argument names: by its id, or by `key:` followed by its key.

use serde::Deserialize;

use crate::client::ClientError;
use crate::exit::Failure;
use crate::remote::Session;

const COLLECTION: &str = "workflow-executions";

/// The path of an action. With a key, the action applies to the execution that has the key at that moment.
pub(super) fn action<'a>(named: &'a str, action: &'a str) -> Vec<&'a str> {
    match named.strip_prefix("key:") {
        Some(key) => vec![COLLECTION, "by-key", key, action],
        None => vec![COLLECTION, named, action],
    }
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

/// The execution's id. For a key: the open execution with the key, or else the last one.
pub(super) async fn id(session: &Session, named: String) -> Result<String, Failure> {
    let Some(key) = named.strip_prefix("key:") else { return Ok(named) };
    let found: Result<Named, ClientError> = session.client.get(&[COLLECTION, "by-key", key]).await;
    Ok(found?.id)
}
