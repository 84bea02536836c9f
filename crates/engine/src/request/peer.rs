//! The identity of a caller beside its tenant.

use crate::ids::Text;

/// Identifies the client behind a request, as far as its transport can tell. Clients of the public protocol send no claim
/// token, so this decides which claim a report belongs to (see `lifecycle/reporter.rs`).
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// A hash of the credential. `None`: unknown.
    pub credential: Option<i64>,
    /// Number of the connection, never used twice. `None`: unknown, or shared by several workers.
    pub connection: Option<i64>,
    /// Name or id of the worker, if the client sends it. An id identifies the worker; a name only shows that it is another
    /// one. `None`: the client did not send it.
    pub worker: Option<Text>,
}
