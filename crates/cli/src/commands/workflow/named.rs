//! Which execution is meant: by its id, or by `key:` and its key.

use serde::Deserialize;

use crate::client::ClientError;
use crate::exit::Failure;
use crate::remote::Session;

const COLLECTION: &str = "workflow-executions";

/// Path of an action. By a key, it acts on whichever execution has the key at that moment.
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

/// The id, looked up once where a key was given: the open execution of the key, or else the last one.
pub(super) async fn id(session: &Session, named: String) -> Result<String, Failure> {
    let Some(key) = named.strip_prefix("key:") else { return Ok(named) };
    let found: Result<Named, ClientError> = session.client.get(&[COLLECTION, "by-key", key]).await;
    Ok(found?.id)
}
